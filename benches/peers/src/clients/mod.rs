//! The clients.

mod bare;
mod this;

use std::rc::Rc;
use std::sync::Arc;

use tower::BoxError;

use crate::answers::Answers;
use crate::peer::{Contender, connect};
use crate::server::Server;
use crate::work::Work;

/// Makes a client ready for some work.
type Connect = fn(&Rc<Server>, Work, &Arc<Answers>) -> Result<Box<dyn Contender>, BoxError>;

/// A client by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// What it is called in `--clients`.
    pub(crate) name: &'static str,
    /// What it is called in the document.
    pub(crate) title: &'static str,
    pub(crate) connect: Connect,
    /// The works that it takes part in, by letter.
    pub(crate) works: &'static str,
}

pub(crate) const CLIENTS: [Client; 3] = [
    Client { name: "bare", title: "bare hyper-util", connect: connect::<bare::Bare>, works: "abcdefg" },
    Client { name: "this", title: "this transport", connect: connect::<this::This>, works: "abcdefg" },
    Client { name: "modern", title: "this, modern era", connect: connect::<this::Modern>, works: "ad" },
];

impl Client {
    pub(crate) fn takes_part(&self, work: &Work) -> bool {
        self.works.contains(work.letter)
    }

    /// Why it is missing from a work that others do.
    pub(crate) fn absence(&self, _: &Work) -> Option<&'static str> {
        None
    }
}
