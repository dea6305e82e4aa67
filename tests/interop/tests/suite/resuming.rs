//! Checks of streams that break, and are taken up again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use http::Uri;
use mcp_streamable_http::error::GaveUp;
use mcp_streamable_http::options::{QuietDrop, ResumeFrom};
use mcp_streamable_http::{Backoff, JsonRpcMessage, Reply, SavedSession, StreamableHttp};
use mcp_streamable_http_interop::{Client, Relay, ToolResult};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::profile::Profile;

const LEGS: usize = 3;

/// The server hangs up in every leg of the call, and is polled.
pub(crate) async fn a_server_that_hangs_up_is_polled(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = connect(relay.uri()).await;
    let mut trip = Trip::begin(&client, true).await;
    for leg in 0..LEGS {
        trip.reports_of(leg).await;
        trip.proceed(&client).await;
    }
    trip.arrives().await;
    assert!(relay.resumptions() >= LEGS, "{}", relay.resumptions());
}

/// So does every one of many calls at once.
pub(crate) async fn many_calls_are_polled_at_once(profile: &Profile) {
    let client = connect(profile.server.uri()).await;
    join_all((0..8).map(|_| async {
        let mut trip = Trip::begin(&client, true).await;
        for leg in 0..LEGS {
            trip.reports_of(leg).await;
            trip.proceed(&client).await;
        }
        trip.arrives().await;
    }))
    .await;
}

/// The connection breaks in every leg, and what is reported before there is another is not lost.
pub(crate) async fn a_cut_call_goes_on(profile: &Profile) {
    cut_in_every_leg(profile, 1).await;
}

pub(crate) async fn many_cut_calls_go_on(profile: &Profile) {
    cut_in_every_leg(profile, 8).await;
}

async fn cut_in_every_leg(profile: &Profile, calls: usize) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = connect(relay.uri()).await;
    // It is not cut.
    let guide = connect(profile.server.uri()).await;
    let mut trips = join_all((0..calls).map(|_| Trip::begin(&client, false))).await;
    for leg in 0..LEGS {
        join_all(trips.iter_mut().map(|trip| trip.reports_of(leg))).await;
        relay.cut_and_hold().await;
        join_all(trips.iter().map(|trip| trip.proceed(&guide))).await;
        relay.release();
    }
    join_all(trips.into_iter().map(Trip::arrives)).await;
    assert!(relay.resumptions() >= LEGS * calls, "{}", relay.resumptions());
}

/// The call goes on where it was cut, and live: what is reported later arrives on the new connection.
pub(crate) async fn a_cut_call_is_live_again(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = connect(relay.uri()).await;
    let guide = connect(profile.server.uri()).await;
    let mut trip = Trip::begin(&client, false).await;
    trip.reports_of(0).await;
    relay.cut_and_hold().await;
    trip.proceed(&guide).await;
    relay.release();
    trip.reports_of(1).await;
    trip.proceed(&guide).await;
    trip.reports_of(2).await;
    trip.proceed(&guide).await;
    trip.arrives().await;
    assert_eq!(relay.resumptions(), 1);
}

/// A stream without event ids cannot be taken up again: the caller is told, and that the server may have acted.
pub(crate) async fn a_cut_call_without_ids_fails(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = connect(relay.uri()).await;
    let mut trip = Trip::begin(&client, false).await;
    trip.reports_of(0).await;
    relay.cut().await;
    let error = trip.reply.next().await.unwrap().unwrap_err();
    assert!(error.may_have_run() && error.find::<GaveUp>().is_none(), "{error:?}");
    assert!(trip.reply.next().await.is_none());
    assert_eq!(relay.resumptions(), 0);
    // The connection is none the worse for it.
    assert_eq!(client.tool("echo", json!({ "text": "hi" })).await.text, "hi");
}

