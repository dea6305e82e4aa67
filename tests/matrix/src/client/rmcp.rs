//! The official Rust SDK, on the transport instead of its own.

#![expect(deprecated, reason = "rmcp deprecates sampling and logging; servers use them all the same")]

use std::future::Future;
use std::sync::Arc;

use http::Uri;
use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http_rmcp::IntoRmcp;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, Implementation, JsonObject,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Call, Client, Era, Host, text_of};
use crate::Result;

/// A client of rmcp's.
#[derive(Debug)]
pub(crate) struct Rmcp {
    service: RunningService<RoleClient, Handler>,
}

/// Asks the host what it is asked.
#[derive(Clone, Debug)]
struct Handler {
    host: Arc<Host>,
}

impl Client for Rmcp {
    /// rmcp gives each notification to a task of its own.
    const KEEPS_ORDER: bool = false;

    async fn connect(uri: Uri, era: Era, host: Arc<Host>) -> Result<Self> {
        let transport = StreamableHttp::new(uri)?.into_rmcp();
        let lifecycle = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
        };
        let service = Handler { host }.serve_with_lifecycle(transport, lifecycle).await?;
        Ok(Self { service })
    }

    async fn tools(&self) -> Result<Vec<String>> {
        Ok(self.service.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned()).collect())
    }

    async fn call(&self, call: Call) -> Result<String> {
        let result = self.service.call_tool(params_of(call)?).await?;
        text_of(&serde_json::to_value(result)?)
    }

    async fn read(&self, uri: &str) -> Result<String> {
        let result = self.service.read_resource(ReadResourceRequestParams::new(uri)).await?;
        let result = serde_json::to_value(result)?;
        let text = result["contents"][0]["text"].as_str();
        Ok(text.ok_or_else(|| format!("no text: {result}"))?.to_owned())
    }

    async fn cancel(&self, call: Call, when: impl Future<Output = Result<()>> + Send) -> Result<()> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params_of(call)?));
        let options = PeerRequestOptions::no_options();
        let mut handle = self.service.send_cancellable_request(request, options).await?;
        tokio::select! {
            done = when => done?,
            outcome = &mut handle.rx => return Err(format!("not cancelled yet, it ends: {outcome:?}").into()),
        }
        Ok(handle.cancel(None).await?)
    }

    async fn close(self) -> Result<()> {
        self.service.cancel().await?;
        Ok(())
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = serde_json::from_value(Host::capabilities()).unwrap_or_default();
        ClientConfig::new(capabilities, Implementation::new("matrix", "1.0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.answer("sampling/createMessage", &params)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.answer("elicitation/create", &params)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.host.report(params.progress);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Ok(params) = serde_json::to_value(params) {
            self.host.hear("notifications/message", &params);
        }
    }
}

impl Handler {
    fn answer<T: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<T, ErrorData> {
        let answer = || -> Result<T> {
            let answer = self.host.answer(method, &serde_json::to_value(params)?)?;
            Ok(serde_json::from_value(answer)?)
        };
        answer().map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

fn params_of(call: Call) -> Result<CallToolRequestParams> {
    let arguments: JsonObject = match call.arguments {
        Value::Object(arguments) => arguments,
        other => return Err(format!("no object: {other}").into()),
    };
    Ok(CallToolRequestParams::new(call.tool).with_arguments(arguments))
}
