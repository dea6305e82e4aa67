//! The requests in flight.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::{Cancelled, Error, Superseded};
use crate::{Era, RequestId};

/// The requests of one transport that wait for their responses, by id.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashSet<ById>>);

/// A request, to be found by its id.
struct ById(Arc<Flight>);

/// One request that waits for its response.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: RequestId,
    /// That of the request as it was sent, which decides what a later cancellation of it means.
    pub(super) era: Era,
    severed: AtomicU8,
    announced: AtomicBool,
    /// Of the task that waits for the response.
    waker: Mutex<Option<Waker>>,
}

/// Why a request is given up.
#[derive(Clone, Copy)]
pub(super) enum Cut {
    Cancelled = 1,
    Superseded = 2,
}

impl Flights {
    /// Adds a request. One that is in flight under the same id is severed: whoever reuses an id has given it up.
    pub(super) fn add(&self, id: RequestId, era: Era) -> Arc<Flight> {
        let flight = Arc::new(Flight {
            id,
            era,
            severed: AtomicU8::new(0),
            announced: AtomicBool::new(false),
            waker: Mutex::new(None),
        });
        let old = self.lock().replace(ById(flight.clone()));
        if let Some(ById(old)) = old {
            old.sever(Cut::Superseded);
        }
        flight
    }

    pub(super) fn get(&self, id: &RequestId) -> Option<Arc<Flight>> {
        self.lock().get(id).map(|ById(flight)| flight.clone())
    }

    /// Removes a request, unless another has taken its place. Returns whether it was there.
    pub(super) fn remove(&self, flight: &Arc<Flight>) -> bool {
        let mut flights = self.lock();
        match flights.take(&flight.id) {
            Some(ById(found)) if Arc::ptr_eq(&found, flight) => true,
            Some(other) => {
                flights.insert(other);
                false
            }
            None => false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<ById>> {
        // A map is whole between any two of the calls above.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrow<RequestId> for ById {
    fn borrow(&self) -> &RequestId {
        &self.0.id
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl Flight {
    /// Closes the request's stream, and fails it for its caller.
    pub(super) fn sever(&self, cut: Cut) {
        // The first reason is the one that its caller is told.
        let _ = self.severed.compare_exchange(0, cut as u8, Ordering::AcqRel, Ordering::Acquire);
        self.wake();
    }

    /// The error of a request that was severed.
    pub(super) fn severed(&self) -> Option<Error> {
        match self.severed.load(Ordering::Acquire) {
            0 => None,
            cut if cut == Cut::Cancelled as u8 => Some(Error::new(Cancelled)),
            _ => Some(Error::new(Superseded)),
        }
    }

    /// Waits until the request is severed.
    pub(super) fn poll_severed(&self, cx: &mut Context<'_>) -> Poll<Error> {
        let mut waker = self.waker();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
        drop(waker);
        // Only now, so that a cut in between is seen here, or wakes.
        self.severed().map_or(Poll::Pending, Poll::Ready)
    }

    /// Notes that the caller has told the server itself.
    pub(super) fn announce(&self) {
        self.announced.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Acquire)
    }

    fn wake(&self) {
        let waker = self.waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").field("len", &self.len()).finish()
    }
}