/// What the server says while the listening stream is broken arrives, and what it says then.
pub(crate) async fn listening_goes_on_after_a_cut(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = connect(relay.uri()).await;
    // In the same session, and not cut.
    let speaker = taken_over(&client, profile.server.uri());
    let mut heard = listen(&client);
    let (first, mut last) = speak_until_heard(&speaker, &mut heard).await;
    for text in first + 1..=last {
        assert_eq!(heard.recv().await, Some(text));
    }
    for _ in 0..2 {
        relay.cut_and_hold().await;
        for text in last + 1..=last + 3 {
            speak(&speaker, text).await;
        }
        relay.release();
        for text in last + 1..=last + 3 {
            assert_eq!(heard.recv().await, Some(text));
        }
        speak(&speaker, last + 4).await;
        assert_eq!(heard.recv().await, Some(last + 4));
        last += 4;
    }
    assert!(relay.resumptions() >= 2);
}

/// The application stops while a call is under way. The one that takes its session over is given the answer.
pub(crate) async fn another_takes_a_call_over(profile: &Profile) {
    let guide = connect(profile.server.uri()).await;
    let client = connect(profile.server.uri()).await;
    let quiet = QuietDrop::new();
    let mut trip = Trip::begin_with(&client, false, |call| call.with(quiet.clone())).await;
    trip.reports_of(0).await;
    let position = trip.reply.last_event_id().unwrap().to_owned();
    let successor = taken_over(&client, profile.server.uri());
    quiet.turn_on();
    let Trip { name, reply, .. } = trip;
    drop(reply);
    drop(client);

    // Of this the answer tells, though nobody was there to hear it.
    guide.tool("proceed", json!({ "name": name })).await;
    let call = successor.request("tools/call", travel(&name, false)).with(ResumeFrom(position));
    let id = call.id().cloned();
    let mut trip = Trip { name, id, reply: successor.send(call).await };
    trip.reports_of(1).await;
    trip.proceed(&successor).await;
    trip.reports_of(2).await;
    trip.proceed(&successor).await;
    trip.arrives().await;
}

/// A proxy that allows no connection more than a moment, before a server that names no time to come back.
pub(crate) async fn a_call_survives_an_impatient_proxy(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = connect(relay.uri()).await;
    let arguments = json!({ "duration": 1, "steps": 10 });
    let call = json!({
        "name": "trigger-long-running-operation", "arguments": arguments, "_meta": { "progressToken": "t" },
    });
    let reply = client.send(client.request("tools/call", call)).await;
    let cutting = async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            relay.cut().await;
        }
    };
    let items: Vec<JsonRpcMessage> = tokio::select! {
        items = StreamExt::map(reply, Result::unwrap).collect() => items,
        () = cutting => unreachable!(),
    };
    let (response, reports) = items.split_last().unwrap();
    assert_eq!(reports.iter().map(progress).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    let result = ToolResult::read(&response.as_response().unwrap().result().unwrap());
    assert_eq!(result.text, "Long running operation completed. Duration: 1 seconds, Steps: 10.");
    assert!(relay.resumptions() >= 2, "{}", relay.resumptions());
}

/// Waits so short that no test is slow, and so often that a slow machine fails none.
pub(crate) fn backoff() -> Backoff {
    Backoff::default()
        .base(Duration::from_millis(50))
        .max_wait(Duration::from_millis(200))
        .conflict_wait(Duration::from_millis(100))
        .attempts(100)
}

/// A call whose reports arrive while the server waits to be told to go on.
pub(crate) async fn step_by_step(client: &Client, profile: &Profile) {
    let guide = profile.connect().await;
    let mut trip = Trip::begin(client, false).await;
    for leg in 0..LEGS {
        trip.reports_of(leg).await;
        trip.proceed(&guide).await;
    }
    trip.arrives().await;
}

async fn connect(uri: Uri) -> Client {
    let client = Client::over(StreamableHttp::builder(uri).backoff(backoff()).build().unwrap());
    client.handshake("2025-11-25", json!({})).await;
    client
}

