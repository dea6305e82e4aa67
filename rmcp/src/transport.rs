//! The adapter itself.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use mcp_streamable_http::channel::{Channel, Incoming, Receiver, Sender, Until};
use mcp_streamable_http::error::{BoxError, TooLarge, UnexpectedContent, UnexpectedStatus};
use mcp_streamable_http::layers::probe::shows_legacy;
use mcp_streamable_http::options::{Deadline, Once};
use mcp_streamable_http::{Error, JsonRpcError, JsonRpcMessage};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, JsonRpcNotification, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use crate::TransportError;
use crate::closed::stream_closed;
use crate::message::{Unreadable, error_data, inbound, outbound};

/// How long a `server/discover` may take. rmcp itself has a bound for it in `Auto` only.
const DISCOVERY: Duration = Duration::from_secs(60);

/// A [`Channel`] as a transport of rmcp's: made by [`IntoRmcp::into_rmcp`](crate::IntoRmcp::into_rmcp).
///
/// Closing it ends the session on the server; dropping it does the same in the background.
pub struct RmcpTransport {
    sender: Sender,
    receiver: Receiver,
    /// Answers that are made here.
    answers: mpsc::UnboundedReceiver<ServerJsonRpcMessage>,
    answering: mpsc::UnboundedSender<ServerJsonRpcMessage>,
    /// The `server/discover` that waits for its answer.
    asked: Option<RequestId>,
    /// The one that was given up for an `initialize`.
    given_up: Option<RequestId>,
}

/// What decides how a message is followed.
enum Sent {
    Initialize,
    Discover(RequestId),
    Subscription(RequestId),
    Cancel,
    Other,
}

impl Sent {
    fn of(message: &ClientJsonRpcMessage) -> Self {
        let request = match message {
            ClientJsonRpcMessage::Request(request) => request,
            ClientJsonRpcMessage::Notification(JsonRpcNotification {
                notification: ClientNotification::CancelledNotification(_),
                ..
            }) => return Self::Cancel,
            _ => return Self::Other,
        };
        match &request.request {
            ClientRequest::InitializeRequest(_) => Self::Initialize,
            ClientRequest::DiscoverRequest(_) => Self::Discover(request.id.clone()),
            ClientRequest::SubscriptionsListenRequest(_) => Self::Subscription(request.id.clone()),
            _ => Self::Other,
        }
    }

    fn until(&self) -> Until {
        match self {
            // rmcp reads nothing before this has resolved, and the server may ask something first.
            Self::Initialize => Until::Begun,
            // So that a failure is told as an error, whenever it comes.
            _ => Until::Answered,
        }
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "none lives for longer than a step; how large depends on rmcp's features"
)]
enum Next {
    Answer(ServerJsonRpcMessage),
    Heard(Result<Incoming, Error>),
}

impl RmcpTransport {
    pub(crate) fn new(channel: Channel) -> Self {
        let (sender, receiver) = channel.split();
        let (answering, answers) = mpsc::unbounded_channel();
        Self { sender, receiver, answers, answering, asked: None, given_up: None }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Next>> {
        // What is made here comes after what has arrived: an end must not overtake what was before it.
        match Pin::new(&mut self.receiver).poll_next(cx) {
            Poll::Ready(item) => Poll::Ready(item.map(Next::Heard)),
            Poll::Pending => self.answers.poll_recv(cx).map(|answer| answer.map(Next::Answer)),
        }
    }

    /// What rmcp is to get of it.
    fn read(&mut self, next: Next) -> Option<ServerJsonRpcMessage> {
        let message = match next {
            Next::Answer(answer) => answer,
            Next::Heard(Ok(incoming)) => {
                inbound(incoming).map_err(|unreadable| self.refuse(unreadable)).ok()?
            }
            Next::Heard(Err(error)) => {
                tracing::warn!(%error, "a message on the listening stream was left out");
                return None;
            }
        };
        self.is_wanted(&message).then_some(message)
    }

    /// A request is answered in any case: its sender waits.
    fn refuse(&self, Unreadable { id, reason }: Unreadable) {
        tracing::warn!(%reason, "a message of the server's was left out");
        if let Some(id) = id {
            let error =
                JsonRpcError::new(JsonRpcError::INVALID_REQUEST, format!("it cannot be read: {reason}"));
            if let Err(error) = self.sender.send(JsonRpcMessage::error(id, error)) {
                tracing::warn!(%error, "its sender was not told");
            }
        }
    }

    /// Keeps the books on `server/discover`: its late answer would be taken for that of the `initialize` after it.
    fn is_wanted(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => return true,
        };
        self.asked.take_if(|asked| Some(&*asked) == id);
        id.is_none() || self.given_up.as_ref() != id
    }

