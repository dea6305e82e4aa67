//! Real proxies between the transport and servers.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use http::Uri;
use mcp_streamable_http::client::{Proxy as Through, ProxyError};
use mcp_streamable_http::{Backoff, Client as HttpClient, Error, RetryPolicy, StreamableHttp};
use mcp_streamable_http_interop::{Client, Nginx, Proxy, free_port};
use serde_json::{Value, json};

use crate::calls::{exchange, with_progress};
use crate::nginx::{bounded, pass};
use crate::profile::SSE;

const USER: &str = "ada";
const PASSWORD: &str = "lovelace1815";
const CREDENTIALS: Option<(&str, &str)> = Some((USER, PASSWORD));
const IN_URL: &str = "ada:lovelace1815@";

/// nginx with TLS before a server, and the server itself.
async fn targets() -> (Nginx, [Uri; 2]) {
    let server = SSE.server.uri();
    let pass = pass(&server);
    let nginx = Nginx::tls("proxy_buffering off;", pass).await;
    let targets = [nginx.at("/mcp"), server];
    (nginx, targets)
}

fn client(nginx: &Nginx, target: &Uri, through: Through) -> Client {
    let client =
        HttpClient::builder().root_certificates_pem(nginx.authority()).proxy(through).build().unwrap();
    once(target, client)
}

/// A client that asks a server once which cannot be reached.
fn once(target: &Uri, client: HttpClient) -> Client {
    let retry = RetryPolicy::new().backoff(Backoff::default().attempts(0));
    Client::over(StreamableHttp::with_client(target.clone(), client).retry(retry).build().unwrap())
}

/// A session through the proxy, with each of the targets.
async fn carries(proxy: &Proxy, through: impl Fn() -> Through) {
    let (nginx, targets) = targets().await;
    for target in &targets {
        let client = client(&nginx, target, through());
        client.handshake("2025-11-25", json!({})).await;
        with_progress(&client, &SSE, json!("a token")).await;
        exchange(&client, &(SSE.echo)(&"Grüße ".repeat(50_000))).await;
        client.transport().terminate().await.unwrap();
        assert!(proxy.connections_to(target) > 0, "{target} was reached otherwise");
    }
}

/// What a call fails with that the proxy does not let through, for each of the targets.
async fn refuses(through: impl Fn() -> Through) -> Vec<Error> {
    let (nginx, targets) = targets().await;
    let mut errors = Vec::new();
    for target in &targets {
        let error = client(&nginx, target, through()).try_call("ping", json!({})).await.unwrap_err();
        assert!(error.is_connect() && !error.may_have_run(), "{error:?}");
        let text = format!("{error} {error:?} {error:#?}");
        assert!(error.to_string().contains("proxy"), "{text}");
        for secret in ["wrong-one", USER, PASSWORD] {
            assert!(!text.contains(secret), "{text}");
        }
        errors.push(error);
    }
    assert!(nginx.served().is_empty());
    errors
}

mod http_proxy {
    use super::*;

