//! The clients.

mod bare;
mod rmcp;
mod this;
mod tower_mcp;

use std::rc::Rc;
use std::sync::Arc;

use tower::BoxError;

use crate::answers::Answers;
use crate::peer::{Contender, connect};
use crate::server::Server;
use crate::work::{Wire, Work};

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

pub(crate) const CLIENTS: [Client; 7] = [
    Client { name: "bare", title: "bare hyper-util", connect: connect::<bare::Bare>, works: "abcdefg" },
    Client { name: "this", title: "this transport", connect: connect::<this::This>, works: "abcdefg" },
    Client { name: "modern", title: "this, modern era", connect: connect::<this::Modern>, works: "ad" },
    Client { name: "rmcp-this", title: "rmcp on this", connect: connect::<rmcp::OnThis>, works: "abcdefg" },
    Client { name: "rmcp", title: "rmcp, its default", connect: connect::<rmcp::Default>, works: "abcdefg" },
    Client { name: "rmcp-pooled", title: "rmcp, pooled", connect: connect::<rmcp::Pooled>, works: "abcdefg" },
    Client {
        name: "tower-mcp",
        title: "tower-mcp",
        connect: connect::<tower_mcp::TowerMcp>,
        works: "abcdefg",
    },
];

/// A client of reqwest's that trusts the server and speaks as it does.
fn reqwest_builder(server: &Server) -> Result<reqwest::ClientBuilder, BoxError> {
    let builder = reqwest::Client::builder();
    Ok(match (server.wire, &server.certificate) {
        (Wire::Tls, Some(certificate)) => {
            builder.tls_certs_only([reqwest::Certificate::from_der(certificate)?]).http1_only()
        }
        (Wire::Http2, _) => builder.http2_prior_knowledge(),
        _ => builder,
    })
}

impl Client {
    pub(crate) fn takes_part(&self, work: &Work) -> bool {
        self.works.contains(work.letter)
    }
}
