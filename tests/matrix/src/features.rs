//! The features, each as a check that is made of every client on every server. Each makes a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::relay::Relay;
use http::Uri;
use serde_json::json;

use crate::Result;
use crate::client::{Call, Client, Direct, Host, Json};
use crate::servers::{Long, Profile, Script};

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    Tools,
    Progress,
    ServerRequests,
    Resources,
    Cancellation,
    Resume,
    BigPayloads,
}

impl Feature {
    /// All, in the order of the columns.
    pub(crate) const ALL: [Self; 7] = [
        Self::Tools,
        Self::Progress,
        Self::ServerRequests,
        Self::Resources,
        Self::Cancellation,
        Self::Resume,
        Self::BigPayloads,
    ];

    /// The head of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Progress => "progress",
            Self::ServerRequests => "server requests",
            Self::Resources => "resources",
            Self::Cancellation => "cancellation",
            Self::Resume => "resume",
            Self::BigPayloads => "big payloads",
        }
    }

    /// Makes the check.
    pub(crate) async fn check<C: Client>(self, profile: &'static Profile) -> Result<()> {
        let place = Place { uri: profile.uri().await?, profile };
        match self {
            Self::Tools => tools::<C>(&place).await,
            Self::Progress => progress::<C>(&place).await,
            Self::ServerRequests => server_requests::<C>(&place).await,
            Self::Resources => resources::<C>(&place).await,
            Self::Cancellation => cancellation::<C>(&place).await,
            Self::Resume => resume::<C>(&place).await,
            Self::BigPayloads => big_payloads::<C>(&place).await,
        }
    }
}

/// How often a call breaks off that is made step by step.
const LEGS: usize = 2;

/// How often a connection is cut while a call goes on by itself, as by a proxy that allows none more than a moment.
const MOMENT: Duration = Duration::from_millis(200);

/// Servers take requests of 4 MiB by default; what must be escaped in the text makes it longer.
const LARGE: usize = 3 << 20;

struct Place {
    profile: &'static Profile,
    uri: Uri,
}

impl Place {
    fn script(&self) -> &'static Script {
        self.profile.script
    }

    async fn connect<C: Client>(&self, uri: Uri) -> Result<(C, Arc<Host>)> {
        let host = Arc::new(Host::new());
        let client = C::connect(uri, self.profile.era, host.clone()).await?;
        Ok((client, host))
    }
}

/// Tools are listed and called. The text is not ASCII, and looks like framing.
async fn tools<C: Client>(place: &Place) -> Result<()> {
    let (client, _) = place.connect::<C>(place.uri.clone()).await?;
    let tools = client.tools().await?;
    for tool in place.script().tools {
        require(tools.iter().any(|name| name == tool), || format!("{tool:?} is not in {tools:?}"))?;
    }
    for text in ["hello", "Grüße, 世界 🦀", "two\nlines\r\n\ndata: {}", ""] {
        let exchange = (place.script().echo)(text);
        exchange.check(&client.call(exchange.call.clone()).await?)?;
    }
    client.close().await
}

/// A call reports its progress, each step once.
async fn progress<C: Client>(place: &Place) -> Result<()> {
    let (client, host) = place.connect::<C>(place.uri.clone()).await?;
    let exchange = (place.script().slow)();
    exchange.check(&client.call(exchange.call.clone()).await?)?;
    reports::<C>(&host, 1..=3).await?;
    require(!host.has_more_reports().await, || "a report is left over".to_owned())?;
    client.close().await
}

/// The server asks the client's model and its user while it serves a call, and goes on with the answers.
async fn server_requests<C: Client>(place: &Place) -> Result<()> {
    let (client, host) = place.connect::<C>(place.uri.clone()).await?;
    let questions = &place.script().questions;
    if questions.apart {
        listens(&client, &host).await?;
    }
    for exchange in (questions.exchanges)() {
        exchange.check(&client.call(exchange.call.clone()).await?)?;
    }
    let mut asked = host.asked();
    let ends = |question: &str, end: &str| question.ends_with(end);
    require(asked.len() == questions.asked.len(), || format!("asked are {asked:?}"))?;
    for question in questions.asked {
        let position = asked.iter().position(|asked| ends(asked, question));
        let position = position.ok_or_else(|| format!("{question:?} is not in {asked:?}"))?;
        asked.swap_remove(position);
    }
    client.close().await
}

/// Returns when the client is heard to listen. Until then the server speaks in vain, and nothing tells when that ends.
async fn listens<C: Client>(client: &C, host: &Host) -> Result<()> {
    let text = unique("are you there");
    while !host.has_heard(&text) {
        client.call(Call { tool: "broadcast", arguments: json!({ "text": text }) }).await?;
    }
    Ok(())
}

