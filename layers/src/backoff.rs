//! How long to wait before something is sent again, and how often.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tower::util::rng::{HasherRng, Rng};

/// No wait is shorter, whatever the options say: nothing is to spin.
const SHORTEST: Duration = Duration::from_millis(10);

/// How long to wait before something is sent again, and how often: shared by all that reconnects and retries.
///
/// The wait number *n* since there was progress, from 0 on, is `min(base · 2ⁿ, max(base, max_wait))`, where `base` is what
/// the server asks for (`retry:`), else [`Backoff::base`]. A random part is added to it, never subtracted, so that a crowd
/// of clients spreads out and none comes too early: up to half of our own value, up to a tenth of the server's.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_streamable_http_layers::Backoff;
///
/// // Patient, for a server that takes minutes to restart.
/// let backoff = Backoff::default().base(Duration::from_secs(2)).max_wait(Duration::from_secs(60)).attempts(10);
/// # let _ = backoff;
/// ```
///
/// For a test, the same waits every time:
///
/// ```
/// use mcp_streamable_http_layers::Backoff;
///
/// let backoff = Backoff::default().seed(1);
/// # let _ = backoff;
/// ```
#[derive(Clone)]
pub struct Backoff(Arc<Knobs>);

/// Shared, as every stream that can be taken up again has them.
#[derive(Clone)]
struct Knobs {
    base: Duration,
    max_wait: Duration,
    min_retry: Duration,
    max_retry: Duration,
    conflict_wait: Duration,
    attempts: u32,
    quick_polls: u32,
    jitter: f64,
    retry_jitter: f64,
    /// Shared by clones, or they would draw the same numbers.
    random: Arc<Mutex<HasherRng<Source>>>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self(Arc::new(Knobs {
            base: Duration::from_secs(1),
            max_wait: Duration::from_secs(30),
            min_retry: Duration::from_millis(50),
            max_retry: Duration::from_secs(300),
            conflict_wait: Duration::from_secs(5),
            attempts: 5,
            quick_polls: 5,
            jitter: 0.5,
            retry_jitter: 0.1,
            random: random(Source::System(RandomState::new())),
        }))
    }
}

impl Backoff {
    /// The first wait where the server asks for none; 1 s by default.
    #[must_use]
    pub fn base(self, base: Duration) -> Self {
        self.with(|knobs| knobs.base = base)
    }

    /// The longest wait of our own, without its random part; 30 s by default. A server may ask for a longer one.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        self.with(|knobs| knobs.max_wait = max_wait)
    }

    /// The shortest wait that a server can ask for; 50 ms by default. `retry: 0` must not make anyone spin.
    #[must_use]
    pub fn min_retry(self, min_retry: Duration) -> Self {
        self.with(|knobs| knobs.min_retry = min_retry)
    }

    /// The longest wait that a server can ask for, with `retry:` or `Retry-After`; 5 min by default. What asks for more
    /// fails, with the value in its error; a stream that is never given up, as the listening one, waits so long and no longer.
    #[must_use]
    pub fn max_retry(self, max_retry: Duration) -> Self {
        self.with(|knobs| knobs.max_retry = max_retry)
    }

    /// The shortest wait after the status 409, which says that the server still takes an earlier stream for open; 5 s by
    /// default.
    #[must_use]
    pub fn conflict_wait(self, conflict_wait: Duration) -> Self {
        self.with(|knobs| knobs.conflict_wait = conflict_wait)
    }

    /// How many attempts may fail, one after the other without progress, before it is given up; 5 by default. 0: nothing
    /// is sent again.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        self.with(|knobs| knobs.attempts = attempts)
    }

    /// How many times in a row a server that has asked to be polled is polled after the wait that it asked for, without
    /// that it has a message; 5 by default. Then the waits double.
    #[must_use]
    pub fn quick_polls(self, polls: u32) -> Self {
        self.with(|knobs| knobs.quick_polls = polls)
    }

    /// The largest random part of a wait: of our own, and of one that the server asks for; 0.5 and 0.1 by default. They are
    /// fractions of the wait.
    #[must_use]
    pub fn jitter(self, own: f64, retry: f64) -> Self {
        let sane = |fraction: f64| if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
        self.with(|knobs| (knobs.jitter, knobs.retry_jitter) = (sane(own), sane(retry)))
    }

    /// Draws the random parts from a source that begins the same every time.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.with(|knobs| knobs.random = random(Source::Seed(seed)))
    }

    fn with(mut self, set: impl FnOnce(&mut Knobs)) -> Self {
        set(Arc::make_mut(&mut self.0));
        self
    }

    /// The wait number `n` since there was progress, from 0 on. `retry` is what the server has asked for.
    pub(crate) fn wait(&self, retry: Option<Duration>, n: u32) -> Duration {
        let base = retry.map_or(self.0.base, |retry| retry.max(self.0.min_retry));
        let factor = 1_u32.checked_shl(n).unwrap_or(u32::MAX);
        let wait = base.saturating_mul(factor).min(base.max(self.0.max_wait)).max(SHORTEST);
        self.spread(wait, if retry.is_some() { self.0.retry_jitter } else { self.0.jitter })
    }

    /// The wait before the poll number `n` in a row that brings no message, from 0 on.
    pub(crate) fn poll_wait(&self, retry: Duration, n: u32) -> Duration {
        self.wait(Some(retry), n.saturating_sub(self.0.quick_polls.saturating_sub(1)))
    }

    /// The wait, if the server's answer says how long at least.
    pub(crate) fn at_least(&self, wait: Duration, asked: Option<Duration>, is_conflict: bool) -> Duration {
        let asked = asked.map_or(Duration::ZERO, |asked| self.spread(asked, self.0.retry_jitter));
        let conflict = if is_conflict { self.0.conflict_wait } else { Duration::ZERO };
        wait.max(asked).max(conflict)
    }

    /// Whether the server asks for a longer wait than it may.
    pub(crate) fn is_too_long(&self, asked: Duration) -> bool {
        asked > self.0.max_retry
    }

    pub(crate) fn longest_retry(&self) -> Duration {
        self.0.max_retry
    }

    fn spread(&self, wait: Duration, fraction: f64) -> Duration {
        let random = self.0.random.lock().unwrap_or_else(PoisonError::into_inner).next_f64();
        wait.saturating_add(wait.mul_f64(random * fraction))
    }

    pub(crate) fn max_attempts(&self) -> u32 {
        self.0.attempts
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("base", &self.0.base)
            .field("max_wait", &self.0.max_wait)
            .field("min_retry", &self.0.min_retry)
            .field("max_retry", &self.0.max_retry)
            .field("conflict_wait", &self.0.conflict_wait)
            .field("attempts", &self.0.attempts)
            .field("quick_polls", &self.0.quick_polls)
            .field("jitter", &(self.0.jitter, self.0.retry_jitter))
            .finish_non_exhaustive()
    }
}