    #[tokio::test]
    async fn a_session_goes_through_it() {
        bounded(async {
            let proxy = Proxy::http(None).await;
            carries(&proxy, || Through::new(proxy.url("http", ""))).await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_session_goes_through_one_that_wants_credentials() {
        bounded(async {
            let proxy = Proxy::http(CREDENTIALS).await;
            carries(&proxy, || Through::new(proxy.url("http", IN_URL))).await;
            carries(&proxy, || Through::new(proxy.url("http", "")).credentials(USER, PASSWORD)).await;
        })
        .await;
    }

    #[tokio::test]
    async fn wrong_and_missing_credentials_are_refused_and_not_told() {
        bounded(async {
            let proxy = Proxy::http(CREDENTIALS).await;
            // What this proxy says to wrong credentials is 401, as a server would.
            for (user, status) in [("ada:wrong-one@", 401), ("", 407)] {
                for error in refuses(|| Through::new(proxy.url("http", user))).await {
                    let refused = error.find::<ProxyError>().unwrap();
                    assert_eq!(refused.status().unwrap(), status);
                    assert_eq!(refused.proxy(), proxy.url("http", ""));
                    assert_eq!(error.status(), None, "it is no status of the server");
                }
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_server_that_it_cannot_reach_was_sent_nothing() {
        bounded(async {
            let proxy = Proxy::http(None).await;
            let target: Uri = format!("http://127.0.0.1:{}/mcp", free_port()).parse().unwrap();
            let client = HttpClient::builder().proxy(Through::new(proxy.url("http", ""))).build().unwrap();
            let error = once(&target, client).try_call("ping", json!({})).await.unwrap_err();
            assert!(error.is_connect() && !error.may_have_run(), "{error:?}");
            let refused = error.find::<ProxyError>().unwrap();
            assert!(refused.status().unwrap().is_server_error(), "{refused}");
            assert!(error.to_string().contains(target.authority().unwrap().as_str()), "{error}");
        })
        .await;
    }
}

mod socks_proxy {
    use super::*;

    #[tokio::test]
    async fn a_session_goes_through_it() {
        bounded(async {
            let proxy = Proxy::socks(None).await;
            carries(&proxy, || Through::new(proxy.url("socks5h", ""))).await;
            carries(&proxy, || Through::new(proxy.url("socks5", ""))).await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_session_goes_through_one_that_wants_credentials() {
        bounded(async {
            let proxy = Proxy::socks(CREDENTIALS).await;
            carries(&proxy, || Through::new(proxy.url("socks5h", IN_URL))).await;
            carries(&proxy, || Through::new(proxy.url("socks5", "")).credentials(USER, PASSWORD)).await;
        })
        .await;
    }

    #[tokio::test]
    async fn wrong_and_missing_credentials_are_refused_and_not_told() {
        bounded(async {
            let proxy = Proxy::socks(CREDENTIALS).await;
            for user in ["ada:wrong-one@", ""] {
                for error in refuses(|| Through::new(proxy.url("socks5h", user))).await {
                    let refused = error.find::<ProxyError>().unwrap();
                    assert_eq!(refused.status(), None);
                    assert_eq!(refused.proxy(), proxy.url("socks5h", ""));
                }
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    bounded(async {
        let port = free_port();
        for scheme in ["http", "socks5h"] {
            for error in refuses(|| Through::new(format!("{scheme}://{IN_URL}127.0.0.1:{port}"))).await {
                let unreachable = error.find::<ProxyError>().unwrap();
                assert_eq!(unreachable.proxy(), format!("{scheme}://127.0.0.1:{port}"));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn exceptions_are_reached_directly() {
    bounded(async {
        let proxy = Proxy::http(None).await;
        let (nginx, targets) = targets().await;
        for target in &targets {
            let through = Through::new(proxy.url("http", "")).except("127.0.0.0/8");
            client(&nginx, target, through).handshake("2025-11-25", json!({})).await;
            assert_eq!(proxy.connections_to(target), 0);
        }
    })
    .await;
}

mod environment {
    use super::*;

    /// The answer to `initialize` that the example `bridge` gets, in a process with these variables.
    fn through_the_bridge(target: &Uri, variables: &[(&str, &str)]) -> Value {
        let mut command =
            Command::new(env::var_os("INTEROP_BRIDGE").expect("run the suite with tests/interop/run"));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.arg(target.to_string()).envs(variables.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "interop", "version": "1.0" },
        });
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{line}").unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let answer = receiver.recv_timeout(Duration::from_secs(20));
        drop(stdin);
        // It ends with its input; if it does not, it must not stay.
        if answer.is_err() {
            child.kill().unwrap();
        }
        child.wait().unwrap();
        serde_json::from_str(&answer.expect("the bridge does not answer")).unwrap()
    }

    async fn bridged(target: &Uri, variables: &[(&'static str, &str)]) -> Value {
        let target = target.clone();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        tokio::task::spawn_blocking(move || {
            let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            through_the_bridge(&target, &variables)
        })
        .await
        .unwrap()
    }

    /// The own host under an address that does not say so.
    const ELSEWHERE: &str = "0.0.0.0";

    #[tokio::test]
    async fn says_what_goes_through_a_proxy() {
        bounded(async {
            let pass = pass(&SSE.server.uri());
            let (plain, tls) = tokio::join!(Nginx::plain("", pass.clone()), Nginx::tls("", pass));
            let (http, socks) = tokio::join!(Proxy::http(CREDENTIALS), Proxy::socks(None));
            let authority = env::temp_dir().join(format!("interop-authority-{}.pem", std::process::id()));
            std::fs::write(&authority, tls.authority()).unwrap();
            let trust = ("SSL_CERT_FILE", authority.to_str().unwrap());
            let (plain, tls) = (plain.at_host(ELSEWHERE, "/mcp"), tls.at_host(ELSEWHERE, "/mcp"));

            let through_http = http.url("http", IN_URL);
            let through_socks = socks.url("socks5h", "");
            for (target, variable, proxy, url) in [
                (&plain, "HTTP_PROXY", &http, &through_http),
                (&plain, "all_proxy", &socks, &through_socks),
                (&tls, "HTTPS_PROXY", &http, &through_http),
                (&tls, "ALL_PROXY", &socks, &through_socks),
            ] {
                let before = proxy.connections_to(target);
                let answer = bridged(target, &[(variable, url), trust]).await;
                assert_eq!(answer["result"]["serverInfo"]["name"], SSE.name, "{answer}");
                assert!(proxy.connections_to(target) > before, "{target} was reached without {variable}");
                // With an exception it is not.
                let before = proxy.connections_to(target);
                let answer = bridged(target, &[(variable, url), ("NO_PROXY", ELSEWHERE), trust]).await;
                assert_eq!(answer["result"]["serverInfo"]["name"], SSE.name, "{answer}");
                assert_eq!(proxy.connections_to(target), before);
            }
            std::fs::remove_file(authority).unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn sends_nothing_for_the_own_host_through_a_proxy() {
        bounded(async {
            let proxy = Proxy::http(None).await;
            let target = SSE.server.uri();
            let url = proxy.url("http", "");
            let answer = bridged(&target, &[("HTTP_PROXY", &url), ("ALL_PROXY", &url)]).await;
            assert_eq!(answer["result"]["serverInfo"]["name"], SSE.name, "{answer}");
            assert_eq!(proxy.connections_to(&target), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn wrong_credentials_there_are_an_answer_that_does_not_tell_them() {
        bounded(async {
            let pass = pass(&SSE.server.uri());
            let (nginx, proxy) = tokio::join!(Nginx::plain("", pass), Proxy::http(CREDENTIALS));
            let url = proxy.url("http", "ada:wrong-one@");
            let answer = bridged(&nginx.at_host(ELSEWHERE, "/mcp"), &[("HTTP_PROXY", &url)]).await;
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("proxy") && message.contains("401"), "{message}");
            assert!(!answer.to_string().contains("wrong-one"), "{answer}");
            assert!(nginx.served().is_empty());
        })
        .await;
    }
}

/// No time makes them right, and a proxy may lock out who tries too often.
#[tokio::test]
async fn wrong_credentials_are_told_to_a_proxy_once() {
    bounded(async {
        let proxy = Proxy::http(CREDENTIALS).await;
        let target = SSE.server.uri();
        let client =
            HttpClient::builder().proxy(Through::new(proxy.url("http", "ada:wrong-one@"))).build().unwrap();
        let client = Client::over(StreamableHttp::with_client(target.clone(), client).build().unwrap());
        let error = client.try_call("tools/call", json!({ "name": "echo" })).await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        assert_eq!(proxy.connections_to(&target), 1);
    })
    .await;
}
