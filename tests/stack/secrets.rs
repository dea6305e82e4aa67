//! Secrets stay out of everything that is printed.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mcp_streamable_http::options::ExtraHeaders;
use mcp_streamable_http::{Error, JsonRpcMessage, Reply, StreamableHttp};
use serde_json::json;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::common::*;
use crate::support::mcp::{VERSION, result};
use crate::support::{Answer, Request, Server};

/// In every secret, so that one search finds them all.
const MARK: &str = "s3cr3t";
/// Short, so that it is not taken for a token by its length.
const SESSION: &str = "s3cr3t-id";
const BEARER: &str = "Bearer s3cr3t-bearer";

/// All that was printed.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn add(&self, text: &str) {
        self.0.lock().unwrap().extend_from_slice(text.as_bytes());
    }

    fn error(&self, error: &Error) {
        self.add(&format!("{error} {error:?} {error:#?} {:?}\n", error.to_json_rpc()));
        let mut source = error.source();
        while let Some(error) = source {
            self.add(&format!("  {error} {error:?}\n"));
            source = error.source();
        }
    }

    fn reply(&self, reply: &Reply) {
        self.add(&format!("{reply:?} {:?}\n", reply.head()));
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

/// Calls of these names are answered in ways that tempt to print what was sent, or what came.
const TEMPTATIONS: [&str; 15] = [
    "status",
    "json-status",
    "challenge",
    "redirect",
    "redirect-answer",
    "page",
    "string",
    "half",
    "no-response",
    "event",
    "event-string",
    "garbage",
    "close",
    "ended",
    "kind",
];

fn tempt(request: &Request, name: &str) -> Answer {
    // What servers like to echo.
    let echo = format!("no session {SESSION} for Authorization: {BEARER}");
    let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -1, "message": "no" } });
    let location = "https://s3cr3t-user:s3cr3t-password@h.example/p?x=s3cr3t-query#s3cr3t-fragment";
    match name {
        "status" => Answer::status(400).text(echo),
        "json-status" => Answer::json(400, json!({ "oops": echo })),
        "challenge" => {
            Answer::status(401).header("www-authenticate", "Bearer realm=\"s3cr3t-realm\"").text(echo)
        }
        "redirect" => Answer::status(307).header("location", location),
        "redirect-answer" => Answer::json(307, error).header("location", location),
        "page" => Answer::status(200).body("text/html", echo),
        "string" => Answer::json(200, json!(echo)),
        "half" => Answer::status(200).body("application/json", format!("{{\"oops\": \"{echo}")),
        "no-response" => Answer::json(200, json!({ "oops": echo })),
        "event" => Answer::sse().raw(format!("data: {{\"oops\": \"{echo}\n\n")),
        "event-string" => Answer::sse().raw(format!("data: \"{echo}\"\n\n")),
        "garbage" => Answer::raw_response(format!("{echo}\r\n\r\n")).close(),
        "close" => Answer::status(200).body("application/json", echo).content_length(5000).close(),
        "ended" => Answer::sse().raw(format!(": {echo}\n\nid: {SESSION}\ndata:\n\n")),
        "kind" => {
            Answer::sse().raw(format!("event: other\ndata: {echo}\n\n")).event(result(request, json!({})))
        }
        _ => panic!("{request}"),
    }
}

fn answer(request: &Request) -> Answer {
    let answer = match (request.method.as_str(), request.rpc_method()) {
        // What takes up a stream of a call again.
        ("GET", _) if request.header("last-event-id").is_some() => Answer::status(403).text(SESSION),
        ("GET", _) if request.nth == 1 => {
            Answer::sse().raw(format!("data: {SESSION}\n\n")).event(progress(1))
        }
        ("GET", _) => Answer::status(403).header("www-authenticate", "Basic s3cr3t-basic"),
        ("DELETE", _) => Answer::status(500).text(SESSION),
        (_, Some("initialize")) => Answer::json(200, result(request, json!({ "protocolVersion": VERSION })))
            .header("mcp-session-id", SESSION),
        (_, Some("ping")) => pong(request),
        // An answer under another id, which is logged.
        (_, Some("tools/list")) => Answer::sse().event(json!({ "jsonrpc": "2.0", "id": 77, "result": {} })),
        (_, Some("expire")) => Answer::status(404).text(SESSION),
        (_, Some("tools/call")) => tempt(request, request.json()["params"]["name"].as_str().unwrap()),
        _ => Answer::status(202),
    };
    answer.another_header("set-cookie", "sid=s3cr3t-cookie")
}

