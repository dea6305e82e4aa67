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

#[cfg(test)]
mod tests {
    use std::future::Ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts its clones, and must be ready before it is called.
    #[derive(Default)]
    struct Counted {
        clones: Arc<AtomicUsize>,
        is_ready: bool,
    }

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.clones.fetch_add(1, Ordering::Relaxed);
            Self { clones: self.clones.clone(), is_ready: false }
        }
    }

    impl Service<()> for Counted {
        type Response = ();
        type Error = &'static str;
        type Future = Ready<Result<(), &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            self.is_ready = true;
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            std::future::ready(if std::mem::take(&mut self.is_ready) { Ok(()) } else { Err("not ready") })
        }
    }

    #[test]
    fn it_is_cloned_once_by_each_that_is_used_and_the_one_that_is_ready_takes_the_call() {
        let service = Counted::default();
        let clones = service.clones.clone();
        let mut used = OnDemand::new(service);
        let unused = [used.clone(), used.clone()];
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for _ in 0..2 {
            assert_eq!(used.poll_ready(&mut cx), Poll::Ready(Ok(())));
            assert_eq!(used.call(()).into_inner(), Ok(()));
        }
        assert_eq!(clones.load(Ordering::Relaxed), 1);

        let [mut other, _] = unused;
        assert_eq!(other.call(()).into_inner(), Err("not ready"));
        assert_eq!(clones.load(Ordering::Relaxed), 2);
    }
}
