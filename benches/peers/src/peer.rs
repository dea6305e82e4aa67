//! What a client has to do to be measured, and one that is ready to be.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::runtime::Runtime;
use tower::BoxError;

use crate::answers::Answers;
use crate::meter::{Cost, metered_on};
use crate::server::Server;
use crate::work::{Depth, Seen, Work};

/// Exchanges at the beginning of a round that do not count. They fill the pool, and what the other clients pushed out of the
/// caches.
const WARM_UP: usize = 8;
/// How often the runtime gets a turn after the last exchange, so that a round pays for what it leaves behind, such as
/// connections to be closed.
const TURNS: usize = 16;

/// A client of the server's, connected. Clones share the connections; each lane of calls has its own.
///
/// The futures are not boxed: that would be an allocation for each call, in a figure of about 20.
pub(crate) trait Peer: Clone {
    const DEPTH: Depth;

    /// Connects, with the handshake if there is one.
    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError>;

    /// One exchange of the work that it was connected for.
    async fn exchange(&mut self) -> Result<Seen, BoxError>;
}

/// What one round cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) cost: Cost,
    pub(crate) connections: usize,
}

/// A client that is connected for some work, whatever its type.
pub(crate) trait Contender {
    fn round(&mut self) -> Result<Round, BoxError>;
}

struct Connected<P> {
    // Before the runtime, which its connections need.
    lanes: Vec<P>,
    runtime: Runtime,
    server: Rc<Server>,
    work: Work,
    expected: Seen,
}

/// Connects a client on a runtime of its own: nothing that it leaves running gets in the way of others.
pub(crate) fn connect<P: Peer + 'static>(
    server: &Rc<Server>,
    work: Work,
    answers: &Arc<Answers>,
) -> Result<Box<dyn Contender>, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let peer = runtime.block_on(P::connect(server, &work))?;
    let expected = answers.seen(work.shape, P::DEPTH);
    let lanes = vec![peer; work.in_flight];
    Ok(Box::new(Connected { lanes, runtime, server: Rc::clone(server), work, expected }))
}

impl<P: Peer> Contender for Connected<P> {
    fn round(&mut self) -> Result<Round, BoxError> {
        let Self { lanes, runtime, server, work, expected } = self;
        runtime.block_on(exchanges(lanes, WARM_UP, *expected))?;
        let (before, answered) = (server.connections(), server.requests());
        let (cost, done) = metered_on(runtime, async {
            exchanges(lanes, work.calls, *expected).await?;
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            Ok::<_, BoxError>(())
        });
        done?;
        // Answers out of a cache would be no work.
        let (answered, asked) = (server.requests() - answered, work.calls.next_multiple_of(lanes.len()));
        if answered != asked {
            return Err(format!("{answered} answers to {asked} calls").into());
        }
        Ok(Round { cost, connections: server.connections() - before })
    }
}

async fn exchanges<P: Peer>(lanes: &mut [P], calls: usize, expected: Seen) -> Result<(), BoxError> {
    let each = calls.div_ceil(lanes.len());
    if let [lane] = lanes {
        return one_by_one(lane, each, expected).await;
    }
    try_join_all(lanes.iter_mut().map(|lane| one_by_one(lane, each, expected))).await?;
    Ok(())
}

async fn one_by_one<P: Peer>(lane: &mut P, calls: usize, expected: Seen) -> Result<(), BoxError> {
    for _ in 0..calls {
        let seen = lane.exchange().await?;
        if seen != expected {
            return Err(format!("{seen:?} was seen of an answer, not {expected:?}").into());
        }
    }
    Ok(())
}
