//! The task of the listening stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;

use super::inbox::Inbox;
use super::{Incoming, Origin, next};
use crate::error::{NotOffered, Undecodable};
use crate::{Error, JsonRpcMessage, Reply};

/// Hands on what the server says of its own accord.
#[derive(Clone)]
pub(super) struct Listening {
    inbox: Inbox,
    /// Whether it was said that the server does not let this client listen.
    warned: Arc<AtomicBool>,
}

impl Listening {
    pub(super) fn new(inbox: Inbox) -> Self {
        Self { inbox, warned: Arc::default() }
    }

    pub(super) async fn run(self, mut reply: Reply) {
        while let Some(item) = next(&mut reply).await {
            match item {
                Ok(JsonRpcMessage::Response(response)) => self.inbox.answer_heard(response),
                Ok(message) => {
                    let incoming = Incoming::new(message, Origin::Listening).after(&reply);
                    self.inbox.push_heard(Ok(incoming)).await;
                }
                Err(error) if error.find::<Undecodable>().is_some() => {
                    self.inbox.push_heard(Err(error)).await
                }
                Err(error) => self.log(&error),
            }
        }
    }

    fn log(&self, error: &Error) {
        let refused = matches!(error.status(), Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN));
        let is_news = if refused {
            !self.warned.swap(true, Ordering::Relaxed)
        } else {
            // Many servers do not offer the stream, and that is fine.
            error.find::<NotOffered>().is_none()
        };
        if is_news {
            tracing::warn!(%error, "cannot listen to the server");
        } else {
            tracing::debug!(%error, "not listening to the server");
        }
    }
}