/// Another transport, which has learned of the session of `client` from its storage.
fn taken_over(client: &Client, uri: Uri) -> Client {
    let stored = serde_json::to_string(&client.transport().session().save().unwrap()).unwrap();
    let saved: SavedSession = serde_json::from_str(&stored).unwrap();
    let transport = StreamableHttp::builder(uri).backoff(backoff()).build().unwrap();
    transport.session().restore(saved);
    // Its ids must not be those of the other.
    Client::over(transport).with_ids_after(1000)
}

/// A call of the tool `travel`.
pub(crate) struct Trip {
    name: String,
    id: Option<mcp_streamable_http::RequestId>,
    pub(crate) reply: Reply,
}

impl Trip {
    pub(crate) async fn begin(client: &Client, hang_up: bool) -> Self {
        Self::begin_with(client, hang_up, |call| call).await
    }

    async fn begin_with(
        client: &Client,
        hang_up: bool,
        options: impl FnOnce(JsonRpcMessage) -> JsonRpcMessage,
    ) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("trip {}", COUNT.fetch_add(1, Ordering::Relaxed));
        let call = options(client.request("tools/call", travel(&name, hang_up)));
        let id = call.id().cloned();
        Self { name, id, reply: client.send(call).await }
    }

    /// The two reports of a leg, and nothing else, come next.
    pub(crate) async fn reports_of(&mut self, leg: usize) {
        for step in [2 * leg + 1, 2 * leg + 2] {
            assert_eq!(progress(&self.reply.next().await.unwrap().unwrap()), step);
        }
    }

    pub(crate) async fn proceed(&self, guide: &Client) {
        guide.tool("proceed", json!({ "name": self.name })).await;
    }

    /// The result comes next, and is the last. The tool was called once.
    pub(crate) async fn arrives(mut self) {
        let response = self.reply.next().await.unwrap().unwrap();
        assert_eq!(response.id(), self.id.as_ref());
        let result = ToolResult::read(&response.as_response().unwrap().result().unwrap());
        assert_eq!(result.text, format!("trip 1 arrived after {LEGS} legs"));
        assert!(self.reply.next().await.is_none());
    }
}

fn travel(name: &str, hang_up: bool) -> Value {
    let arguments = json!({ "name": name, "legs": LEGS, "hang_up": hang_up });
    json!({ "name": "travel", "arguments": arguments, "_meta": { "progressToken": name } })
}

pub(crate) fn progress(message: &JsonRpcMessage) -> usize {
    let report = message.as_notification().unwrap_or_else(|| panic!("no report: {message:?}"));
    assert_eq!(report.method(), "notifications/progress");
    let params: Value = report.params().unwrap().to().unwrap();
    params["progress"].as_f64().unwrap() as usize
}

/// Listens in the background for the numbers that are broadcast.
pub(crate) fn listen(client: &Client) -> mpsc::UnboundedReceiver<usize> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut listening = client.transport().listen();
    tokio::spawn(async move {
        while let Some(message) = listening.next().await {
            let message = message.unwrap();
            let params: Value = message.as_notification().unwrap().params().unwrap().to().unwrap();
            if sender.send(params["data"].as_str().unwrap().parse().unwrap()).is_err() {
                break;
            }
        }
    });
    receiver
}

async fn speak(client: &Client, number: usize) {
    client.tool("broadcast", json!({ "text": number.to_string() })).await;
}

/// Broadcasts 1, 2, 3, … until one is heard, as nothing tells when the server has begun to listen. Returns the one that was
/// heard and the last that was said.
pub(crate) async fn speak_until_heard(
    client: &Client,
    heard: &mut mpsc::UnboundedReceiver<usize>,
) -> (usize, usize) {
    for number in 1.. {
        speak(client, number).await;
        if let Ok(first) = tokio::time::timeout(Duration::from_millis(50), heard.recv()).await {
            return (first.unwrap(), number);
        }
    }
    unreachable!()
}
