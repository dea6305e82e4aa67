//! A server of rmcp's own, for the example to talk to.

use std::error::Error;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Starts it, for those who have the token. Returns its URL.
pub(crate) async fn serve(token: &str) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let expected = format!("Bearer {token}");
    let config = StreamableHttpServerConfig::default();
    let mcp = StreamableHttpService::new(|| Ok(Adder), Arc::<LocalSessionManager>::default(), config);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (mcp, expected) = (TowerToHyperService::new(mcp.clone()), expected.clone());
            let guarded = service_fn(move |request: Request<Incoming>| {
                let is_known = request.headers().get(AUTHORIZATION).is_some_and(|token| *token == *expected);
                let answer = hyper::service::Service::call(&mcp, request);
                async move {
                    match is_known {
                        true => answer.await.map(|answer| answer.map(Either::Left)),
                        false => {
                            let mut refusal =
                                Response::new(Either::Right(Empty::new().map_err(|never| match never {})));
                            *refusal.status_mut() = StatusCode::UNAUTHORIZED;
                            Ok(refusal)
                        }
                    }
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), guarded));
        }
    });
    Ok(url)
}

/// A server with one tool.
struct Adder;

impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("add", "Adds `a` and `b`.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.name != "add" {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        }
        let arguments = Value::from(call.arguments.unwrap_or_default());
        let sum = arguments["a"].as_f64().zip(arguments["b"].as_f64()).map(|(a, b)| a + b);
        let sum = sum.ok_or_else(|| ErrorData::invalid_params("`a` and `b` must be numbers", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(sum.to_string())]).into())
    }
}
