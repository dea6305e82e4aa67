//! The token that is in use, and where others come from.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::runtime::Handle;
use tokio::sync::Mutex as AsyncMutex;

use super::Refusal;
use crate::error::{BoxError, NoToken, TimedOut};

type Asking = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;
type Source = Arc<dyn Fn(Option<Refusal>) -> Asking + Send + Sync>;

/// One token, to be told from those before and after it.
#[derive(Clone)]
pub(super) struct Token {
    header: HeaderValue,
    number: u64,
}

impl Token {
    /// Marked sensitive.
    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }
}

pub(super) struct Tokens {
    source: Source,
    current: Mutex<Option<Token>>,
    /// Is held by whoever asks the source.
    asking: AsyncMutex<()>,
    /// How often the source has failed.
    failures: AtomicU64,
    timeout: Duration,
}

impl Tokens {
    pub(super) fn new<F, T, E>(source: F) -> Self
    where
        F: Fn(Option<Refusal>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let source: Source = Arc::new(move |refusal| {
            let asking = source(refusal);
            Box::pin(async move { asking.await.map_err(Into::into) })
        });
        Self {
            source,
            current: Mutex::default(),
            asking: AsyncMutex::default(),
            failures: AtomicU64::new(0),
            timeout: Duration::from_secs(30),
        }
    }

    pub(super) fn with_timeout(&self, timeout: Duration) -> Self {
        Self {
            source: self.source.clone(),
            current: Mutex::default(),
            asking: AsyncMutex::default(),
            failures: AtomicU64::new(0),
            timeout,
        }
    }

    pub(super) fn current(&self) -> Option<Token> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A token in place of `refused`, which the server did not take; of none, the first.
    pub(super) async fn another(&self, refused: Option<(&Token, Refusal)>) -> Result<Token, NoToken> {
        let outcome = match Handle::try_current() {
            Ok(_) => tokio::time::timeout(self.timeout, self.ask(refused)).await.unwrap_or_else(|_| {
                Err(TimedOut::new("the source of tokens", "timeout", self.timeout).into())
            }),
            Err(_) => self.ask(refused).await,
        };
        outcome.map_err(NoToken)
    }

    async fn ask(&self, refused: Option<(&Token, Refusal)>) -> Result<Token, BoxError> {
        let failures = self.failures.load(Ordering::Relaxed);
        let _turn = self.asking.lock().await;
        let (refused, refusal) = refused.map_or((0, None), |(token, refusal)| (token.number, Some(refusal)));
        match self.current() {
            // Someone has asked while this one waited.
            Some(current) if current.number > refused => Ok(current),
            // Or has failed to get one, and the source is not asked by each in turn.
            _ if self.failures.load(Ordering::Relaxed) != failures => {
                Err("the source of tokens has failed".into())
            }
            _ => {
                let asked = (self.source)(refusal).await;
                if asked.is_err() {
                    self.failures.fetch_add(1, Ordering::Relaxed);
                }
                let token = asked?;
                let Ok(mut header) = HeaderValue::try_from(format!("Bearer {token}")) else {
                    self.failures.fetch_add(1, Ordering::Relaxed);
                    return Err("the token cannot be sent in a header".into());
                };
                header.set_sensitive(true);
                let token = Token { header, number: refused + 1 };
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                Ok(token)
            }
        }
    }
}
