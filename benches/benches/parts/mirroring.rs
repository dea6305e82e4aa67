//! What the headers of the modern era cost, and the lists of tools that they are learned from.

use std::fmt::Write;

use criterion::{Criterion, Throughput};
use mcp_streamable_http::layers::{MirrorHeadersLayer, StampVersionLayer};
use mcp_streamable_http::{JsonRpcMessage, Session, ToolHeaders};
use mcp_streamable_http_benches::noop::Noop;
use mcp_streamable_http_benches::texts;
use serde_json::{Map, Value, json};
use tower::ServiceBuilder;

use crate::layers::{Call, call_envelopes};

/// A tool with so many arguments that are mirrored, and a call of it.
fn tool(arguments: usize, value: &Value) -> (ToolHeaders, JsonRpcMessage) {
    let names = (0..arguments).map(|number| format!("argument{number}"));
    let schemas: Map<String, Value> =
        names.clone().map(|name| (name.clone(), json!({ "type": "string", "x-mcp-header": name }))).collect();
    let tools = ToolHeaders::new();
    let tool = json!({ "name": "query", "inputSchema": { "properties": schemas } });
    tools.learn(&tool).unwrap();
    let arguments: Map<String, Value> = names.map(|name| (name, value.clone())).collect();
    let params = json!({ "name": "query", "arguments": arguments, "_meta": texts::modern_meta() });
    (tools, JsonRpcMessage::request(1, "tools/call", params))
}

/// The answer to `tools/list`, of which every second tool is annotated or none is.
fn list(tools: usize, is_annotated: bool) -> String {
    let mut list = String::new();
    for number in 0..tools {
        let annotation = if is_annotated && number % 2 == 0 { r#","x-mcp-header":"Region""# } else { "" };
        let comma = if number == 0 { "" } else { "," };
        write!(
            list,
            r#"{comma}{{"name":"tool{number}","description":"Does something with a region.","inputSchema":{{"type":"object","properties":{{"region":{{"type":"string"{annotation}}},"limit":{{"type":"integer"}}}}}}}}"#
        )
        .unwrap();
    }
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{list}]}}}}"#)
}

pub(crate) fn run(criterion: &mut Criterion) {
    let (plain, unicode) = (json!("eu-west-1"), json!("grüße"));
    let name = |name: &str| {
        let params = json!({ "name": name, "arguments": {}, "_meta": texts::modern_meta() });
        (ToolHeaders::new(), JsonRpcMessage::request(1, "tools/call", params))
    };
    let method = JsonRpcMessage::request(1, "tools/list", json!({ "_meta": texts::modern_meta() }));
    let mut group = criterion.benchmark_group("mirroring of");
    group.bench_function("nothing (no layer), the version stamped", |bencher| {
        let mut service = ServiceBuilder::new()
            .layer(StampVersionLayer::new(Session::new()))
            .service(Noop::new(texts::RESULT));
        let call = Call::new(method.clone());
        bencher.iter(|| call_envelopes(&mut service, &call));
    });
    for (what, (tools, message)) in [
        ("the method", (ToolHeaders::new(), method.clone())),
        ("the method and a name", name("query")),
        ("the method and a name in base64", name("grüße")),
        ("and 1 argument", tool(1, &plain)),
        ("and 4 arguments", tool(4, &plain)),
        ("and 4 arguments in base64", tool(4, &unicode)),
        ("and 16 arguments", tool(16, &plain)),
    ] {
        // The version tells the eras apart, so its layer is part of it.
        let mut service = ServiceBuilder::new()
            .layer(StampVersionLayer::new(Session::new()))
            .layer(MirrorHeadersLayer::new().tools(tools))
            .service(Noop::new(texts::RESULT));
        let call = Call::new(message);
        group.bench_function(what, |bencher| bencher.iter(|| call_envelopes(&mut service, &call)));
    }
    group.finish();

    let mut group = criterion.benchmark_group("learning from a list of");
    for (what, tools, is_annotated) in
        [("100 tools, none annotated", 100, false), ("100 tools, 50 annotated", 100, true)]
    {
        let answer = list(tools, is_annotated);
        group.throughput(Throughput::Elements(tools as u64));
        let mut service = ServiceBuilder::new()
            .layer(StampVersionLayer::new(Session::new()))
            .layer(MirrorHeadersLayer::new())
            .service(Noop::new(answer));
        let call = Call::new(method.clone());
        group.bench_function(what, |bencher| bencher.iter(|| call_envelopes(&mut service, &call)));
    }
    group.finish();
}
