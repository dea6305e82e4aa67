//! Much of everything at once.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::channel::{Channel, ChannelOptions, TooManyInFlight};
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Seen, Server, legacy};

/// The same numbers in every run.
#[derive(Clone)]
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What a message is answered with is a matter of its number.
fn answer(seen: &Seen) -> Answer {
    let number = seen.message["params"]["number"].as_u64().unwrap_or_default();
    let mut numbers = Numbers(number);
    let after = Duration::from_millis(numbers.below(40));
    let result = seen.result(json!({ "number": number }));
    let answer = match (seen.what(), numbers.below(9)) {
        ("call", 0 | 1) => Answer::json(&result),
        ("call", 2) => Answer::events(&[progress(1), progress(2), result]),
        ("call", 3) => Answer::events(&[progress(1)]),
        ("call", 4) => Answer::text("application/json", "{no json"),
        (_, 5) => Answer::status(500),
        (_, 6) => Answer::broken(),
        _ => Answer::status(202),
    };
    answer.after(after)
}

fn call(number: u64) -> JsonRpcMessage {
    let id = i64::try_from(number).unwrap();
    JsonRpcMessage::request(id, "call", json!({ "number": number }))
}

/// Counts answers by id.
async fn read(channel: &mut Channel, answers: &mut HashMap<i64, usize>) {
    let item = in_time(channel.next()).await.unwrap().unwrap();
    if item.message.as_response().is_some() {
        let refused = item.failure.as_ref().and_then(|failure| failure.find::<TooManyInFlight>());
        assert!(refused.is_none(), "{item:?}");
        *answers.entry(id(&item)).or_default() += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn each_of_very_many_requests_is_answered_once() {
    for seed in 1..=3 {
        let server = Server::scripted(|seen| match seen.what() {
            "GET" => Some(Answer::status(405)),
            _ => legacy(seen).or_else(|| Some(answer(seen))),
        });
        let limit = 600;
        let options = ChannelOptions::default().max_in_flight(limit);
        let mut channel = server.transport().channel_with(options);
        handshake(&mut channel).await;
        let mut numbers = Numbers(seed);
        let (mut wanted, mut answers) = (Vec::new(), HashMap::new());
        for number in 1..=1000 {
            let params = json!({ "number": number });
            let message = match numbers.below(4) {
                0 => JsonRpcMessage::notification("note", params),
                1 => JsonRpcMessage::response(number.to_string(), params),
                _ => call(number),
            };
            wanted.extend(message.as_request().map(|_| i64::try_from(number).unwrap()));
            send(&channel.sender(), [message]);
            if numbers.below(10) == 0 {
                tokio::time::sleep(Duration::from_millis(numbers.below(20))).await;
                if wanted.len() > answers.values().sum() {
                    read(&mut channel, &mut answers).await;
                }
            }
        }
        while answers.values().sum::<usize>() < wanted.len() {
            read(&mut channel, &mut answers).await;
        }
        // Whatever waits in the lane may take its time.
        pass(60).await;
        silent(&mut channel).await;
        assert_eq!(answers, wanted.iter().map(|id| (*id, 1)).collect());

        // Nothing of them takes up room: exactly so many more get through.
        let batch = 2000..2000 + u64::try_from(limit).unwrap();
        send(&channel.sender(), batch.clone().map(call));
        let mut answers = HashMap::new();
        while answers.values().sum::<usize>() < limit {
            read(&mut channel, &mut answers).await;
        }
        assert_eq!(answers, batch.map(|number| (i64::try_from(number).unwrap(), 1)).collect());
        in_time(channel.close()).await;
        assert_eq!(server.count("DELETE"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_and_superseded_requests_leave_nothing_behind() {
    let server = Server::scripted(|seen| match seen.what() {
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen).or_else(|| Some(answer(seen))),
    });
    let limit = 400;
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(limit));
    handshake(&mut channel).await;
    let mut numbers = Numbers(7);
    let mut answers = HashMap::new();
    // The last use of each id, and whether it was cancelled.
    let mut last = HashMap::new();
    for number in 1..=1000 {
        let id = i64::try_from(numbers.below(100)).unwrap();
        if numbers.below(4) == 0 {
            last.entry(id).and_modify(|is_cancelled| *is_cancelled = true);
            send(&channel.sender(), [cancelled(id)]);
        } else {
            last.insert(id, false);
            send(&channel.sender(), [JsonRpcMessage::request(id, "call", json!({ "number": number }))]);
        }
        tokio::time::sleep(Duration::from_millis(numbers.below(3))).await;
    }
    pass(600).await;
    // Nobody has read so far, so of each id only the last use can be answered.
    while let Ok(item) = tokio::time::timeout(Duration::from_secs(1), channel.next()).await {
        let item = item.unwrap().unwrap();
        if item.message.as_response().is_some() {
            *answers.entry(id(&item)).or_insert(0_usize) += 1;
        }
    }
    for (id, is_cancelled) in last {
        let count = answers.remove(&id).unwrap_or_default();
        assert!(count == 1 || (count == 0 && is_cancelled), "{id} was answered {count} times");
    }
    assert!(answers.is_empty(), "nobody has asked for {answers:?}");

    let batch = 2000..2000 + u64::try_from(limit).unwrap();
    send(&channel.sender(), batch.clone().map(call));
    let mut answers = HashMap::new();
    while answers.values().sum::<usize>() < limit {
        read(&mut channel, &mut answers).await;
    }
    assert_eq!(answers.len(), limit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_request_of_many_threads_is_answered_once() {
    // This clock runs.
    tokio::time::timeout(Duration::from_secs(60), many_threads()).await.expect("it takes too long");
}

async fn many_threads() {
    let before = alive_tasks();
    let server = Server::scripted(|seen| {
        let at_once = |seen: &Seen| answer(seen).after(Duration::ZERO);
        legacy(seen).or_else(|| Some(at_once(seen)))
    });
    let (senders, each) = (8, 100);
    let mut channel = server.transport().channel();
    for message in [initialize(0), initialized()] {
        channel.sender().send(message).unwrap();
    }
    for sender in 0..senders {
        let channel = channel.sender();
        tokio::spawn(async move {
            for number in 1..=each {
                let number = 1000 * sender + number;
                channel.send(call(number)).unwrap();
                if number % 10 == 0 {
                    channel.send(JsonRpcMessage::notification("note", json!({ "number": number }))).unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    let mut answers = HashMap::new();
    let count = usize::try_from(senders * each).unwrap() + 1;
    while answers.values().sum::<usize>() < count {
        read(&mut channel, &mut answers).await;
    }
    assert_eq!(answers.len(), count);
    channel.close().await;
    while alive_tasks() > before {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.count("DELETE"), 1);
}
