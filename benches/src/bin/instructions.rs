//! The work whose instructions `benches/instructions` counts: `instructions CASE COUNT`. Without arguments it lists the
//! cases.
#![allow(clippy::print_stdout, reason = "the list of cases is its output")]
#![allow(clippy::unwrap_used, reason = "it is run by a script only")]

use mcp_streamable_http_benches::meter::{drive, measured, runtime};
use mcp_streamable_http_benches::stack::{CASES, Stack, Unit};

/// The first calls of a process set things up that later ones find. Few, and with few events: callgrind has their calls in
/// its counts of calls, though their instructions do not count.
const WARM_UP: usize = 3;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        for case in CASES {
            println!("{}\t{:?}\t{}", case.name, case.per, case.what);
        }
        return;
    };
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    let count: usize = arguments.next().unwrap().parse().unwrap();
    let calls = if case.per == Unit::Call { count } else { 1 };

    let runtime = runtime();
    let _entered = runtime.enter();
    let mut warm_up = Stack::new(case, 1);
    for _ in 0..WARM_UP {
        drive(warm_up.call());
    }
    let mut stack = Stack::new(case, count);
    measured(&mut || {
        for _ in 0..calls {
            drive(stack.call());
        }
    });
}
