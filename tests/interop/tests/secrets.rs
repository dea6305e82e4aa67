//! What is secret is found in no log, no error and no `Debug` output. It is a test binary of its own, as it looks at the
//! logs of the whole process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of the test: a panic is how it fails"
)]

use std::error::Error as _;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use mcp_streamable_http::client::Proxy as Through;
use mcp_streamable_http::error::BoxError;
use mcp_streamable_http::layers::{BearerLayer, CookieLayer};
use mcp_streamable_http::{
    Backoff, Client as HttpClient, Error, JsonRpcMessage, ReinitializePolicy, RetryPolicy, StreamableHttp,
};
use mcp_streamable_http_interop::{Client, Nginx, OwnServer, Proxy, free_port, send_raw};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

/// In every secret but the session's id, which the server chooses.
const MARK: &str = "s3cr3t";
const API_KEY: &str = "s3cr3t-api-key-0123456789";
const TOKEN: &str = "s3cr3t-token-0123456789";
const QUERY: &str = "key=s3cr3t-query-0123456789";
const PASSWORD: &str = "s3cr3t-password-0123456789";
const WRONG: &str = "s3cr3t-wrong-0123456789";
const COOKIE: &str = "s3cr3t-cookie-0123456789";
const TARGET: &str = "http://127.0.0.1:1/away?key=s3cr3t-target-0123456789";

