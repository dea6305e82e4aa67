//! What an application wants to know of a session.

use tokio::sync::watch;

use super::Session;

/// Whether there is a session with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionStatus {
    /// There is none: nothing was negotiated yet, it was ended, the server issues no ids, or it is of the modern era.
    None,
    /// There is one.
    Live,
    /// The server no longer knows it.
    Expired,
}

/// Tells of every change of a [`Session`]: see [`Session::watch`].
///
/// ```
/// use mcp_streamable_http_layers::Session;
///
/// async fn resubscribe(session: Session) {
///     let mut watch = session.watch();
///     loop {
///         println!("the session is now {:?}", watch.changed().await);
///     }
/// }
/// # let _ = resubscribe(Session::new());
/// ```
#[derive(Clone, Debug)]
pub struct SessionWatch {
    session: Session,
    changes: watch::Receiver<u64>,
}

impl SessionWatch {
    pub(super) fn new(session: Session) -> Self {
        let changes = session.0.changes.subscribe();
        Self { session, changes }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Waits for a change, and returns what is the case then. Several changes at a time count as one; a session that has
    /// taken the place of another is [`Live`](SessionStatus::Live) as that was. Cancelling it loses nothing.
    pub async fn changed(&mut self) -> SessionStatus {
        // The sender lives as long as the session, of which this is a handle.
        let _ = self.changes.changed().await;
        self.session.status()
    }
}
