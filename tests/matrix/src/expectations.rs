//! What each cell of the table is expected to be. A cell that is not expected to work has a reason: there is no other kind.

use crate::Driver;
use crate::features::Feature;
use crate::servers::Kind;

/// A cell before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// The feature is expected to work.
    Works,
    /// It is not there to be tried.
    Empty(Reason),
}

/// Why a feature is not there to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    OneBody,
    NoEventIds,
    OneBodyIsNotResumed,
    NoResumption,
    NobodyTakesAnswers,
    NobodyTakesCancellations,
    NothingToSee,
}

use Cell::{Empty, Works};
use Reason::*;

/// What the servers offer to all clients, or do not.
#[rustfmt::skip]
const fn row(server: Kind) -> [Cell; Feature::ALL.len()] {
    match server {
        //                             tools  progress        server requests            resources cancellation         resume                      big payloads
        Kind::PythonSessions      => [Works, Works,          Works,                     Works,    Works,               Empty(NoEventIds),          Works],
        Kind::PythonResumable     => [Works, Works,          Works,                     Works,    Works,               Works,                      Works],
        Kind::PythonJson          => [Works, Empty(OneBody), Works,                     Works,    Works,               Empty(OneBodyIsNotResumed), Works],
        Kind::PythonStateless     => [Works, Works,          Empty(NobodyTakesAnswers), Works,    Works,               Empty(NoEventIds),          Works],
        Kind::PythonModern        => [Works, Works,          Works,                     Works,    Works,               Empty(NoResumption),        Works],
        Kind::Everything          => [Works, Works,          Works,                     Works,    Empty(NothingToSee), Works,                      Works],
        Kind::TypeScriptSessions  => [Works, Works,          Works,                     Works,    Works,               Works,                      Works],
        Kind::TypeScriptStateless => [Works, Works,          Empty(NobodyTakesAnswers), Works,    Works,               Empty(NoEventIds),          Works],
        Kind::TypeScriptModern    => [Works, Works,          Works,                     Works,    Works,               Empty(NoResumption),        Works],
        Kind::RmcpSessions        => [Works, Works,          Works,                     Works,    Works,               Works,                      Works],
        Kind::RmcpStateless       => [Works, Works,          Empty(NobodyTakesAnswers), Works,    Works,               Empty(NoEventIds),          Works],
        Kind::RmcpModern          => [Works, Works,          Works,                     Works,    Works,               Empty(NoResumption),        Works],
    }
}

/// What is otherwise for a single client.
fn exception(server: Kind, client: Driver, feature: Feature) -> Option<Reason> {
    let is_stateless =
        matches!(server, Kind::PythonStateless | Kind::TypeScriptStateless | Kind::RmcpStateless);
    let tells = matches!(client, Driver::Bridge | Driver::Rmcp);
    (is_stateless && tells && feature == Feature::Cancellation).then_some(NobodyTakesCancellations)
}

/// What the cell of a feature is expected to be.
pub(crate) fn expected(server: Kind, client: Driver, feature: Feature) -> Cell {
    match exception(server, client, feature) {
        Some(reason) => Empty(reason),
        None => row(server)[feature as usize],
    }
}

impl Reason {
    /// The footnote.
    pub(crate) fn text(self) -> &'static str {
        match self {
            OneBody => "The server answers with one JSON body, which has no room for reports.",
            NoEventIds => "The server gives its events no ids: there is nothing to resume by.",
            OneBodyIsNotResumed => {
                "The server answers with one JSON body, which is no stream that could be resumed."
            }
            NoResumption => "2026-07-28 has no streams that can be resumed.",
            NobodyTakesAnswers => {
                "The server keeps nothing between requests, so it has nobody to give the answer to a question of its own."
            }
            NobodyTakesCancellations => {
                "The server keeps nothing between requests, so `notifications/cancelled` does not reach the call. \
                 Whoever drops the reply instead closes its connection, which the server notices."
            }
            NothingToSee => {
                "The server's tools do not look at cancellation, so there is nothing to see of it."
            }
        }
    }
}