    /// rmcp has waited for the answer to its `server/discover` long enough, and sends `initialize`.
    fn give_up_asking(&mut self) {
        if let Some(asked) = self.asked.take() {
            let params = serde_json::json!({ "requestId": asked });
            let _ = self.sender.send(JsonRpcMessage::notification("notifications/cancelled", params));
            self.given_up = Some(asked);
        }
    }
}

impl Transport<RoleClient> for RmcpTransport {
    type Error = TransportError;

    fn name() -> Cow<'static, str> {
        "mcp-streamable-http".into()
    }

    /// The message is on its way when this returns. The future tells what becomes of it, and may be dropped.
    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), TransportError>> + Send + 'static {
        let sent = Sent::of(&message);
        match &sent {
            Sent::Initialize => self.give_up_asking(),
            Sent::Discover(id) => self.asked = Some(id.clone()),
            _ => {}
        }
        let deliver = |message: JsonRpcMessage| {
            let message = match sent {
                // An answer of another era may look like one that is worth another try. And rmcp reads nothing while it
                // waits, so a server that says too much before its answer would be waited for for ever.
                Sent::Discover(_) => message.with(Once).with(Deadline::within(DISCOVERY)),
                _ => message,
            };
            Ok::<_, BoxError>(self.sender.deliver(message, sent.until())?)
        };
        let delivery = outbound(&message).and_then(deliver);
        let answering = self.answering.clone();
        async move {
            let outcome = match delivery {
                // rmcp tells the caller when this has resolved, who has waited long enough.
                Ok(_) if matches!(sent, Sent::Cancel) => return Ok(()),
                Ok(delivery) => delivery.await,
                Err(error) => Err(Error::new(error)),
            };
            let Err(error) = outcome else { return Ok(()) };
            let answer = match sent {
                // Its caller knows, and has what it waited for.
                _ if error.is_cancelled() => return Ok(()),
                Sent::Discover(id) if is_refusal(&error) => {
                    ServerJsonRpcMessage::error(error_data(&error.to_json_rpc()), Some(id))
                }
                Sent::Subscription(id) if had_begun(&error) => {
                    tracing::debug!(%error, "a subscription has ended");
                    match stream_closed().await {
                        Some(closed) => ServerJsonRpcMessage::error(closed, Some(id)),
                        None => return Err(TransportError::new(error)),
                    }
                }
                _ => return Err(TransportError::new(error)),
            };
            let _ = answering.send(answer);
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            // Nothing is waited for once an item was taken, so none is lost if this future is dropped.
            let next = poll_fn(|cx| self.poll_next(cx)).await?;
            if let Some(message) = self.read(next) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.sender.close().await;
        Ok(())
    }
}

/// Whether a `server/discover` was answered as a legacy server does, so that rmcp may go on with `initialize`.
fn is_refusal(error: &Error) -> bool {
    // In a session the handshake is over.
    let in_session = error.find::<UnexpectedStatus>().is_some_and(UnexpectedStatus::had_session);
    shows_legacy(error) && !in_session && error.find::<TooLarge>().is_none()
}

/// Whether there was a stream that has failed since.
fn had_begun(error: &Error) -> bool {
    error.status().is_some_and(|status| status.is_success())
        && error.find::<UnexpectedStatus>().is_none()
        && error.find::<UnexpectedContent>().is_none()
}

impl fmt::Debug for RmcpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RmcpTransport").field("sender", &self.sender).finish_non_exhaustive()
    }
}