async fn resources<C: Client>(place: &Place) -> Result<()> {
    let (client, _) = place.connect::<C>(place.uri.clone()).await?;
    let (uri, beginning) = place.script().resource;
    let text = client.read(uri).await?;
    require(text.starts_with(beginning), || format!("{uri} is {text:?}"))?;
    client.close().await
}

/// A running call is cancelled, and the server says itself that it has stopped it.
async fn cancellation<C: Client>(place: &Place) -> Result<()> {
    let (client, _) = place.connect::<C>(place.uri.clone()).await?;
    let name = unique("call");
    let call = Call { tool: "linger", arguments: json!({ "name": name }) };
    client.cancel(call, has_fate(&client, &name, "running")).await?;
    has_fate(&client, &name, "cancelled").await?;
    client.close().await
}

/// Returns when this has become of the call of `linger` with this name.
async fn has_fate<C: Client>(client: &C, name: &str, fate: &str) -> Result<()> {
    let call = Call { tool: "fate", arguments: json!({ "name": name }) };
    while client.call(call.clone()).await? != fate {}
    Ok(())
}

/// The connection of a running call breaks, and the call goes on: nothing is lost, and the tool is not called again.
async fn resume<C: Client>(place: &Place) -> Result<()> {
    let relay = Relay::to(&place.uri).await;
    let (client, host) = place.connect::<C>(relay.uri()).await?;
    match place.script().long {
        Long::Steps => in_steps(place, &relay, &client, &host).await?,
        Long::Timed(exchange, reports) => {
            let exchange = exchange();
            let cutting = async {
                loop {
                    tokio::time::sleep(MOMENT).await;
                    relay.cut().await;
                }
            };
            let text = tokio::select! {
                text = client.call(exchange.call.clone()) => text?,
                () = cutting => unreachable!("it goes on for ever"),
            };
            exchange.check(&text)?;
            self::reports::<C>(&host, 1..=reports).await?;
            require(relay.resumptions() > 0, || "nothing was resumed".to_owned())?;
        }
    }
    client.close().await
}

/// What is reported while the connection is cut is not lost.
async fn in_steps<C: Client>(place: &Place, relay: &Relay, client: &C, host: &Host) -> Result<()> {
    // Its connections are not cut.
    let (guide, _) = place.connect::<Json<Direct>>(place.uri.clone()).await?;
    let name = unique("trip");
    let travel = Call { tool: "travel", arguments: json!({ "name": name, "legs": LEGS }) };
    let proceed = Call { tool: "proceed", arguments: json!({ "name": name }) };
    let guiding = async {
        for leg in 0..LEGS {
            reports::<C>(host, 2 * leg + 1..=2 * leg + 2).await?;
            relay.cut_and_hold().await;
            guide.call(proceed.clone()).await?;
            relay.release();
        }
        Ok(())
    };
    let (text, ()) = tokio::try_join!(client.call(travel), guiding)?;
    require(text == format!("trip 1 arrived after {LEGS} legs"), || format!("travel answers with {text:?}"))?;
    let resumptions = relay.resumptions();
    require(resumptions >= LEGS, || format!("cut {LEGS} times, resumed {resumptions} times"))?;
    guide.close().await
}

/// A large request is answered with a result that is as large, or larger.
async fn big_payloads<C: Client>(place: &Place) -> Result<()> {
    let (client, _) = place.connect::<C>(place.uri.clone()).await?;
    let line = "Grüße, 世界 🦀 \"quoted\"\\\n";
    let exchange = (place.script().large)(&line.repeat(LARGE / line.len()));
    exchange.check(&client.call(exchange.call.clone()).await?)?;
    client.close().await
}

/// Requires that these reports come next.
async fn reports<C: Client>(host: &Host, expected: std::ops::RangeInclusive<usize>) -> Result<()> {
    let expected: Vec<_> = expected.map(|step| step as f64).collect();
    let mut reports = host.reports(expected.len()).await;
    if !C::KEEPS_ORDER {
        reports.sort_by(f64::total_cmp);
    }
    require(reports == expected, || format!("reported is {reports:?}, not {expected:?}"))
}

fn require(condition: bool, trouble: impl FnOnce() -> String) -> Result<()> {
    if condition { Ok(()) } else { Err(trouble().into()) }
}

/// A name that no other check uses: they share the servers.
fn unique(name: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{name} {}", COUNT.fetch_add(1, Ordering::Relaxed))
}
