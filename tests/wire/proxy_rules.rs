//! Which connections go through a proxy, and what cannot be one.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, io};

use http::Uri;
use mcp_streamable_http::client::{ClientBuilder, Proxy};
use mcp_streamable_http::{Client, StreamableHttp};

use crate::common::*;
use crate::relay::{Kind, Relay};
use crate::support::mcp::result;
use crate::support::{Answer, Server};

async fn server() -> (Server, SocketAddr) {
    let server = Server::start(|request| Answer::json(200, result(request, serde_json::json!({})))).await;
    let address = server.url().authority().unwrap().as_str().parse().unwrap();
    (server, address)
}

const REFUSAL: &str = "HTTP/1.1 403 Forbidden\r\n\r\n";

/// A proxy that is only there to be asked.
async fn refusing(kind: Kind) -> Relay {
    Relay::start(kind, ([127, 0, 0, 1], 9).into()).await
}

fn named(url: &str) -> Uri {
    url.parse().unwrap()
}

/// Whether a call to `url` goes to the proxy. Elsewhere there may be nobody.
async fn goes_through(relay: &Relay, url: &str, client: ClientBuilder) -> bool {
    let before = relay.wanted().len();
    let transport = transport(named(url), client.connect_timeout(Duration::from_millis(300)));
    let _ = ask(&transport, ping(1)).await;
    relay.wanted().len() > before
}

#[tokio::test]
async fn the_environment_says_which_scheme_has_which_proxy() {
    let relay = refusing(Kind::Answer(REFUSAL)).await;
    let url = relay.url("http://");
    for (name, http, https) in [
        ("HTTP_PROXY", true, false),
        ("http_proxy", true, false),
        ("HTTPS_PROXY", false, true),
        ("https_proxy", false, true),
        ("ALL_PROXY", true, true),
        ("all_proxy", true, true),
        ("SOME_PROXY", false, false),
    ] {
        let client = Client::builder().proxy_from([(name, url.as_str())]);
        assert_eq!(goes_through(&relay, "http://server.invalid/mcp", client.clone()).await, http, "{name}");
        assert_eq!(goes_through(&relay, "https://server.invalid/mcp", client).await, https, "{name}");
    }
}

#[tokio::test]
async fn the_proxy_of_a_scheme_comes_before_that_of_all() {
    let relay = refusing(Kind::Answer(REFUSAL)).await;
    let other = refusing(Kind::SocksAnswer(2)).await;
    let client = Client::builder().proxy_from([
        ("HTTP_PROXY", relay.url("http://")),
        ("HTTPS_PROXY", String::new()),
        ("ALL_PROXY", other.url("socks5h://")),
    ]);
    assert!(goes_through(&relay, "http://server.invalid/mcp", client.clone()).await);
    assert!(goes_through(&other, "https://server.invalid/mcp", client).await);
    assert_eq!((relay.wanted().len(), other.wanted().len()), (1, 1));
}

#[tokio::test]
async fn hosts_and_networks_can_be_spared() {
    let relay = refusing(Kind::Answer(REFUSAL)).await;
    let no = "inside.invalid, .dotted.invalid,192.0.2.0/24,203.0.113.7 , 2001:db8::/32";
    let client = Client::builder().proxy_from([("HTTP_PROXY", &*relay.url("http://")), ("NO_PROXY", no)]);
    for (host, through) in [
        ("inside.invalid", false),
        ("INSIDE.invalid", false),
        ("deep.inside.invalid", false),
        ("notinside.invalid", true),
        ("dotted.invalid", false),
        ("a.dotted.invalid", false),
        ("192.0.2.77", false),
        ("192.0.3.77", true),
        ("203.0.113.7", false),
        ("203.0.113.8", true),
        ("[2001:db8:1::1]", false),
        ("[2001:db9::1]", true),
    ] {
        let url = format!("http://{host}/mcp");
        assert_eq!(goes_through(&relay, &url, client.clone()).await, through, "{host}");
    }
    let all = [("http_proxy", &*relay.url("http://")), ("no_proxy", "*")];
    for url in ["http://server.invalid/mcp", "http://192.0.3.77/mcp", "http://[2001:db9::1]/mcp"] {
        assert!(!goes_through(&relay, url, Client::builder().proxy_from(all)).await, "{url}");
    }
}

