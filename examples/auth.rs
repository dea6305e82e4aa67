//! Authorizes every request with a token that expires, and gets another when the server refuses it.
//!
//! `BearerLayer` lives on the wire floor, as GET and DELETE want the token too, and the builder puts it outside of `Redirect`,
//! so that the token goes to the server that it is meant for and to no other.
//!
//! ```text
//! cargo run --example auth
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::layers::BearerLayer;
use mcp_streamable_http::layers::bearer::Refusal;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let uri: Uri = "http://in.memory/mcp".parse()?;
    let transport = StreamableHttp::with_client(uri.clone(), service_fn(server))
        .http_layer(BearerLayer::new(&uri, token))
        .build()?;

    // Two calls at a time, and the source is asked for one fresh token.
    let (first, second) = tokio::join!(ping(&transport, 1), ping(&transport, 2));
    println!("Answered: {} and {}.", first?, second?);
    println!("With the same token: {}.", ping(&transport, 3).await?);
    Ok(())
}

async fn ping(transport: &StreamableHttp, id: i64) -> Result<Value, Box<dyn Error>> {
    let reply = transport.clone().oneshot(JsonRpcMessage::request(id, "ping", ())).await?;
    Ok(reply.response().await?.result()?)
}

/// The source of tokens. A real one asks an authorization server, and keeps the token for the next start.
async fn token(refusal: Option<Refusal>) -> Result<String, BoxError> {
    let Some(refusal) = refusal else {
        println!("The token is the one of last time.");
        return Ok("stale".to_owned());
    };
    // The challenges say what is wrong, and where the authorization server is.
    let is_expired = |challenge: &http::HeaderValue| {
        challenge.to_str().is_ok_and(|challenge| challenge.contains("error=\"invalid_token\""))
    };
    if !refusal.challenges.iter().any(is_expired) {
        return Err("the server wants something else than a fresh token".into());
    }
    println!("It was refused, and here is a fresh one.");
    Ok("fresh".to_owned())
}

/// The MCP server, in the shape of an HTTP client. It knows one token, and one answer.
async fn server(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, BoxError> {
    if request.headers().get(AUTHORIZATION).is_none_or(|token| token != "Bearer fresh") {
        let challenge = "Bearer error=\"invalid_token\"";
        let refused =
            Response::builder().status(StatusCode::UNAUTHORIZED).header(WWW_AUTHENTICATE, challenge);
        return Ok(refused.body(Full::default())?);
    }
    let message: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let response = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} });
    Ok(Response::builder().header(CONTENT_TYPE, "application/json").body(response.to_string().into())?)
}
