//! nginx between the transport and servers of the Python SDK.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use http::{Uri, Version};
use mcp_streamable_http::{Builder, Client as HttpClient, JsonRpcMessage, StreamableHttp};
use mcp_streamable_http_interop::{Client, Nginx, ToolResult};
use serde_json::json;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::calls::{exchange, with_progress};
use crate::profile::{JSON, MODERN, Profile, RESUME, SSE};
use crate::resuming::{listen, progress, speak_until_heard};

/// What a proxy needs to know to pass the server's events on as they come.
pub(crate) const AT_ONCE: &str = "proxy_buffering off;";

const GZIP: &str =
    "gzip on; gzip_proxied any; gzip_min_length 0; gzip_types application/json text/event-stream;";

/// The server at `to`, behind it.
pub(crate) fn pass(to: &Uri) -> String {
    format!("location /mcp {{ proxy_pass http://{}; }}", to.authority().unwrap())
}

pub(crate) async fn bounded(test: impl Future<Output = ()>) {
    timeout(PATIENCE, test).await.expect("it hangs");
}

/// A client that is ready to call.
pub(crate) async fn handshaken(transport: StreamableHttp) -> Client {
    let client = Client::over(transport);
    client.handshake("2025-11-25", json!({})).await;
    client
}

/// Options for a transport that trusts the authority of `nginx`.
pub(crate) fn trusting(nginx: &Nginx, path: &str) -> Builder<HttpClient> {
    let client = HttpClient::builder().root_certificates_pem(nginx.authority()).build().unwrap();
    StreamableHttp::with_client(nginx.at(path), client)
}

mod http2 {
    use super::*;

    async fn before(profile: &Profile) -> (Nginx, Client) {
        let nginx = Nginx::tls(AT_ONCE, pass(&profile.server.uri())).await;
        let client = handshaken(trusting(&nginx, "/mcp").build().unwrap()).await;
        (nginx, client)
    }

    #[tokio::test]
    async fn a_call_is_made_over_it() {
        bounded(async {
            let (nginx, client) = before(&SSE).await;
            let reply = client.send(client.request("ping", json!({}))).await;
            assert_eq!(reply.head().unwrap().version, Version::HTTP_2);
            reply.response().await.unwrap();
            exchange(&client, &(SSE.echo)(&"Grüße ".repeat(50_000))).await;
            client.transport().terminate().await.unwrap();
            let served = nginx.until_served(|served| served.len() == 5).await;
            assert!(served.iter().all(|request| request.protocol == "HTTP/2.0"), "{served:?}");
            assert_eq!(served[4].method, "DELETE");
        })
        .await;
    }

    #[tokio::test]
    async fn progress_comes_first() {
        bounded(async {
            let (_nginx, client) = before(&SSE).await;
            with_progress(&client, &SSE, json!("a token")).await;
        })
        .await;
    }

    #[tokio::test]
    async fn what_the_server_says_of_its_own_accord_is_heard() {
        bounded(async {
            let (_nginx, client) = before(&RESUME).await;
            let mut heard = listen(&client);
            let (first, last) = speak_until_heard(&client, &mut heard).await;
            for number in first + 1..=last {
                assert_eq!(heard.recv().await, Some(number));
            }
        })
        .await;
    }

    #[tokio::test]
    async fn sixty_four_calls_share_one_connection() {
        bounded(async {
            let (nginx, client) = before(&SSE).await;
            // Each waits until all are there.
            join_all((0..64).map(|number| {
                let client = &client;
                async move {
                    let arguments = json!({ "name": "over HTTP/2", "size": 64, "number": number });
                    let result = client.tool("gather", arguments).await;
                    assert_eq!(result.text, format!("{number} of 64"));
                }
            }))
            .await;
            let served = nginx.until_served(|served| served.len() == 66).await;
            assert!(served.iter().all(|request| request.connection == served[0].connection), "{served:?}");
        })
        .await;
    }

