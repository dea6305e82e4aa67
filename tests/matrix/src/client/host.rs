//! What a client has to offer to a server: a model and a person to ask, and somebody who listens.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Result;

/// What the model answers.
pub(crate) const MODEL_SAYS: &str = "a protocol, grüezi";

/// The name of the person.
pub(crate) const PERSON: &str = "Ada Łovelace";

/// Answers the server's questions, and keeps what it says.
#[derive(Debug)]
pub(crate) struct Host {
    asked: Mutex<Vec<String>>,
    heard: Mutex<Vec<String>>,
    reports: UnboundedSender<f64>,
    reported: tokio::sync::Mutex<UnboundedReceiver<f64>>,
}

impl Host {
    /// One that was asked and told nothing yet.
    pub(crate) fn new() -> Self {
        let (reports, reported) = unbounded_channel();
        Self { asked: Mutex::default(), heard: Mutex::default(), reports, reported: reported.into() }
    }

    /// What a client says that it can do for a server.
    pub(crate) fn capabilities() -> Value {
        json!({ "sampling": {}, "elicitation": {} })
    }

    /// Answers a question of the server's, in either era: it has the same method and parameters.
    pub(crate) fn answer(&self, method: &str, params: &Value) -> Result<Value> {
        let (question, answer) = match method {
            "sampling/createMessage" => {
                let content = json!({ "type": "text", "text": MODEL_SAYS });
                // Whoever reads the parameters into a type may write them down otherwise: one content, or a list of one.
                let asked = &params["messages"][0]["content"];
                let asked = if asked.is_array() { &asked[0] } else { asked };
                (&asked["text"], json!({ "role": "assistant", "model": "none", "content": content }))
            }
            "elicitation/create" => {
                (&params["message"], json!({ "action": "accept", "content": { "name": PERSON } }))
            }
            other => return Err(format!("the server asks {other}").into()),
        };
        let question = question.as_str().ok_or_else(|| format!("{method} asks nothing: {params}"))?;
        lock(&self.asked).push(question.to_owned());
        Ok(answer)
    }

    /// Takes what the server tells.
    pub(crate) fn hear(&self, method: &str, params: &Value) {
        match (method, &params["data"], params["progress"].as_f64()) {
            ("notifications/progress", _, Some(progress)) => self.report(progress),
            ("notifications/message", Value::String(text), _) => lock(&self.heard).push(text.clone()),
            _ => {}
        }
    }

    /// Takes a report of progress.
    pub(crate) fn report(&self, progress: f64) {
        // The receiver lives as long as the sender.
        let _ = self.reports.send(progress);
    }

    /// The next `count` reports, as soon as there are so many.
    pub(crate) async fn reports(&self, count: usize) -> Vec<f64> {
        let mut reports = Vec::new();
        let mut reported = self.reported.lock().await;
        while reports.len() < count {
            let missing = count - reports.len();
            reported.recv_many(&mut reports, missing).await;
        }
        reports
    }

    /// Whether there is a report that nobody has taken.
    pub(crate) async fn has_more_reports(&self) -> bool {
        !self.reported.lock().await.is_empty()
    }

    /// The questions so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }

    /// Whether the server has logged this text.
    pub(crate) fn has_heard(&self, text: &str) -> bool {
        lock(&self.heard).iter().any(|heard| heard == text)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