/// All that was printed.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    fn add(&self, shown: &impl Debug) {
        let text = format!("{shown:?}\n{shown:#?}\n");
        self.0.lock().unwrap().extend_from_slice(text.as_bytes());
    }

    fn error(&self, error: &Error) {
        self.add(error);
        self.add(&error.to_string());
        self.add(&error.to_json_rpc());
        let mut source = error.source();
        while let Some(error) = source {
            self.add(&error);
            self.add(&error.to_string());
            source = error.source();
        }
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Scene {
    nginx: Nginx,
    proxy: Proxy,
    output: Output,
}

impl Scene {
    async fn of(server: &OwnServer, output: Output) -> Self {
        let directives = format!(
            "default_type text/plain;
            add_header Set-Cookie 'sid={COOKIE}; Path=/; HttpOnly' always;
            proxy_buffering off;
            proxy_read_timeout 1s;
            location /mcp {{ proxy_pass http://{}; }}
            location /nowhere {{ proxy_pass http://127.0.0.1:{}; }}
            location /away {{ return 307 {TARGET}; }}
            location /echo {{
                return 400 'not $request_uri, $http_authorization, $http_x_api_key, $http_cookie';
            }}
            location /page {{
                return 200 'not $request_uri, $http_authorization, $http_x_api_key, $http_cookie';
            }}",
            server.uri().authority().unwrap(),
            free_port(),
        );
        let proxy = Proxy::http(Some(("ada", PASSWORD)));
        let (nginx, proxy) = tokio::join!(Nginx::tls("", directives), proxy);
        Self { nginx, proxy, output }
    }

    fn through(&self, password: &str) -> Through {
        Through::new(self.proxy.url("http", &format!("ada:{password}@")))
    }

    /// A client of this path, with all that is secret.
    fn client(&self, path: &str, through: Through) -> Client {
        self.output.add(&through);
        let client = HttpClient::builder().root_certificates_pem(self.nginx.authority()).proxy(through);
        self.output.add(&client);
        let client = client.build().unwrap();
        self.output.add(&client);

        let uri = self.nginx.at(&format!("{path}?{QUERY}"));
        let cookies = CookieLayer::new(&uri).unwrap();
        let bearer = BearerLayer::new(&uri, |_| async { Ok::<_, BoxError>(TOKEN.to_owned()) });
        self.output.add(&cookies);
        self.output.add(&bearer);
        // Not marked as sensitive: not everybody does.
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static("x-api-key"), HeaderValue::from_static(API_KEY))]);
        let builder = StreamableHttp::with_client(uri, client)
            .headers(headers)
            .reinitialize(ReinitializePolicy::Fail)
            .retry(RetryPolicy::new().backoff(Backoff::default().attempts(2).base(Duration::from_millis(1))))
            .http_layer(cookies)
            .http_layer(bearer);
        self.output.add(&builder);
        let transport = builder.build().unwrap();
        self.output.add(&transport);
        Client::over(transport)
    }

    /// Sends a request, and prints all there is to the answer. Returns whether it was one.
    async fn ask(&self, client: &Client, message: JsonRpcMessage) -> bool {
        self.output.add(&message);
        let mut reply = match tower::ServiceExt::oneshot(client.transport().clone(), message).await {
            Ok(reply) => reply,
            Err(error) => {
                self.output.error(&error);
                return false;
            }
        };
        self.output.add(&reply);
        self.output.add(&reply.head());
        let mut is_answered = true;
        while let Some(item) = reply.next().await {
            match item {
                Ok(message) => self.output.add(&message),
                Err(error) => {
                    self.output.error(&error);
                    is_answered = false;
                }
            }
        }
        self.output.add(&reply);
        is_answered
    }

    async fn ping(&self, client: &Client) -> bool {
        self.ask(client, client.request("ping", json!({}))).await
    }
}

/// Calls that succeed and that fail; returns the ids of its sessions.
async fn play(scene: &Scene, server: &OwnServer) -> Vec<HeaderValue> {
    let client = scene.client("/mcp", scene.through(PASSWORD));
    client.handshake("2025-11-25", json!({})).await;
    let session = client.transport().session().id().unwrap();
    scene.output.add(&session);
    scene.output.add(client.transport().session());
    assert!(scene.ping(&client).await);
    let slow = json!({ "name": "slow", "arguments": { "steps": 2 }, "_meta": { "progressToken": "t" } });
    assert!(scene.ask(&client, client.request("tools/call", slow)).await);
    // It breaks.
    let linger = json!({ "name": "linger", "arguments": { "name": "on" } });
    assert!(!scene.ask(&client, client.request("tools/call", linger)).await);
    // Its session is unknown.
    let status = send_raw(Method::DELETE, server.uri(), session.clone(), "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(!scene.ping(&client).await);
    assert!(!scene.ping(&client).await);
    client.handshake("2025-11-25", json!({})).await;
    let second = client.transport().session().id().unwrap();
    client.transport().terminate().await.unwrap();
    scene.output.add(client.transport());

    for path in ["/echo", "/page", "/away", "/nowhere"] {
        assert!(!scene.ping(&scene.client(path, scene.through(PASSWORD))).await, "{path}");
    }
    assert!(!scene.ping(&scene.client("/mcp", scene.through(WRONG))).await);
    let nobody = Through::new(format!("socks5h://ada:{PASSWORD}@127.0.0.1:{}", free_port()));
    assert!(!scene.ping(&scene.client("/mcp", nobody)).await);
    vec![session, second]
}

#[tokio::test]
async fn what_is_secret_is_not_found_in_logs_errors_and_debug_output() {
    let (output, logs) = (Output::default(), Output::default());
    let writer = logs.clone();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let playing = async {
        let server = OwnServer::start("sse").await;
        let scene = Scene::of(&server, output.clone()).await;
        play(&scene, &server).await
    };
    let sessions = tokio::time::timeout(Duration::from_secs(60), playing).await.expect("it hangs");

    let (output, logs) = (output.text(), logs.text());
    for part in ["mcp_streamable_http", "hyper_util", "h2", "rustls"] {
        assert!(logs.contains(part), "nothing is logged by {part}");
    }
    // What went wrong is what was meant to.
    for trouble in [
        "400 Bad Request",
        "404 Not Found",
        "502 Bad Gateway",
        "text/plain",
        "http://127.0.0.1:1/away (307",
        "did not connect to 127.0.0.1",
        "the proxy socks5h://127.0.0.1",
        "BrokenStream",
    ] {
        assert!(output.contains(trouble), "there is no {trouble:?}");
    }
    let mut secrets: Vec<_> = sessions.iter().map(|session| session.to_str().unwrap()).collect();
    secrets.push(MARK);
    let is_leak = |line: &&str| secrets.iter().any(|secret| line.contains(secret));
    let leaks: Vec<_> = output.lines().chain(logs.lines()).filter(is_leak).collect();
    let shown: Vec<String> = leaks.iter().take(5).map(|leak| leak.chars().take(400).collect()).collect();
    assert!(leaks.is_empty(), "{} lines, of which the first are {shown:#?}", leaks.len());
}