#[tokio::test]
async fn the_own_host_never_goes_through_a_proxy_of_the_environment() {
    let (server, address) = server().await;
    let relay = Relay::start(Kind::Connect(None), address).await;
    let client = Client::builder().proxy_from([("ALL_PROXY", relay.url("http://"))]);
    for host in
        ["localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "a.localhost"]
    {
        let url = format!("http://{host}:{}/mcp", address.port());
        assert!(!goes_through(&relay, &url, client.clone()).await, "{host}");
    }
    assert!(!server.requests().is_empty(), "none was reached");
    for host in ["localhost.invalid", "notlocalhost", "128.0.0.1"] {
        assert!(goes_through(&relay, &format!("http://{host}/mcp"), client.clone()).await, "{host}");
    }
}

#[tokio::test]
async fn a_proxy_set_by_hand_is_for_the_own_host_too_but_for_its_exceptions() {
    let (server, address) = server().await;
    let relay = Relay::start(Kind::Connect(None), address).await;
    let url = server.url().to_string();
    let proxy = || Proxy::new(relay.url("http://"));
    for (proxy, through) in [
        (proxy(), true),
        (proxy().except("128.0.0.0/8, example.com"), true),
        (proxy().except("example.com").except("127.0.0.0/8"), false),
        (proxy().except("127.0.0.1"), false),
        (proxy().except("*"), false),
    ] {
        let client = Client::builder().proxy(proxy);
        assert_eq!(goes_through(&relay, &url, client.clone()).await, through, "{client:?}");
    }
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn what_is_said_last_holds() {
    let (server, address) = server().await;
    let relay = Relay::start(Kind::Connect(None), address).await;
    let url = server.url().to_string();
    let proxy = || Proxy::new(relay.url("http://"));
    assert!(!goes_through(&relay, &url, Client::builder().proxy(proxy()).no_proxy()).await);
    assert!(goes_through(&relay, &url, Client::builder().no_proxy().proxy(proxy())).await);
    assert!(
        goes_through(&relay, &url, Client::builder().proxy_from([("ALL_PROXY", "x:y")]).proxy(proxy())).await
    );
}

#[tokio::test]
async fn in_a_cgi_program_the_environment_has_no_proxies() {
    let (_server, address) = server().await;
    let relay = Relay::start(Kind::Connect(None), address).await;
    let client =
        Client::builder().proxy_from([("HTTP_PROXY", &*relay.url("http://")), ("REQUEST_METHOD", "GET")]);
    assert!(!goes_through(&relay, "http://server.invalid/mcp", client).await);
}

/// What cannot be the URL of a proxy, and what is said of it.
const USELESS: [(&str, &str); 12] = [
    ("socks4://me:s3cret@proxy.test", "`socks4`"),
    ("socks4a://me:s3cret@proxy.test", "`socks4a`"),
    ("socks://me:s3cret@proxy.test", "`socks`"),
    ("ftp://me:s3cret@proxy.test", "`ftp`"),
    ("http://me:s3cret@", "cannot be read"),
    ("http://me:s3cret@proxy test", "cannot be read"),
    ("http://me:s3cret@:3128", "no host"),
    ("http://me:s3cret@proxy.test:port", "port"),
    ("http://me:s3cret@proxy.test:70000", "port"),
    ("http://me:s3#cret@proxy.test", "port"),
    ("http://me:s3/cret@proxy.test", "path"),
    ("http://proxy.test/s3cret", "path"),
];

#[test]
fn a_proxy_that_cannot_be_used_is_an_error_wherever_it_comes_from() {
    for (url, why) in USELESS {
        let by_hand = Client::builder().proxy(Proxy::new(url));
        let from_variables = Client::builder().proxy_from([("HTTPS_PROXY", url)]);
        for (client, whose) in
            [(by_hand, "the proxy:"), (from_variables, "the proxy in the variable `HTTPS_PROXY`:")]
        {
            let printed = format!("{client:?}");
            let error = client.build().unwrap_err();
            assert_invalid_option(&error, &[whose, why]);
            assert!(!format!("{printed}{error:?}{error}").contains("cret"), "{url}");
        }
    }
}

#[test]
fn what_is_wrong_with_credentials_and_exceptions_is_an_error() {
    let proxy = || Proxy::new("http://proxy.test");
    let socks = || Proxy::new("socks5h://proxy.test");
    let long = "x".repeat(256);
    for (proxy, why) in [
        (proxy().credentials("m:e", "s3cret"), "colon"),
        (socks().credentials(&*long, "s3cret"), "255 bytes"),
        (socks().credentials("me", &*long), "255 bytes"),
        (proxy().except("10.0.0.0/33"), "`10.0.0.0/33`"),
        (proxy().except("example.com/8"), "`example.com/8`"),
        (proxy().except("example.com,,localhost"), "``"),
        (proxy().except("example.com:8080"), "`example.com:8080`"),
        (proxy().except("*.example.com"), "`*.example.com`"),
    ] {
        let error = Client::builder().proxy(proxy).build().unwrap_err();
        assert_invalid_option(&error, &["the proxy:", why]);
        assert!(!format!("{error:?}{error}").contains("s3cret"));
    }
}

#[test]
fn a_variable_that_is_not_used_need_not_be_usable() {
    let variables =
        [("HTTP_PROXY", "a.test"), ("HTTPS_PROXY", "a.test:3128"), ("ALL_PROXY", "socks://a.test")];
    Client::builder().proxy_from(variables).build().unwrap();
    assert!(Client::builder().proxy_from(variables.into_iter().skip(1)).build().is_err());
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    for name in ["HTTP_PROXY", "https_proxy"] {
        let value = OsString::from_vec(b"http://s3cret\xff@proxy.test".to_vec());
        let client = Client::builder().proxy_from([(name, value)]);
        assert!(!format!("{client:?}").contains("s3cret"));
        let error = client.build().unwrap_err();
        assert_invalid_option(&error, &[name, "not UTF-8"]);
        assert!(!format!("{error:?}{error}").contains("s3cret"));
    }
}

#[test]
fn passwords_are_not_printed() {
    let url = "http://me:s3cret@proxy.test";
    for text in [
        format!("{:?}", Proxy::new(url)),
        format!("{:?}", Proxy::new("proxy.test").credentials("me", "s3cret")),
        format!("{:?}", Client::builder().proxy(Proxy::new(url))),
        format!("{:?}", Client::builder().proxy(Proxy::new(url)).build().unwrap()),
        format!("{:?}", Client::builder().proxy_from([("HTTP_PROXY", url)])),
        format!("{:#?}", Client::builder().proxy_from([("HTTP_PROXY", url)]).build().unwrap()),
    ] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let printed = format!("{:?}", Client::builder().proxy(Proxy::new(url).except("a.test")));
    assert!(printed.contains("http://proxy.test:80") && printed.contains("a.test"), "{printed}");
}

/// Where a test's log goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn passwords_are_not_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.with_ansi(false).finish());
    let (_server, address) = server().await;
    for (kind, prefix) in [
        (Kind::Connect(Some("Basic bWU6czNjcmV0")), "http://me:s3cret@"),
        (Kind::Answer("HTTP/1.1 403 Forbidden\r\n\r\n"), "http://me:s3cret@"),
        (Kind::Socks(Some(("me", "s3cret"))), "socks5h://me:s3cret@"),
        (Kind::SocksAnswer(2), "socks5h://me:s3cret@"),
    ] {
        let relay = Relay::start(kind, address).await;
        let client = Client::builder().proxy(Proxy::new(relay.url(prefix)));
        let _ = ask(&transport(named("http://server.test/mcp"), client), ping(1)).await;
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(log.contains(&relay.address()) || log.contains("server.test"), "nothing was logged");
        assert!(!log.contains("s3cret") && !log.contains("czNjcmV0"), "a password was logged");
    }
}

/// What a child is to talk to. Without it a child's part is to do nothing.
const TARGET: &str = "WIRE_TEST_PROXIED";

/// Plays `part` in a process with this proxy in its environment.
async fn child(part: &'static str, proxy: String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", part, "--nocapture"]).env(TARGET, "http://server.invalid/mcp");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env("http_proxy", proxy);
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output { status, stdout, stderr } = soon(output).await.unwrap().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && stdout.contains("1 passed"), "{status}\n{stdout}\n{stderr}");
}

#[tokio::test]
async fn a_default_client_uses_the_environment_of_its_process() {
    let (server, address) = server().await;
    let relay = Relay::start(Kind::Connect(None), address).await;
    child("proxy_rules::a_default_transport_works", relay.url("http://")).await;
    assert_eq!((relay.targets(), server.requests().len()), (vec!["server.invalid:80".to_owned()], 1));
    child("proxy_rules::a_default_transport_cannot_be_built", "socks4://me:s3cret@proxy.test".to_owned())
        .await;
}

#[tokio::test]
async fn a_default_transport_works() {
    let Ok(target) = env::var(TARGET) else { return };
    works(&StreamableHttp::new(named(&target)).unwrap(), ping(1)).await;
}

#[tokio::test]
async fn a_default_transport_cannot_be_built() {
    let Ok(target) = env::var(TARGET) else { return };
    let error = StreamableHttp::new(named(&target)).unwrap_err();
    assert_invalid_option(&error, &["the proxy in the variable `http_proxy`:", "`socks4`"]);
    Client::builder().no_proxy().build().unwrap();
}
