//! Checks of the stream for what the server says of its own accord.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use mcp_streamable_http::error::NotOffered;
use serde_json::{Value, json};

use crate::calls::method;
use crate::profile::Profile;

pub(crate) async fn hears_of_new_tools(profile: &Profile) {
    hears(profile, "notifications/tools/list_changed", "announce", json!({})).await;
}

pub(crate) async fn hears_of_new_resources(profile: &Profile) {
    let arguments =
        json!({ "name": "note.gz", "data": "data:text/plain,note", "outputType": "resourceLink" });
    hears(profile, "notifications/resources/list_changed", "gzip-file-as-resource", arguments).await;
}

pub(crate) async fn nothing_to_hear(profile: &Profile) {
    let client = profile.connect().await;
    client.call("tools/list", json!({})).await;
    let items: Vec<_> = client.transport().listen().collect().await;
    let [Err(error)] = items.as_slice() else { panic!("{items:?}") };
    assert!(error.find::<NotOffered>().is_some(), "{error:?}");
}

/// Listens, and calls `tool` until `notification` is heard: the server drops what it has to say while nobody listens,
/// and nothing tells when it has begun to.
async fn hears(profile: &Profile, notification: &str, tool: &str, arguments: Value) {
    let client = profile.connect().await;
    let mut listening = client.transport().listen();
    let calling = async {
        loop {
            assert!(!client.tool(tool, arguments.clone()).await.is_error);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let calling = std::pin::pin!(calling);
    let Either::Left((heard, _)) = select(listening.next(), calling).await;
    assert_eq!(method(&heard.unwrap().unwrap()), Some(notification));
}