    #[tokio::test]
    async fn another_authority_is_not_trusted() {
        bounded(async {
            let (nginx, other) = tokio::join!(
                Nginx::tls("", pass(&SSE.server.uri())),
                Nginx::tls("", pass(&SSE.server.uri()))
            );
            let client = HttpClient::builder().root_certificates_pem(other.authority()).build().unwrap();
            let transport = StreamableHttp::with_client(nginx.at("/mcp"), client).build().unwrap();
            let error = Client::over(transport).try_call("ping", json!({})).await.unwrap_err();
            assert!(error.is_connect() && error.to_string().contains("certificate"), "{error}");
            assert!(nginx.served().is_empty());
        })
        .await;
    }
}

mod compression {
    use super::*;

    /// How the answers to calls were compressed, and what the client had allowed.
    async fn of_calls(profile: &Profile, asked_for: bool) -> Vec<(String, String)> {
        let nginx = Nginx::plain(format!("{AT_ONCE} {GZIP}"), pass(&profile.server.uri())).await;
        let builder = StreamableHttp::builder(nginx.at("/mcp"));
        let transport = if asked_for { builder.decompression().build() } else { builder.build() }.unwrap();
        let client = handshaken(transport).await;
        exchange(&client, &(profile.echo)(&"Grüße ".repeat(50_000))).await;
        with_progress(&client, profile, json!("a token")).await;
        let served = nginx.until_served(|served| served.len() == 4).await;
        served[2..].iter().map(|call| (call.accept_encoding.clone(), call.encoding.clone())).collect()
    }

    async fn is_asked_for(profile: &Profile) {
        for (allowed, used) in of_calls(profile, true).await {
            assert!(allowed.contains("gzip"), "{allowed}");
            assert_eq!(used, "gzip");
        }
    }

    #[tokio::test]
    async fn of_json_works_when_asked_for() {
        bounded(is_asked_for(&JSON)).await;
    }

    #[tokio::test]
    async fn of_events_works_when_asked_for() {
        bounded(is_asked_for(&SSE)).await;
    }

    #[tokio::test]
    async fn is_not_asked_for_by_default() {
        bounded(async {
            for profile in [&JSON, &SSE] {
                let plain = ("-".to_owned(), "-".to_owned());
                assert_eq!(of_calls(profile, false).await, [plain.clone(), plain]);
            }
        })
        .await;
    }

    #[tokio::test]
    async fn of_events_holds_none_back_if_the_proxy_flushes() {
        bounded(async {
            let nginx = Nginx::plain(format!("{AT_ONCE} {GZIP}"), pass(&SSE.server.uri())).await;
            let transport = StreamableHttp::builder(nginx.at("/mcp")).decompression().build().unwrap();
            crate::resuming::step_by_step(&handshaken(transport).await, &SSE).await;
        })
        .await;
    }
}

mod buffering {
    use super::*;

    #[tokio::test]
    async fn switched_off_lets_progress_arrive_before_the_result() {
        bounded(async {
            let nginx = Nginx::plain(AT_ONCE, pass(&SSE.server.uri())).await;
            let client = handshaken(StreamableHttp::new(nginx.at("/mcp")).unwrap()).await;
            crate::resuming::step_by_step(&client, &SSE).await;
        })
        .await;
    }

