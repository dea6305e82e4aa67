//! `examples/bridge.rs` as its users run it: a child process that is written and read line by line.

use std::collections::HashMap;
use std::env;
use std::future::Future;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Host;
use super::json::{Request, Wire};
use crate::Result;

/// A bridge, which is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Bridge {
    child: Child,
    shared: Arc<Shared>,
    reading: JoinHandle<Result<()>>,
}

#[derive(Debug)]
struct Shared {
    host: Arc<Host>,
    /// Gone when it is closed.
    input: tokio::sync::Mutex<Option<ChildStdin>>,
    /// Who waits for a response, by its id; gone when there will be no more.
    waiting: Mutex<Option<HashMap<i64, oneshot::Sender<Value>>>>,
}

impl Wire for Bridge {
    async fn open(uri: Uri, host: Arc<Host>) -> Result<Self> {
        let program =
            env::var_os("INTEROP_BRIDGE").ok_or("INTEROP_BRIDGE is not set: use tests/matrix/run")?;
        let mut child = Command::new(program)
            .arg(uri.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = tokio::sync::Mutex::new(child.stdin.take());
        let output = child.stdout.take().ok_or("the bridge has no standard output")?;
        let shared = Arc::new(Shared { host, input, waiting: Mutex::new(Some(HashMap::new())) });
        let reading = tokio::spawn(read(shared.clone(), output));
        Ok(Self { child, shared, reading })
    }

    /// It does by itself.
    fn listen(&mut self) {}

    async fn request(&self, request: Request) -> Result<Value> {
        let response = self.shared.send(request).await?;
        let mut response = response.await.map_err(|_| "the bridge ends without a response")?;
        match response.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(format!("JSON-RPC error: {}", response["error"]).into()),
        }
    }

    async fn cancel(&self, request: Request, when: impl Future<Output = Result<()>> + Send) -> Result<()> {
        let id = request.id;
        let mut response = self.shared.send(request).await?;
        tokio::select! {
            done = when => done?,
            response = &mut response => return Err(format!("not cancelled yet, it ends: {response:?}").into()),
        }
        self.notify("notifications/cancelled", json!({ "requestId": id })).await
    }

    async fn notify(&self, method: &'static str, params: Value) -> Result<()> {
        self.shared.write(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    /// Closes its input: it ends, and says that all was well.
    async fn close(mut self) -> Result<()> {
        self.shared.input.lock().await.take();
        (&mut self.reading).await??;
        let status = self.child.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the bridge ends with {status}").into()) }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Shared {
    async fn send(&self, request: Request) -> Result<oneshot::Receiver<Value>> {
        let Request { id, method, params } = request;
        let (sender, receiver) = oneshot::channel();
        self.waiting().as_mut().ok_or("the bridge has ended")?.insert(id, sender);
        self.write(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        Ok(receiver)
    }

    async fn write(&self, message: Value) -> Result<()> {
        let line = format!("{message}\n");
        let mut input = self.input.lock().await;
        let input = input.as_mut().ok_or("the bridge's input is closed")?;
        input.write_all(line.as_bytes()).await?;
        Ok(input.flush().await?)
    }

    async fn take(&self, message: Value) -> Result<()> {
        let params = &message["params"];
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => {
                let answer = match self.host.answer(method, params) {
                    Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                    Err(error) => {
                        let error = json!({ "code": -32601, "message": error.to_string() });
                        json!({ "jsonrpc": "2.0", "id": id, "error": error })
                    }
                };
                self.write(answer).await
            }
            (Some(method), None) => {
                self.host.hear(method, params);
                Ok(())
            }
            (None, id) => {
                let id = id.and_then(Value::as_i64).ok_or_else(|| format!("not answerable: {message}"))?;
                let waiting = self.waiting().as_mut().and_then(|waiting| waiting.remove(&id));
                // Nobody waits for it if it was cancelled.
                let _ = waiting.map(|waiting| waiting.send(message));
                Ok(())
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<i64, oneshot::Sender<Value>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(shared: Arc<Shared>, output: ChildStdout) -> Result<()> {
    let outcome = read_lines(&shared, output).await;
    // Those who wait are told.
    *shared.waiting() = None;
    outcome
}

async fn read_lines(shared: &Shared, output: ChildStdout) -> Result<()> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        shared.take(serde_json::from_str(&line)?).await?;
    }
    Ok(())
}
