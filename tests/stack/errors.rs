//! Answers that are none: which error each becomes, and what it tells.

use mcp_streamable_http::error::{ContentProblem, UnexpectedContent, UnexpectedStatus};
use mcp_streamable_http::{Error, JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::{error, result};
use crate::support::{Answer, Request};

/// The error that the answer to a request becomes; the transport must survive it.
async fn error_of(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Error {
    let server = server(answer).await;
    let transport = transport(&server);
    let error = ask(&transport, call(1)).await.unwrap_err();
    ping_works(&transport).await;
    assert_eq!(server.requests().len(), 2, "nothing is sent twice");
    error
}

fn data(error: &Error) -> Value {
    error.to_json_rpc().data().unwrap().to().unwrap()
}

#[tokio::test]
async fn a_success_that_brings_no_response_is_an_error_at_once() {
    let no_body = |status: u16| move |_: &Request| Answer::status(status);
    let json = |body: &'static str| move |_: &Request| Answer::status(200).body("application/json", body);
    for (name, error, code) in [
        ("202", error_of(no_body(202)).await, -32600),
        ("204", error_of(no_body(204)).await, -32600),
        (
            "202 with a response",
            error_of(|request| Answer::json(202, result(request, json!({})))).await,
            -32600,
        ),
        ("200 without a body", error_of(no_body(200)).await, -32600),
        ("an empty JSON body", error_of(json("")).await, -32600),
        ("blanks", error_of(json(" \r\n")).await, -32600),
        ("an empty object", error_of(json("{}")).await, -32700),
        ("another object", error_of(json(r#"{"ok":true}"#)).await, -32700),
        ("an empty batch", error_of(json("[]")).await, -32700),
        ("a request", error_of(json(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)).await, -32700),
        ("a number", error_of(json("1")).await, -32700),
        ("null", error_of(json("null")).await, -32700),
        ("a wrong version", error_of(json(r#"{"jsonrpc":"1.0","id":1,"result":{}}"#)).await, -32700),
        ("neither of the two", error_of(json(r#"{"jsonrpc":"2.0","id":1}"#)).await, -32700),
        ("a page", error_of(|_| Answer::status(200).body("text/html", "<p>Hi</p>")).await, -32600),
    ] {
        let status = error.status().unwrap_or_else(|| panic!("{name}: {error:?}"));
        assert!(status.is_success() && error.to_string().contains(status.as_str()), "{name}: {error}");
        assert_eq!(error.to_json_rpc().code(), code, "{name}: {error}");
        assert_eq!(data(&error), json!({ "source": "mcp-streamable-http", "status": status.as_u16() }));
        assert!(error.may_have_run() && !error.is_timeout() && !error.is_session_expired(), "{name}");
    }
}

#[tokio::test]
async fn the_error_shows_the_start_of_what_came_instead() {
    let long = format!(r#"{{"oops":"{}"}}"#, "word ".repeat(10_000));
    let error = error_of(move |_| Answer::status(200).body("application/json", long.clone())).await;
    assert!(error.to_string().contains("oops") && error.to_string().len() < 400, "{error}");

    let page = "<html>\r\n<title>Sign in</title> session 3fa85f64-5717-4562-b3fc-2c963f66afa6";
    let error = error_of(move |_| Answer::status(203).body("text/html", page)).await;
    assert!(error.to_string().contains("203") && error.to_string().contains("Sign in"), "{error}");
    assert!(error.to_string().contains("text/html") && !error.to_string().contains("3fa85f64"), "{error}");
    let problem = error.find::<UnexpectedContent>().unwrap().problem();
    assert_eq!(*problem, ContentProblem::ContentType(Some("text/html".to_owned())));
}

#[tokio::test]
async fn a_challenge_is_an_error_with_every_challenge() {
    for status in [401, 403] {
        let error = error_of(move |request| {
            Answer::json(status, error(request, -32001, "who are you?"))
                .header("www-authenticate", "Bearer resource_metadata=\"https://h/x\"")
                .another_header("www-authenticate", "Basic realm=\"r\"")
        })
        .await;
        assert_eq!(error.status().unwrap(), status);
        let challenges: Vec<_> = error.challenges().iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(challenges, ["Bearer resource_metadata=\"https://h/x\"", "Basic realm=\"r\""]);
        assert!(error.challenges().iter().all(|value| value.is_sensitive()));
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        let json_rpc = error.to_json_rpc();
        assert_eq!((json_rpc.code(), json_rpc.message()), (-32001, "who are you?"), "the body's own");
        assert!(json_rpc.data().is_none() && !error.may_have_run());
    }
    let error = error_of(|_| Answer::status(401).header("www-authenticate", "Bearer").text("no")).await;
    assert_eq!((error.challenges().len(), error.to_json_rpc().code()), (1, -32603));
    assert_eq!(data(&error), json!({ "source": "mcp-streamable-http", "status": 401 }));
}

#[tokio::test]
async fn the_html_page_of_a_proxy_is_shown_in_short() {
    let page = format!(
        "<html><head><title>500 Internal Server Error</title></head>\n<body>{}Authorization: Bearer abc.def</body>",
        "<p>x</p> ".repeat(3)
    ) + &" tail".repeat(10_000);
    let error = error_of(move |_| Answer::status(500).body("text/html", page.clone())).await;
    let text = error.to_string();
    assert!(text.contains("500") && text.contains("<title>"), "{text}");
    assert!(text.len() < 400 && !text.contains("abc.def") && !text.contains('\n'), "{text}");
    assert_eq!((error.status().unwrap().as_u16(), error.to_json_rpc().code()), (500, -32603));
    assert!(error.may_have_run());
}

#[tokio::test]
async fn an_error_body_that_never_ends_does_not_hold_its_status_back() {
    // Its start comes together with the head.
    let start = "HTTP/1.1 500 Internal Server Error\r\ntransfer-encoding: chunked\r\n\r\n7\r\n<p>Oops\r\n";
    let server = server(move |_| Answer::raw_response(start).hang()).await;
    let limits = mcp_streamable_http::Limits::default();
    let limits = limits.error_body_timeout(std::time::Duration::from_millis(40));
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    let error = ask(&transport, call(1)).await.unwrap_err();
    assert!(error.to_string().contains("500") && error.to_string().contains("<p>Oops"), "{error}");
    assert!(!error.is_timeout());
    server.gone().await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn an_error_body_is_read_up_to_its_limit() {
    let server = server(|_| Answer::status(503).chunked().text("too much ".repeat(1000)).hang()).await;
    let limits = mcp_streamable_http::Limits::default().max_error_bytes(100);
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    let error = ask(&transport, call(1)).await.unwrap_err();
    assert!(error.to_string().contains("503") && error.to_string().contains("too much"), "{error}");
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_redirect_is_an_error_that_names_the_target_without_its_secrets() {
    for status in [301, 302, 303, 307, 308] {
        let target = "https://us3r:passw0rd@other.example/mcp?token=t0ken#fr4gment";
        let error = error_of(move |_| Answer::status(status).header("location", target)).await;
        let text = format!("{error} {error:?}");
        assert!(text.contains(&status.to_string()) && text.contains("https://other.example/mcp"), "{text}");
        for secret in ["us3r", "passw0rd", "t0ken", "fr4gment"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!((error.status().unwrap().as_u16(), error.to_json_rpc().code()), (status, -32600));
        assert!(!error.may_have_run());
    }
}

#[tokio::test]
async fn a_server_of_the_older_transport_is_recognized() {
    for status in [404, 405] {
        let server = server(move |_| Answer::status(status).header("allow", "GET").text("Not here")).await;
        let transport = transport(&server);
        let error = ask(&transport, initialize(1)).await.unwrap_err();
        assert!(
            error.to_string().contains("HTTP+SSE") && error.to_string().contains("2024-11-05"),
            "{error}"
        );
        assert_eq!(error.status().unwrap(), status);
        // Any other message says nothing about that.
        let error = ask(&transport, call(2)).await.unwrap_err();
        assert!(!error.to_string().contains("HTTP+SSE"), "{error}");
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn retry_after_can_be_a_date() {
    let date = "Wed, 21 Oct 2015 07:28:00 GMT";
    let error = error_of(move |_| Answer::status(503).header("retry-after", date)).await;
    assert_eq!(error.retry_after(), Some(std::time::Duration::ZERO));
    assert!(!error.find::<UnexpectedStatus>().unwrap().had_session());
}

#[tokio::test]
async fn a_request_whose_id_is_no_integer_is_refused() {
    let server = server(|request| Answer::json(200, result(request, json!({})))).await;
    let transport = transport(&server);
    let question = JsonRpcMessage::decode(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#).unwrap();
    let error = ask(&transport, question).await.unwrap_err();
    assert!(error.to_string().contains("1.5") && !error.may_have_run(), "{error}");
    assert!(server.requests().is_empty());
    // But the server may use one, and gets it back.
    let answer = JsonRpcMessage::decode(r#"{"jsonrpc":"2.0","id":1.50,"result":{}}"#).unwrap();
    assert!(rest(send(&transport, answer).await.unwrap()).await.is_empty());
    assert!(server.requests()[0].body.windows(9).any(|window| window == br#""id":1.50"#));
}
