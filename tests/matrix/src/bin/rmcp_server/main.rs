//! A server on the official Rust SDK, for clients to be driven against.
//!
//! ```text
//! rmcp_server MODE
//! ```
//!
//! Once it accepts connections it prints one line to the standard output, `LISTENING http://127.0.0.1:PORT/mcp`. It ends
//! when its standard input does. MODE chooses how the handshake era is served; 2026-07-28 always is, on the same endpoint:
//!
//! - `sessions`: with sessions, SSE streams, and event ids: streams can be resumed with `Last-Event-ID`;
//! - `stateless`: without sessions;
//! - `modern`: not at all.
//!
//! The tools are those of the other servers with the same names, so the same checks can be made of all.

#![expect(deprecated, reason = "rmcp deprecates sampling; clients are asked all the same")]

mod events;

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write, stdin, stdout};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequest,
    CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, InputRequest, InputRequiredResult,
    InputResponses, JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    SamplingMessage, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use self::events::Events;

/// The names of the tools.
const TOOLS: [&str; 8] = ["echo", "repeat", "slow", "consult", "linger", "fate", "travel", "proceed"];

/// How soon a client may come back, and how soon the server notices that one has gone: it does when it writes.
const MOMENT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sessions,
    Stateless,
    Modern,
}

#[derive(Clone)]
struct Server {
    mode: Mode,
    shared: Arc<Shared>,
}

/// What calls and sessions have in common, by the name that a call gives.
#[derive(Default)]
struct Shared {
    fates: Mutex<HashMap<String, &'static str>>,
    trips: Mutex<HashMap<String, usize>>,
    permits: Mutex<HashMap<String, Arc<Semaphore>>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mode = match std::env::args().nth(1).as_deref() {
        Some("sessions") => Mode::Sessions,
        Some("stateless") => Mode::Stateless,
        Some("modern") => Mode::Modern,
        _ => return Err("usage: rmcp_server sessions|stateless|modern".into()),
    };
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        process::exit(0)
    });
    let server = Server { mode, shared: Arc::default() };
    let mut manager = LocalSessionManager::default();
    manager.session_config.sse_retry = Some(MOMENT);
    if mode == Mode::Sessions {
        // Without sessions it would let calls go on whose clients have gone, as if these could come back.
        manager = manager.with_event_store(Arc::new(Events::default()));
    }
    let config = StreamableHttpServerConfig::default()
        .with_sse_retry(Some(MOMENT))
        .with_sse_keep_alive(Some(MOMENT))
        .with_legacy_session_mode(mode == Mode::Sessions);
    let service = StreamableHttpService::new(move || Ok(server.clone()), Arc::new(manager), config);
    serve(service).await
}

