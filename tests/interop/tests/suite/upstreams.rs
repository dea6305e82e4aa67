//! nginx that is impatient, or has two servers to choose from.

use futures_util::StreamExt;
use futures_util::future::join_all;
use mcp_streamable_http::error::GaveUp;
use mcp_streamable_http::layers::CookieLayer;
use mcp_streamable_http::{ReinitializePolicy, StreamableHttp};
use mcp_streamable_http_interop::{Client, Nginx, OwnServer, Served};
use serde_json::json;

use crate::calls::{exchange, with_progress};
use crate::nginx::{AT_ONCE, bounded, handshaken, pass};
use crate::profile::{JSON, Profile, RESUME, SSE};
use crate::resuming::{Trip, backoff, listen, speak_until_heard};

mod idle_timeouts {
    use super::*;

    const IMPATIENT: &str = "proxy_buffering off; proxy_read_timeout 1s;";

    async fn before(profile: &Profile) -> (Nginx, Client) {
        let nginx = Nginx::plain(IMPATIENT, pass(&profile.server.uri())).await;
        let builder = StreamableHttp::builder(nginx.at("/mcp")).backoff(backoff());
        let client = handshaken(builder.build().unwrap()).await;
        (nginx, client)
    }

    #[tokio::test]
    async fn a_call_with_event_ids_goes_on() {
        bounded(async {
            let (nginx, client) = before(&RESUME).await;
            let guide = RESUME.connect().await;
            let mut trip = Trip::begin(&client, false).await;
            trip.reports_of(0).await;
            // Nothing is said until the proxy has cut both the call, and what took it up again.
            let cut = |one: &Served| one.method == "GET" && one.last_event != "-";
            let cut = nginx.until_served(|served| served.iter().any(cut));
            tokio::select! {
                _ = cut => {}
                item = trip.reply.next() => panic!("{item:?}"),
            }
            for leg in 1..=3 {
                trip.proceed(&guide).await;
                if leg < 3 {
                    trip.reports_of(leg).await;
                }
            }
            trip.arrives().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_call_without_event_ids_fails_and_may_have_run() {
        bounded(async {
            let (nginx, client) = before(&SSE).await;
            let mut trip = Trip::begin(&client, false).await;
            trip.reports_of(0).await;
            let error = trip.reply.next().await.unwrap().unwrap_err();
            assert!(error.may_have_run() && !error.is_connect(), "{error:?}");
            assert!(error.find::<GaveUp>().is_none(), "{error:?}");
            assert!(trip.reply.next().await.is_none());
            exchange(&client, &(SSE.echo)("still here")).await;
            let posts = nginx.until_served(|served| served.len() >= 4).await;
            assert!(posts.iter().all(|one| one.last_event == "-"), "{posts:?}");
        })
        .await;
    }

    #[tokio::test]
    async fn a_call_whose_head_is_late_fails_and_is_made_once() {
        bounded(async {
            let (nginx, client) = before(&JSON).await;
            let arguments = json!({ "name": "too late", "legs": 1, "hang_up": false });
            let call = json!({ "name": "travel", "arguments": arguments });
            let error = client.try_call("tools/call", call).await.unwrap_err();
            assert_eq!(error.status().unwrap(), 504);
            assert!(error.may_have_run(), "{error:?}");
            let served = nginx.until_served(|served| served.iter().any(|one| one.status == "504")).await;
            assert_eq!(served.iter().filter(|one| one.status == "504").count(), 1, "{served:?}");
        })
        .await;
    }

    #[tokio::test]
    async fn listening_goes_on() {
        bounded(async {
            for profile in [&RESUME, &SSE] {
                let (nginx, client) = before(profile).await;
                let mut heard = listen(&client);
                let cut = |served: &[Served]| {
                    served.iter().filter(|one| one.method == "GET" && one.status == "200").count() >= 2
                };
                nginx.until_served(cut).await;
                speak_until_heard(&client, &mut heard).await;
            }
        })
        .await;
    }
}

mod two_servers {
    use super::*;

    /// nginx in front of both, in turn, unless a cookie says which of them it is.
    async fn before() -> (Nginx, [OwnServer; 2]) {
        let (a, b) = tokio::join!(OwnServer::start("sse"), OwnServer::start("sse"));
        let [first, second] = [&a, &b].map(|server| server.uri().authority().unwrap().to_string());
        let http = format!(
            "{AT_ONCE}
            upstream in_turn {{ server {first}; server {second}; }}
            map $cookie_route $chosen {{ default in_turn; a {first}; b {second}; }}
            map $upstream_addr $route {{ {first} a; {second} b; }}"
        );
        let server = "location /mcp {
            proxy_pass http://$chosen;
            proxy_set_header Host 127.0.0.1:1;
            proxy_set_header Connection '';
            add_header Set-Cookie 'route=$route; Path=/; HttpOnly' always;
        }";
        (Nginx::plain(http, server).await, [a, b])
    }

    #[tokio::test]
    async fn with_cookies_all_of_a_session_goes_to_the_same() {
        bounded(async {
            let (nginx, _servers) = before().await;
            join_all((0..8).map(|_| async {
                let uri = nginx.at("/mcp");
                let builder =
                    StreamableHttp::builder(uri.clone()).http_layer(CookieLayer::new(&uri).unwrap());
                let builder = builder.reinitialize(ReinitializePolicy::Fail);
                let client = handshaken(builder.build().unwrap()).await;
                join_all((0..8).map(|_| with_progress(&client, &SSE, json!("a token")))).await;
                client.transport().terminate().await.unwrap();
            }))
            .await;
            let served = nginx.until_served(|served| served.len() == 8 * 11).await;
            assert!(served.iter().all(|one| one.status.starts_with('2')), "{served:?}");
            let mut sessions: Vec<_> = served.iter().map(|one| (&one.session, &one.upstream)).collect();
            sessions.retain(|(session, _)| *session != "-");
            sessions.sort();
            sessions.dedup();
            assert_eq!(sessions.len(), 8, "{sessions:?}");
            let first = sessions[0].1;
            assert_eq!(sessions.iter().filter(|(_, upstream)| *upstream == first).count(), 4, "{sessions:?}");
        })
        .await;
    }

    #[tokio::test]
    async fn without_cookies_a_session_is_not_known_to_the_other() {
        bounded(async {
            let (nginx, _servers) = before().await;
            let builder = StreamableHttp::builder(nginx.at("/mcp")).reinitialize(ReinitializePolicy::Fail);
            let client = Client::over(builder.build().unwrap());
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "interop", "version": "1.0" },
            });
            client.call("initialize", params).await;
            let error = client.try_call("ping", json!({})).await.unwrap_err();
            assert!(error.is_session_expired(), "{error:?}");
            assert_eq!(error.status().unwrap(), 404);
        })
        .await;
    }
}
