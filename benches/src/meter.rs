//! How work is driven, and how it is marked for callgrind.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Builder, Runtime};

/// Calls `work`. Callgrind counts from here on, by the name of this function, so that neither the start of the process
/// nor the setting up of the work counts.
#[inline(never)]
pub fn measured(work: &mut dyn FnMut()) {
    work();
    // Without this the call would be a jump, and the end of it nowhere to be seen.
    black_box(());
}

/// Polls `future` until it is ready. An executor adds work of its own to each wait, which is none of the transport's, and
/// which asks the kernel; so there is none. Whoever is pending must be ready the next time.
pub fn drive<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

/// A runtime to be entered: the transport sets the bounds on its waits only inside of one.
///
/// # Panics
/// The operating system has no resources for it.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}
