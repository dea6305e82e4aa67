//! Checks of the end of sessions.

use http::{HeaderValue, Method, StatusCode};
use mcp_streamable_http::{ReinitializePolicy, StreamableHttp};
use mcp_streamable_http_interop::{Client, send_raw};
use serde_json::json;

use crate::profile::Profile;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

pub(crate) async fn ends_when_terminated(profile: &Profile) {
    let client = profile.connect().await;
    let session = client.transport().session().id().unwrap();
    let ping = || send_raw(Method::POST, profile.server.uri(), session.clone(), PING);
    assert_eq!(ping().await, StatusCode::OK);

    client.transport().terminate().await.unwrap();
    assert_eq!(client.transport().session().id(), None);
    let status = ping().await;
    assert!([StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST].contains(&status), "{status}");

    client.handshake("2025-11-25", json!({})).await;
    assert_ne!(client.transport().session().id(), Some(session));
    client.call("ping", json!({})).await;
}

/// A server that answers 404, as the specification wants: the call is made in a new session.
pub(crate) async fn begins_anew_when_ended_by_another(profile: &Profile) {
    let client = profile.connect().await;
    let ended = end_by_another(profile, &client).await;
    client.call("ping", json!({})).await;
    let session = client.transport().session();
    assert!(!session.is_expired());
    assert!(session.id().is_some_and(|id| id != ended));
}

/// The same where the application wants to begin anew itself.
pub(crate) async fn expires_when_ended_by_another(profile: &Profile) {
    let builder = StreamableHttp::builder(profile.server.uri()).reinitialize(ReinitializePolicy::Fail);
    let client = Client::over(builder.build().unwrap());
    client.handshake("2025-11-25", json!({})).await;
    end_by_another(profile, &client).await;
    let error = client.try_call("ping", json!({})).await.unwrap_err();
    assert!(error.is_session_expired(), "{error:?}");
    let session = client.transport().session();
    assert!(session.is_expired());
    assert_eq!(session.id(), None);

    // It stays so, without asking the server, until there is a new session.
    assert!(client.try_call("ping", json!({})).await.unwrap_err().is_session_expired());
    client.handshake("2025-11-25", json!({})).await;
    assert!(!session.is_expired());
    client.call("ping", json!({})).await;
}

/// A server that answers 400 and a JSON-RPC error of its own, which is then the answer.
pub(crate) async fn is_refused_when_ended_by_another(profile: &Profile) {
    let client = profile.connect().await;
    end_by_another(profile, &client).await;
    let error = client.refused("ping", json!({})).await;
    assert_eq!((error.code(), error.message()), (-32000, "Bad Request: No valid session ID provided"));
}

pub(crate) async fn nothing_to_terminate(profile: &Profile) {
    let client = profile.connect().await;
    client.call("tools/list", json!({})).await;
    assert_eq!(client.transport().session().id(), None);
    client.transport().terminate().await.unwrap();
    client.call("tools/list", json!({})).await;
}

/// Returns the id of the session that was ended.
async fn end_by_another(profile: &Profile, client: &Client) -> HeaderValue {
    let session = client.transport().session().id().unwrap();
    assert_eq!(send_raw(Method::DELETE, profile.server.uri(), session.clone(), "").await, StatusCode::OK);
    session
}
