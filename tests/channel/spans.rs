//! The spans in which messages are sent.

use std::sync::{Arc, Mutex};

use mcp_streamable_http::{Error, JsonRpcMessage, Reply, StreamableHttp};
use serde_json::json;
use tower::layer::layer_fn;
use tower::util::BoxCloneSyncService;
use tower::{Service, service_fn};
use tracing::{Span, info_span};

use crate::common::*;
use crate::support::{Answer, Server};

/// Which message went through which span: at its call, and while it was sent.
type Log = Arc<Mutex<Vec<(String, [Option<&'static str>; 2])>>>;

fn current() -> Option<&'static str> {
    Span::current().metadata().map(|metadata| metadata.name())
}

fn with_log(transport: StreamableHttp, log: &Log) -> StreamableHttp {
    type Messages = BoxCloneSyncService<JsonRpcMessage, Reply, Error>;
    let log = log.clone();
    transport.layer(layer_fn(move |messages: Messages| {
        let log = log.clone();
        service_fn(move |message: JsonRpcMessage| {
            let what = message.method().unwrap_or("=").to_owned();
            let (at_call, log) = (current(), log.clone());
            let call = messages.clone().call(message);
            async move {
                log.lock().unwrap().push((what, [at_call, current()]));
                call.await
            }
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_in_the_span_of_its_sender() {
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let log = Log::default();
    let mut server =
        Server::scripted(|seen| matches!(seen.what(), "a" | "b" | "=").then(|| Answer::status(202)));
    let mut channel = with_log(server.transport(), &log).channel();
    let sender = channel.sender();
    // The rest waits for it, in a span that is not theirs.
    info_span!("handshake").in_scope(|| send(&sender, [initialize(0)]));
    info_span!("first").in_scope(|| send(&sender, [request(1), notification("a")]));
    info_span!("second").in_scope(|| send(&sender, [JsonRpcMessage::request(2, "call", ())]));
    send(&sender, [notification("b")]);
    info_span!("third").in_scope(|| send(&sender, [response(3)]));
    info_span!("reader")
        .in_scope(|| async {
            server.expect("initialize").await.result(json!({ "protocolVersion": VERSION }));
            for _ in 0..2 {
                server.next().await.result(json!({}));
            }
            for _ in 0..3 {
                next(&mut channel).await;
            }
        })
        .await;
    settle().await;
    let mut log = log.lock().unwrap().clone();
    log.sort_unstable();
    let expected = [
        ("=", Some("third")),
        ("a", Some("first")),
        ("b", None),
        ("call", Some("second")),
        ("initialize", Some("handshake")),
        ("ping", Some("first")),
    ];
    assert_eq!(log, expected.map(|(what, span)| (what.to_owned(), [span; 2])));
}
