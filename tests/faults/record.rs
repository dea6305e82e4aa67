//! What a server remembers of each call, and where its moods come from.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

/// The same numbers in every run: SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Those of one request, whenever it comes.
    pub(crate) fn of(seed: u64, nonce: u64, turn: u64) -> Self {
        Self(seed ^ nonce.wrapping_mul(0x9e6c_63d0_876a_3f6b) ^ turn.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// What became of one call at the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// How often a connection for it was refused.
    pub(crate) unreachable: u32,
    /// How often its POST arrived.
    pub(crate) posts: u32,
    /// Of these: how often its session was not known.
    pub(crate) expired: u32,
    /// Of these: how often it was told when to come again.
    pub(crate) busy: u32,
    /// Of these: how often the connection closed before the head.
    pub(crate) broken: u32,
    pub(crate) executed: u32,
    /// Whether the whole answer was handed out.
    pub(crate) answered: bool,
    /// How often its stream was taken up again.
    pub(crate) gets: u32,
    /// How often a stream or a GET of it ended before the response.
    pub(crate) cuts: u32,
}

/// A stream that can be taken up again.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) session: String,
    /// The data of its events, the response last.
    pub(crate) events: Arc<[String]>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) records: HashMap<u64, Record>,
    pub(crate) sessions: HashSet<String>,
    pub(crate) streams: HashMap<u64, Stream>,
    /// Counts restarts: what began before the last is broken.
    pub(crate) epoch: u64,
    pub(crate) down_until: Option<Instant>,
    pub(crate) arrivals: u64,
    pub(crate) initializes: u32,
    pub(crate) failed_initializes: u32,
    /// Answers that are under way.
    pub(crate) open: usize,
    pub(crate) violations: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn opened(&self) -> Open {
        self.lock().open += 1;
        Open(self.clone())
    }
}

impl State {
    pub(crate) fn of(&mut self, nonce: u64) -> &mut Record {
        self.records.entry(nonce).or_default()
    }

    /// Forgets all sessions and streams, and breaks every connection.
    pub(crate) fn restart(&mut self) {
        self.epoch += 1;
        self.sessions.clear();
        self.streams.clear();
    }
}

/// An answer that is under way.
#[derive(Debug)]
pub(crate) struct Open(Shared);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}