    /// The proxy keeps what the server reports until the answer is complete.
    #[tokio::test]
    async fn holds_back_but_loses_nothing() {
        bounded(async {
            // The server asks for no buffering. By HTTP/1.0 nginx asks by default: only chunks would not be held.
            let location = format!(
                "location /mcp {{
                    proxy_ignore_headers X-Accel-Buffering;
                    proxy_http_version 1.0;
                    proxy_pass http://{};
                }}",
                SSE.server.uri().authority().unwrap()
            );
            let nginx = Nginx::plain("proxy_buffering on;", location).await;
            let client = handshaken(StreamableHttp::new(nginx.at("/mcp")).unwrap()).await;
            let guide = SSE.connect().await;
            let arguments = json!({ "name": "buffered", "legs": 3, "hang_up": false });
            let meta = json!({ "progressToken": "t" });
            let call = json!({ "name": "travel", "arguments": arguments, "_meta": meta });
            let call = client.request("tools/call", call);
            let mut beginning = std::pin::pin!(async {
                let mut reply = client.send(call).await;
                (reply.next().await.unwrap().unwrap(), reply)
            });
            let early = timeout(Duration::from_millis(500), &mut beginning).await;
            assert!(early.is_err(), "it is not held back: {early:?}");
            for _ in 0..3 {
                guide.tool("proceed", json!({ "name": "buffered" })).await;
            }
            let (first, rest) = beginning.await;
            let mut items = vec![first];
            items.extend(StreamExt::map(rest, Result::unwrap).collect::<Vec<_>>().await);
            let (response, reports) = items.split_last().unwrap();
            assert_eq!(reports.iter().map(progress).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
            let result = ToolResult::read(&response.as_response().unwrap().result().unwrap());
            assert_eq!(result.text, "trip 1 arrived after 3 legs");
        })
        .await;
    }
}

mod redirects {
    use super::*;

    #[tokio::test]
    async fn to_a_trailing_slash_are_followed_with_method_and_body() {
        bounded(async {
            let server = format!(
                "location = /mcp {{ return 307 /mcp/$is_args$args; }}
                location = /mcp/ {{ proxy_pass http://{}/mcp; }}",
                SSE.server.uri().authority().unwrap()
            );
            let nginx = Nginx::tls(AT_ONCE, server).await;
            let client = handshaken(trusting(&nginx, "/mcp?a=b").build().unwrap()).await;
            exchange(&client, &(SSE.echo)("redirected")).await;
            client.transport().terminate().await.unwrap();
            let served = nginx.until_served(|served| served.len() == 8).await;
            let mut seen: Vec<_> = served
                .iter()
                .map(|one| (one.method.as_str(), one.path.as_str(), one.status.as_str()))
                .collect();
            // They are noted when they end, one or the other first.
            seen.sort_unstable();
            let mut expected = Vec::new();
            for (method, status) in [("DELETE", "200"), ("POST", "200"), ("POST", "200"), ("POST", "202")] {
                expected.extend([(method, "/mcp", "307"), (method, "/mcp/", status)]);
            }
            expected.sort_unstable();
            assert_eq!(seen, expected);
        })
        .await;
    }

    #[tokio::test]
    async fn from_https_to_http_fail_and_name_the_target_without_its_query() {
        bounded(async {
            let plain = Nginx::plain("", pass(&SSE.server.uri())).await;
            let target = format!("{}?key=hidden", plain.at("/mcp"));
            let nginx = Nginx::tls("", format!("location /mcp {{ return 307 {target}; }}")).await;
            let client = Client::over(trusting(&nginx, "/mcp").build().unwrap());
            let error = client.try_call("ping", json!({})).await.unwrap_err();
            assert_eq!(error.status().unwrap(), 307);
            assert!(!error.may_have_run());
            let text = error.to_string();
            assert!(text.contains(&plain.at("/mcp").to_string()), "{text}");
            assert!(!format!("{text} {error:?}").contains("hidden"), "{error:?}");
            assert!(plain.served().is_empty());
        })
        .await;
    }
}

#[tokio::test]
async fn the_modern_era_works_behind_it() {
    bounded(async {
        let nginx = Nginx::tls(AT_ONCE, pass(&MODERN.server.uri())).await;
        let client = Client::modern_over(trusting(&nginx, "/mcp").build().unwrap());
        with_progress(&client, &MODERN, json!("a token")).await;
        exchange(&client, &(MODERN.echo)("modern")).await;
        let listen =
            client.request("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
        let mut reply = client.send(listen).await;
        let acknowledged = reply.next().await.unwrap().unwrap();
        assert!(acknowledged.as_notification().is_some());
        client.tool("announce", json!({})).await;
        let heard: JsonRpcMessage = reply.next().await.unwrap().unwrap();
        assert_eq!(crate::calls::method(&heard), Some("notifications/tools/list_changed"));
    })
    .await;
}
