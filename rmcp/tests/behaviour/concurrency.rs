//! Many calls at once.

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn calls_neither_wait_for_each_other_nor_get_each_others_answers() {
    const CALLS: usize = 100;
    let mut server = either();
    let client = connect(&server).await;
    let calls: Vec<_> = (0..CALLS).map(|_| call(&client, "add")).collect();
    let mut waiting = Vec::new();
    for _ in 0..CALLS {
        waiting.push(server.expect("tools/call").await);
    }
    // All are on their way, and are answered last first.
    for tool in waiting.into_iter().rev() {
        let id = tool.seen.message["id"].to_string();
        tool.result(said(&id));
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(came_to(call).await.unwrap().parse::<u64>().unwrap());
    }
    // Their ids were given in the order of the calls.
    let first = answers[0];
    assert_eq!(answers, (first..first + CALLS as u64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_holds_up_no_other() {
    let mut server = either();
    let client = connect(&server).await;
    let hanging = call(&client, "add");
    let held = server.expect("tools/call").await;
    for _ in 0..10 {
        let calling = call(&client, "add");
        server.expect("tools/call").await.result(said("3"));
        assert_eq!(came_to(calling).await.unwrap(), "3");
    }
    held.result(said("late"));
    assert_eq!(came_to(hanging).await.unwrap(), "late");
}
