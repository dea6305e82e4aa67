//! Tokens: when the source is asked for one, where they go, and what becomes of a request that is refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use common::bridge::{Answer, JSON, PONG, Query};
use common::*;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http_layers::bearer::Refusal;
use mcp_streamable_http_layers::error::{BoxError, NoToken, TimedOut};
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Bearer, BearerLayer, Envelope, EnvelopeLayer, Error, Session, Sse, SseLayer,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready, task};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock;

type Asking = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;
type Say = oneshot::Sender<Result<String, BoxError>>;

/// A source of tokens that the test plays.
struct Source(mpsc::UnboundedReceiver<(Option<Refusal>, Say)>);

impl Source {
    /// What it is asked.
    #[track_caller]
    fn asked(&mut self) -> (Option<Refusal>, Say) {
        self.0.try_recv().expect("it was not asked")
    }

    #[track_caller]
    fn gives(&mut self, token: &str) {
        self.asked().1.send(Ok(token.to_owned())).unwrap();
    }

    #[track_caller]
    fn assert_not_asked(&mut self) {
        assert!(self.0.try_recv().is_err(), "it was asked");
    }
}

fn source() -> (impl Fn(Option<Refusal>) -> Asking + Send + Sync + 'static, Source) {
    let (ask, asked) = mpsc::unbounded_channel();
    let source = move |refusal| {
        let (say, said) = oneshot::channel();
        let _ = ask.send((refusal, say));
        Box::pin(async move { said.await? }) as Asking
    };
    (source, Source(asked))
}

type Http = mock::Mock<Query, Answer>;

fn rig_with(set: impl Fn(BearerLayer) -> BearerLayer) -> (Bearer<Http>, Server<Query, Answer>, Source) {
    let (source, asked) = source();
    let (mock, handle) = mock::pair();
    let layer = set(BearerLayer::new(&ENDPOINT.parse().unwrap(), source));
    (layer.layer(mock), Server(handle), asked)
}

fn rig() -> (Bearer<Http>, Server<Query, Answer>, Source) {
    rig_with(|layer| layer)
}

/// One that has the token "t-1" already.
fn rig_with_token() -> (Bearer<Http>, Server<Query, Answer>, Source) {
    let (mut bearer, mut server, mut source) = rig();
    let mut sent = call(&mut bearer, post());
    give(&mut sent, &mut source, "t-1");
    server.received().1.send_response(answer(202, "", ""));
    assert_eq!(now(sent).unwrap().status(), 202);
    (bearer, server, source)
}

fn client(bearer: Bearer<Http>) -> Envelope<Sse<Bearer<Http>>> {
    EnvelopeLayer::new(endpoint(), Session::new()).layer(SseLayer::new(Limits::default()).layer(bearer))
}

fn post() -> Query {
    Request::post(ENDPOINT).header("mcp-session-id", "s-1").body(Full::from("{\"a\": 1.0}")).unwrap()
}

fn unauthorized() -> Answer {
    let one = with_header(answer(401, "", ""), "www-authenticate", b"Bearer realm=\"a\"");
    with_header(one, "www-authenticate", b"Bearer error=\"invalid_token\"")
}

fn token_of<B>(request: &Request<B>) -> Option<&str> {
    request.headers().get("authorization").map(|value| value.to_str().unwrap())
}

/// Its request waits for a token, and then for its answer.
#[track_caller]
fn give<F: Future<Output: Debug>>(sent: &mut task::Spawn<F>, source: &mut Source, token: &str) {
    assert_pending!(sent.poll());
    source.gives(token);
    assert_pending!(sent.poll());
}

/// All that an error shows of itself.
fn shown(error: &BoxError) -> String {
    let chain = std::iter::successors(error.source(), |error| error.source());
    let sources: Vec<_> = chain.map(|error| format!("{error} {error:?}")).collect();
    format!("{error} {error:?} {sources:?}")
}