/// The attempts of one request that have failed. Whatever sends it again counts here, so that layers which do so do not
/// multiply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts(Arc<AtomicU32>);

impl Attempts {
    /// Counts one that has failed. Returns whether there may be another.
    pub(crate) fn fail(&self, max: u32) -> bool {
        // One request is in one place at a time, so nothing is lost between the two steps.
        let failed = self.0.load(Ordering::Relaxed).saturating_add(1);
        self.0.store(failed, Ordering::Relaxed);
        failed < max
    }

    pub(crate) fn failed(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// There was progress.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What random numbers are made of.
#[derive(Clone, Debug)]
enum Source {
    System(RandomState),
    Seed(u64),
}

impl BuildHasher for Source {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        match self {
            Self::System(state) => state.build_hasher(),
            Self::Seed(seed) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u64(*seed);
                hasher
            }
        }
    }
}

fn random(source: Source) -> Arc<Mutex<HasherRng<Source>>> {
    Arc::new(Mutex::new(HasherRng::with_hasher(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn plain() -> Backoff {
        Backoff::default().jitter(0.0, 0.0)
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<_> = (0..7).map(|n| plain().wait(None, n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(plain().wait(None, u32::MAX), secs(30));
    }

    #[test]
    fn the_server_sets_the_base_but_neither_zero_nor_a_shorter_limit() {
        assert_eq!(plain().wait(Some(Duration::ZERO), 0), Duration::from_millis(50));
        let none = plain().base(Duration::ZERO).max_wait(Duration::ZERO).min_retry(Duration::ZERO);
        assert_eq!(none.wait(None, 5), SHORTEST);
        assert_eq!(none.wait(Some(Duration::ZERO), 5), SHORTEST);
        assert_eq!(plain().wait(Some(secs(8)), 1), secs(16));
        assert_eq!(plain().wait(Some(secs(60)), 5), secs(60));
    }

    #[test]
    fn the_first_polls_wait_what_was_asked_for() {
        let waits: Vec<_> = (0..9).map(|n| plain().poll_wait(secs(3), n).as_secs()).collect();
        assert_eq!(waits, [3, 3, 3, 3, 3, 6, 12, 24, 30]);
    }

    #[test]
    fn the_random_part_is_added_and_bounded() {
        let backoff = Backoff::default();
        let waits: Vec<_> = (0..200).map(|_| backoff.wait(None, 0)).collect();
        assert!(waits.iter().all(|wait| (secs(1)..Duration::from_millis(1500)).contains(wait)), "{waits:?}");
        assert!(waits.windows(2).any(|pair| pair[0] != pair[1]));
        let retry = backoff.wait(Some(secs(10)), 0);
        assert!((secs(10)..secs(11)).contains(&retry), "{retry:?}");
    }

    #[test]
    fn a_seed_gives_the_same_waits_again() {
        let waits = |backoff: Backoff| (0..5).map(|n| backoff.wait(None, n)).collect::<Vec<_>>();
        assert_eq!(waits(Backoff::default().seed(7)), waits(Backoff::default().seed(7)));
        assert_ne!(waits(Backoff::default().seed(7)), waits(Backoff::default().seed(8)));
    }

    #[test]
    fn clones_draw_different_numbers() {
        let backoff = Backoff::default().seed(1);
        assert_ne!(backoff.wait(None, 0), backoff.clone().wait(None, 0));
    }

    #[test]
    fn five_attempts_fail_and_there_is_no_sixth() {
        let attempts = Attempts::default();
        let allowed = (0..10).take_while(|_| attempts.fail(5)).count();
        assert_eq!(allowed + 1, 5);
        attempts.reset();
        assert!(attempts.fail(5));
    }
}