async fn serve(service: StreamableHttpService<Server, LocalSessionManager>) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(stdout(), "LISTENING http://{}/mcp", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new());
        tokio::spawn(async move {
            // It fails when a client breaks off, which some do.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_resources().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match self.mode {
            Mode::Modern => Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]),
            _ => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(JsonObject::from_iter([("type".to_owned(), json!("object"))]));
        let tool = |name: &'static str| Tool::new(name, format!("Does {name}."), schema.clone());
        Ok(ListToolsResult::with_all_items(TOOLS.map(tool).into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::from(request.arguments.unwrap_or_default());
        let text = match request.name.as_ref() {
            "echo" => text(&arguments, "text")?.to_owned(),
            "repeat" => text(&arguments, "text")?.repeat(number(&arguments, "times")?),
            "slow" => slow(number(&arguments, "steps")?, &context).await?,
            "consult" => return consult(text(&arguments, "topic")?, request.input_responses, &context).await,
            "linger" => self.shared.linger(text(&arguments, "name")?, &context).await,
            "fate" => self.shared.fate(text(&arguments, "name")?),
            "travel" => {
                let legs = number(&arguments, "legs")?;
                self.shared.travel(text(&arguments, "name")?, legs, &context).await?
            }
            "proceed" => {
                self.shared.permits(text(&arguments, "name")?).add_permits(1);
                "go".to_owned()
            }
            other => return Err(ErrorData::invalid_params(format!("unknown tool: {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != "memo://grüße" {
            return Err(ErrorData::invalid_params("unknown resource", None));
        }
        let contents = ResourceContents::text("Grüße aus dem Memo", request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

impl Shared {
    /// Returns only when cancelled.
    async fn linger(&self, name: &str, context: &RequestContext<RoleServer>) -> String {
        lock(&self.fates).insert(name.to_owned(), "running");
        context.ct.cancelled().await;
        lock(&self.fates).insert(name.to_owned(), "cancelled");
        "woken up".to_owned()
    }

    fn fate(&self, name: &str) -> String {
        lock(&self.fates).get(name).copied().unwrap_or("unknown").to_owned()
    }

    /// Reports progress twice in every leg, and waits for `proceed`.
    async fn travel(
        &self,
        name: &str,
        legs: usize,
        context: &RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        let trip = {
            let mut trips = lock(&self.trips);
            let trip = trips.entry(name.to_owned()).or_default();
            *trip += 1;
            *trip
        };
        let permits = self.permits(name);
        for leg in 0..legs {
            report(context, 2 * leg + 1, 2 * legs).await?;
            report(context, 2 * leg + 2, 2 * legs).await?;
            permits.acquire().await.map_err(internal)?.forget();
        }
        Ok(format!("trip {trip} arrived after {legs} legs"))
    }

    fn permits(&self, name: &str) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(0));
        lock(&self.permits).entry(name.to_owned()).or_insert_with(new).clone()
    }
}

async fn slow(steps: usize, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
    for step in 1..=steps {
        report(context, step, steps).await?;
    }
    Ok(format!("done after {steps} steps"))
}

async fn report(context: &RequestContext<RoleServer>, step: usize, steps: usize) -> Result<(), ErrorData> {
    let Some(token) = context.meta.get_progress_token() else { return Ok(()) };
    let report = ProgressNotificationParam::new(token, step as f64).with_total(steps as f64);
    context.peer.notify_progress(report).await.map_err(internal)
}

/// Asks the client's model and its user: on the stream of the call, or by `InputRequiredResult`.
async fn consult(
    topic: &str,
    answers: Option<InputResponses>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let prompt = SamplingMessage::user_text(format!("what is {topic}?"));
    let question = CreateMessageRequestParams::new(vec![prompt], 10);
    let person = elicitation(format!("who asks about {topic}?"))?;
    let (answer, person) = if context.protocol_version() != Some(ProtocolVersion::V_2026_07_28) {
        let answer = context.peer.create_message(question).await.map_err(internal)?;
        let person = context.peer.create_elicitation(person).await.map_err(internal)?;
        (serde_json::to_value(answer).map_err(internal)?, serde_json::to_value(person).map_err(internal)?)
    } else if let Some(mut answers) = answers {
        let mut take = |name| answers.remove(name).unwrap_or_default();
        (take("answer"), take("person"))
    } else {
        let questions = [
            ("answer".to_owned(), InputRequest::CreateMessage(CreateMessageRequest::new(question))),
            ("person".to_owned(), InputRequest::Elicitation(ElicitRequest::new(person))),
        ];
        return Ok(InputRequiredResult::new(Some(questions.into()), None).into());
    };
    let said = text(&answer["content"], "text")?;
    let (model, name) = (text(&answer, "model")?, text(&person["content"], "name")?);
    let text = format!("{said}, says {model} to {name}");
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

fn elicitation(message: String) -> Result<ElicitRequestParams, ErrorData> {
    let schema =
        json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let requested_schema = serde_json::from_value(schema).map_err(internal)?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str, ErrorData> {
    object[name].as_str().ok_or_else(|| ErrorData::invalid_params(format!("no text {name:?}"), None))
}

fn number(object: &Value, name: &str) -> Result<usize, ErrorData> {
    let number = object[name].as_u64().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| ErrorData::invalid_params(format!("no number {name:?}"), None))
}

fn internal(error: impl Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
