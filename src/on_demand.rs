//! Clones that cost nothing until they are used.

use std::sync::Arc;
use std::task::{Context, Poll};

use tower::Service;

/// A service that is cloned when it is first used, and not when it is cloned.
///
/// For what keeps a clone of the service below for each request, and seldom uses it, as tower's `Retry` does.
#[derive(Debug)]
pub(crate) struct OnDemand<S> {
    template: Arc<S>,
    own: Option<S>,
}

impl<S> OnDemand<S> {
    pub(crate) fn new(service: S) -> Self {
        Self { template: Arc::new(service), own: None }
    }
}

impl<S> Clone for OnDemand<S> {
    fn clone(&self) -> Self {
        Self { template: self.template.clone(), own: None }
    }
}

impl<S: Clone> OnDemand<S> {
    fn own(&mut self) -> &mut S {
        self.own.get_or_insert_with(|| S::clone(&self.template))
    }
}

impl<S, R> Service<R> for OnDemand<S>
where
    S: Service<R> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.own().poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.own().call(request)
    }
}
