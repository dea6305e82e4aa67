//! The rounds: every client in turn, over and over, so that whatever else the machine does meets all alike.

use std::rc::Rc;
use std::sync::Arc;

use tower::BoxError;

use crate::answers::Answers;
use crate::clients::Client;
use crate::peer::{Contender, Round};
use crate::server::Server;
use crate::statistics::Spread;
use crate::work::Work;

/// What the rounds of one work gave.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) work: Work,
    pub(crate) entries: Vec<Entry>,
}

/// One client's rounds. The nth of each client was made at about the same time.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) client: Client,
    pub(crate) rounds: Vec<Round>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Microseconds of the thread's processor time.
    Cpu,
    /// Microseconds on the clock.
    Wall,
    Allocations,
    Connections,
}

impl Round {
    fn total(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Cpu => self.cost.cpu.as_secs_f64() * 1e6,
            Figure::Wall => self.cost.wall.as_secs_f64() * 1e6,
            Figure::Allocations => self.cost.allocations as f64,
            Figure::Connections => self.connections as f64,
        }
    }
}

impl Results {
    pub(crate) fn entry(&self, client: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.client.name == client)
    }

    /// A figure for each exchange, or each event.
    pub(crate) fn each(&self, client: &str, figure: Figure) -> Option<Spread> {
        let units = self.work.units() as f64;
        Spread::of(self.entry(client)?.rounds.iter().map(|round| round.total(figure) / units))
    }

    /// How many times as much one takes as the other, in rounds made at about the same time.
    pub(crate) fn ratio(&self, one: &str, other: &str, figure: Figure) -> Option<Spread> {
        let pairs = self.entry(one)?.rounds.iter().zip(&self.entry(other)?.rounds);
        Spread::of(pairs.map(|(one, other)| one.total(figure) / other.total(figure)))
    }

    /// How much more one takes than the other, for each exchange or event.
    pub(crate) fn beyond(&self, one: &str, other: &str, figure: Figure) -> Option<Spread> {
        let units = self.work.units() as f64;
        let pairs = self.entry(one)?.rounds.iter().zip(&self.entry(other)?.rounds);
        Spread::of(pairs.map(|(one, other)| (one.total(figure) - other.total(figure)) / units))
    }
}

/// Lets all clients do the work in so many rounds, after one that does not count.
pub(crate) fn run(
    work: Work,
    clients: &[Client],
    rounds: usize,
    answers: &Arc<Answers>,
) -> Result<Results, BoxError> {
    let server = Rc::new(Server::start(work.wire, Arc::clone(answers))?);
    let mut contenders: Vec<(Entry, Box<dyn Contender>)> = Vec::new();
    for client in clients.iter().filter(|client| client.takes_part(&work)) {
        let contender =
            (client.connect)(&server, work, answers).map_err(|error| failed(client, &work, error))?;
        contenders.push((Entry { client: *client, rounds: Vec::new() }, contender));
    }
    for round in 0..=rounds {
        for index in order(contenders.len(), round) {
            let (entry, contender) = &mut contenders[index];
            let measured = contender.round().map_err(|error| failed(&entry.client, &work, error))?;
            if round > 0 {
                entry.rounds.push(measured);
            }
        }
    }
    let entries = contenders.into_iter().map(|(entry, _)| entry).collect();
    Ok(Results { work, entries })
}

/// Who comes when: another is first each time, and every other time it goes backwards, so that nobody always comes after the
/// same one.
fn order(contenders: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |turn| {
        let turn = if round.is_multiple_of(2) { turn } else { contenders - turn };
        (round + turn) % contenders
    })
}

fn failed(client: &Client, work: &Work, error: BoxError) -> BoxError {
    format!("{} at ({}) {}: {error}", client.title, work.letter, work.title).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{order, run};
    use crate::answers::Answers;
    use crate::clients::CLIENTS;
    use crate::work::{WORKS, Work};

    #[test]
    fn everybody_has_a_turn_each_round_and_is_first_in_time() {
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| order(3, round).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1]]);
    }

    #[test]
    fn every_client_does_all_of_its_work() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let answers = Arc::new(Answers::new());
        for work in WORKS {
            let results = run(Work { calls: 2, ..work }, &CLIENTS, 1, &answers).unwrap();
            assert!(results.entries.iter().all(|entry| entry.rounds.len() == 1));
        }
    }
}