fn extra(message: JsonRpcMessage, name: &'static str) -> JsonRpcMessage {
    let value = HeaderValue::from_static("s3cr3t-extra");
    message.with(ExtraHeaders(HeaderMap::from_iter([(HeaderName::from_static(name), value)])))
}

async fn session_full_of_secrets(output: &Output) {
    let server = Server::start(answer).await;
    // Not marked as sensitive: not everybody does.
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(BEARER))]);
    let builder =
        StreamableHttp::builder(server.url_of("/mcp?key=s3cr3t-key")).headers(headers).backoff(brief());
    output.add(&format!("{builder:?}\n"));
    let transport = builder.build().unwrap();
    handshake(&transport).await;
    output.add(&format!("{transport:?} {transport:#?} {:?}\n", transport.session()));
    output.add(&format!("{:?}\n", transport.session().id()));

    let message = extra(ping(1), "x-api-key");
    output.add(&format!("{message:?} {message}\n"));
    let reply = send(&transport, message).await.unwrap();
    output.reply(&reply);
    let reply = send(&transport, JsonRpcMessage::request(2, "tools/list", ())).await.unwrap();
    output.reply(&reply);
    output.add(&format!("{:?}\n", soon(reply.response()).await.unwrap()));

    for name in TEMPTATIONS {
        let message = JsonRpcMessage::request(1, "tools/call", json!({ "name": name }));
        match send(&transport, message).await {
            Ok(reply) => {
                output.reply(&reply);
                rest(reply).await.iter().for_each(|item| match item {
                    Ok(message) => output.add(&format!("{message:?}\n")),
                    Err(error) => output.error(error),
                });
            }
            Err(error) => output.error(&error),
        }
    }
    for name in ["mcp-session-id", "last-event-id", "mcp-protocol-version"] {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": VERSION });
        let message = JsonRpcMessage::request(1, "tools/list", json!({ "_meta": meta }));
        if name != "mcp-protocol-version" {
            output.error(&send(&transport, extra(message, name)).await.unwrap_err());
        }
    }
    for _ in 0..2 {
        for item in rest(transport.listen()).await {
            let _ = item.map_err(|error| output.error(&error));
        }
    }
    output.error(&ask(&transport, JsonRpcMessage::request(9, "expire", ())).await.unwrap_err());
    output.error(&ask(&transport, ping(10)).await.unwrap_err());
    output.add(&format!("{:?}\n", transport.session()));
    handshake(&transport).await;
    transport.terminate().await.unwrap();
}

#[tokio::test]
async fn no_secret_is_printed_or_logged() {
    let (output, logs) = (Output::default(), Output::default());
    // For the whole process, as one for this thread would miss what another thread has logged first. Other crates
    // have their own rules.
    let ours = Targets::new().with_target("mcp_streamable_http", LevelFilter::TRACE);
    let writer = logs.clone();
    let writer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(writer.with_filter(ours)))
        .unwrap();
    session_full_of_secrets(&output).await;

    let (output, logs) = (output.text(), logs.text());
    assert!(logs.contains("under another id"), "the logs are looked at: {logs}");
    assert!(output.matches("Error(").count() > 2 * TEMPTATIONS.len(), "{output}");
    let leaks: Vec<_> = output.lines().chain(logs.lines()).filter(|line| line.contains(MARK)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[tokio::test]
async fn what_keeps_a_transport_from_being_built_is_told_without_secrets() {
    let output = Output::default();
    for uri in [
        "http://s3cr3t-user:s3cr3t-password@h/mcp?s3cr3t-query",
        "ftp://h/?s3cr3t-query",
        "/mcp?s3cr3t-query",
    ] {
        let builder = StreamableHttp::builder(uri.parse().unwrap());
        output.add(&format!("{builder:?}"));
        output.error(&builder.build().unwrap_err());
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("http://localhost:{port}/mcp?s3cr3t-query").parse().unwrap();
    let transport = StreamableHttp::builder(uri).retry(never_again()).build().unwrap();
    output.error(&ask(&transport, ping(1)).await.unwrap_err());
    assert!(!output.text().contains(MARK), "{}", output.text());
}