#[test]
fn the_first_token_is_asked_for_once_however_many_need_it() {
    let (bearer, mut server, mut source) = rig();
    let mut calls: Vec<_> = (0..64).map(|_| call(&mut bearer.clone(), post())).collect();
    calls.iter_mut().for_each(|call| assert_pending!(call.poll()));
    server.assert_nothing_received();
    let (refusal, say) = source.asked();
    assert!(refusal.is_none());
    say.send(Ok("t-1".into())).unwrap();
    for sent in &mut calls {
        assert_pending!(sent.poll());
        let (request, reply) = server.received();
        assert_eq!(token_of(&request), Some("Bearer t-1"));
        assert!(request.headers()["authorization"].is_sensitive());
        reply.send_response(answer(202, "", ""));
        assert_eq!(assert_ready!(sent.poll()).unwrap().status(), 202);
    }
    source.assert_not_asked();
}

#[test]
fn a_refused_request_is_sent_again_as_it_was_with_another_token() {
    let (mut bearer, mut server, mut source) = rig_with_token();
    let mut sent = call(&mut bearer, post());
    let (first, reply) = server.received();
    assert_eq!(token_of(&first), Some("Bearer t-1"));
    reply.send_response(unauthorized());
    assert_pending!(sent.poll());
    let (refusal, say) = source.asked();
    let challenges = refusal.unwrap().challenges;
    assert_eq!(challenges, ["Bearer realm=\"a\"", "Bearer error=\"invalid_token\""]);
    assert!(challenges.iter().all(http::HeaderValue::is_sensitive));
    say.send(Ok("t-2".into())).unwrap();
    assert_pending!(sent.poll());
    let (second, reply) = server.received();
    assert_eq!(token_of(&second), Some("Bearer t-2"));
    let rest = |request: Query| {
        let (mut head, body) = request.into_parts();
        head.headers.remove("authorization");
        (head.method, head.uri, head.version, head.headers, now(body.collect()).unwrap().to_bytes())
    };
    assert_eq!(rest(second), rest(first));
    reply.send_response(answer(200, JSON, PONG));
    assert_eq!(now(sent).unwrap().status(), 200);

    let _next = call(&mut bearer, post());
    assert_eq!(token_of(&server.received().0), Some("Bearer t-2"), "it is kept");
}

#[test]
fn those_that_are_refused_at_a_time_share_the_next_token() {
    let (bearer, mut server, mut source) = rig_with_token();
    let mut calls: Vec<_> = (0..9).map(|_| call(&mut bearer.clone(), post())).collect();
    let replies: Vec<_> = calls.iter().map(|_| server.received().1).collect();
    let mut replies = replies.into_iter();
    let late = replies.next().unwrap();
    replies.for_each(|reply| reply.send_response(unauthorized()));
    calls.iter_mut().for_each(|call| assert_pending!(call.poll()));
    source.gives("t-2");
    source.assert_not_asked();
    for sent in &mut calls[1..] {
        assert_pending!(sent.poll());
        assert_eq!(token_of(&server.received().0), Some("Bearer t-2"));
    }
    // One that was sent with the old token, and is refused only now.
    late.send_response(unauthorized());
    assert_pending!(calls[0].poll());
    assert_eq!(token_of(&server.received().0), Some("Bearer t-2"));
    source.assert_not_asked();
}

#[test]
fn the_second_refusal_is_the_answer_and_says_how_to_get_on() {
    let (bearer, mut server, mut source) = rig_with_token();
    let mut client = client(bearer);
    let mut sent = call(&mut client, ping(1));
    server.received().1.send_response(unauthorized());
    give(&mut sent, &mut source, "t-2");
    server.received().1.send_response(with_header(answer(401, "", ""), "www-authenticate", b"Basic"));
    let error = response(now(sent)).unwrap_err();
    assert_eq!(error.status(), Some(StatusCode::UNAUTHORIZED));
    assert_eq!(error.challenges(), ["Basic"]);
    assert!(!error.may_have_run());
    source.assert_not_asked();
}

#[test]
fn any_other_answer_is_the_answer_at_once() {
    let (mut bearer, mut server, mut source) = rig_with_token();
    for status in [200, 202, 307, 400, 403, 404, 407, 500] {
        let sent = call(&mut bearer, post());
        server.received().1.send_response(answer(status, "", ""));
        assert_eq!(now(sent).unwrap().status(), status);
        server.assert_nothing_received();
        source.assert_not_asked();
    }
}

#[test]
fn a_source_that_fails_fails_the_requests_that_wait_which_are_not_sent() {
    let (bearer, mut server, mut source) = rig();
    let mut client = client(bearer);
    for _ in 0..2 {
        let (mut sent, mut waiting) = (call(&mut client, ping(1)), call(&mut client, ping(2)));
        assert_pending!(sent.poll());
        assert_pending!(waiting.poll());
        source.asked().1.send(Err("no login".into())).unwrap();
        let error = response(now(sent)).unwrap_err();
        assert!(error.to_string().contains("no login"), "{error}");
        for error in [error, response(now(waiting)).unwrap_err()] {
            assert!(error.find::<NoToken>().is_some() && !error.may_have_run(), "{error:?}");
        }
        source.assert_not_asked();
        server.assert_nothing_received();
    }
    // A failure is not kept: the next asks again.
    let mut sent = call(&mut client, ping(1));
    give(&mut sent, &mut source, "t-1");
    server.received().1.send_response(unauthorized());
    assert_pending!(sent.poll());
    source.asked().1.send(Err("logged out".into())).unwrap();
    let error = response(now(sent)).unwrap_err();
    assert!(error.find::<NoToken>().is_some() && !error.may_have_run(), "a refused request has not run");
    server.assert_nothing_received();
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_waited_for_within_a_bound() {
    for (set, bound) in [(None, 30), (Some(Duration::from_secs(5)), 5)] {
        let (mut bearer, mut server, mut source) =
            rig_with(|layer| set.map_or(layer.clone(), |bound| layer.timeout(bound)));
        let mut first = call(&mut bearer, post());
        assert_pending!(first.poll());
        let _hanging = source.asked();
        advance(Duration::from_secs(2)).await;
        let mut second = call(&mut bearer, post());
        assert_pending!(second.poll());
        advance(Duration::from_secs(bound - 2) - Duration::from_millis(1)).await;
        assert_pending!(first.poll());
        advance(Duration::from_millis(2)).await;
        let error = Error::new(assert_ready!(first.poll()).unwrap_err());
        assert!(error.is_timeout() && error.find::<NoToken>().is_some(), "{error:?}");
        assert_eq!(error.find::<TimedOut>().unwrap().after(), Duration::from_secs(bound));
        server.assert_nothing_received();
        // It is the turn of the next, whose wait counts.
        assert_pending!(second.poll());
        let _hanging = source.asked();
        advance(Duration::from_secs(2)).await;
        assert!(Error::new(assert_ready!(second.poll()).unwrap_err()).is_timeout());
    }
}

#[test]
fn when_the_one_that_asks_is_dropped_the_next_asks() {
    let (mut bearer, mut server, mut source) = rig();
    let mut first = call(&mut bearer, post());
    let mut second = call(&mut bearer, post());
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    let (_, say) = source.asked();
    drop(first);
    assert!(say.is_closed(), "nobody waits for it any more");
    assert!(second.is_woken());
    give(&mut second, &mut source, "t-1");
    assert_eq!(token_of(&server.received().0), Some("Bearer t-1"));
    server.assert_nothing_received();
}

#[test]
fn tokens_go_to_their_origin_only_and_replace_no_credentials_of_the_callers_own() {
    let (mut bearer, mut server, mut source) = rig_with_token();
    for (is_ours, uri) in [
        (true, "https://example.com/mcp"),
        (true, "https://example.com:443/other?q"),
        (true, "https://EXAMPLE.com/"),
        (false, "http://example.com/mcp"),
        (false, "http://example.com:443/mcp"),
        (false, "https://example.com:8443/mcp"),
        (false, "https://example.org/mcp"),
        (false, "https://api.example.com/mcp"),
        (false, "https://example.com.evil.test/mcp"),
        (false, "https://example.com@evil.test/mcp"),
        (false, "/mcp"),
    ] {
        let sent = call(&mut bearer, Request::post(uri).body(Full::default()).unwrap());
        let (request, reply) = server.received();
        assert_eq!(token_of(&request).is_some(), is_ours, "{uri}");
        if !is_ours {
            reply.send_response(unauthorized());
            assert_eq!(now(sent).unwrap().status(), 401);
        }
        source.assert_not_asked();
    }
    let own = Request::post(ENDPOINT).header("authorization", "Basic b3du").body(Full::default());
    let sent = call(&mut bearer, own.unwrap());
    let (request, reply) = server.received();
    assert_eq!(token_of(&request), Some("Basic b3du"));
    reply.send_response(unauthorized());
    assert_eq!(now(sent).unwrap().status(), 401);
    for method in [Method::GET, Method::DELETE] {
        let request = Request::builder().method(method).uri(ENDPOINT).body(Full::default()).unwrap();
        let _sent = call(&mut bearer, request);
        assert_eq!(token_of(&server.received().0), Some("Bearer t-1"));
    }
}

#[test]
fn what_cannot_be_sent_is_no_token_and_is_not_shown() {
    for token in ["s3cret\r\nx: y", "s3cret\0", "s3cret\u{7f}"] {
        let (mut bearer, mut server, mut source) = rig();
        let mut sent = call(&mut bearer, post());
        assert_pending!(sent.poll());
        source.gives(token);
        let error = now(sent).unwrap_err();
        assert!(!shown(&error).contains("s3cret"), "{}", shown(&error));
        let error = Error::new(error);
        assert!(error.find::<NoToken>().is_some() && !error.may_have_run(), "{error:?}");
        server.assert_nothing_received();
    }
}

#[test]
fn tokens_and_challenges_are_not_shown() {
    let (source, mut asked) = source();
    let layer = BearerLayer::new(&ENDPOINT.parse().unwrap(), source);
    let (mock, handle) = mock::pair::<Query, Answer>();
    let (mut bearer, mut server) = (layer.layer(mock), Server(handle));
    let mut sent = call(&mut bearer, post());
    give(&mut sent, &mut asked, "s3cret");
    let (request, reply) = server.received();
    let text = format!("{layer:?} {:?} {:?}", &*sent, request);
    reply.send_response(with_header(answer(401, "", ""), "www-authenticate", b"Bearer realm=\"s3cret\""));
    assert_pending!(sent.poll());
    let (refusal, say) = asked.asked();
    drop(say);
    let challenges = &refusal.as_ref().unwrap().challenges;
    let text = format!("{text} {refusal:?} {challenges:?} {}", shown(&now(sent).unwrap_err()));
    assert!(text.contains("BearerLayer") && !text.contains("s3cret"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn room_for_one_call_below_is_enough() {
    let source = |refusal: Option<Refusal>| {
        let token = if refusal.is_some() { "t-2" } else { "t-1" };
        async move { Ok::<_, BoxError>(token.to_owned()) }
    };
    let service = ServiceBuilder::new()
        .layer(BearerLayer::new(&ENDPOINT.parse().unwrap(), source))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(service_fn(|request: Query| async move {
            // Others get their turn while it is under way.
            tokio::task::yield_now().await;
            let status = if token_of(&request) == Some("Bearer t-2") { 200 } else { 401 };
            Ok::<_, BoxError>(answer(status, "", Bytes::new()))
        }));
    let calls = (0..8).map(|_| tokio::spawn(service.clone().oneshot(post())));
    let all = futures_util::future::join_all(calls);
    for answer in tokio::time::timeout(Duration::from_secs(5), all).await.expect("it is stuck") {
        assert_eq!(answer.unwrap().unwrap().status(), 200);
    }
}

#[test]
fn the_service_that_was_made_ready_is_the_one_that_is_called() {
    let (bearer, mut server, _source) = rig();
    assert_ready_passes_through(bearer, &mut server);

    // This mock panics when one is called that was not made ready, and a clone of it is not.
    let (mut bearer, mut server, mut source) = rig();
    server.0.allow(1);
    let mut sent = call(&mut bearer, post());
    give(&mut sent, &mut source, "t-1");
    server.received().1.send_response(unauthorized());
    give(&mut sent, &mut source, "t-2");
    server.assert_nothing_received();
    server.0.allow(1);
    assert!(sent.is_woken(), "the second call waits for its turn");
    assert_pending!(sent.poll());
    server.received().1.send_response(answer(202, "", ""));
    assert_eq!(now(sent).unwrap().status(), 202);
}
