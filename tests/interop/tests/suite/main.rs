//! The suite: one module per server, each with the checks that it must pass, as tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "checks are functions that tests call: a panic is how they fail"
)]

mod bridge;
mod calls;
mod everything_only;
mod handshake;
mod listening;
mod modern_only;
mod profile;
mod quickstart;
mod sessions;

use std::time::Duration;

/// Generous, as it only bounds how long a test that hangs takes to fail.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes a test of every check of `$module`.
macro_rules! tests {
    ($profile:ident, $module:ident: $($check:ident)+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $check() {
                    let check = crate::$module::$check(&crate::profile::$profile);
                    tokio::time::timeout(crate::PATIENCE, check).await.expect("it hangs");
                }
            )+
        }
    };
}

/// The checks that every server passes.
macro_rules! calls {
    ($profile:ident) => {
        tests!($profile, calls: tools_are_listed echo_echoes numbers_add_up progress_comes_first
            an_unknown_tool_fails an_unknown_method_is_refused a_resource_is_read a_prompt_is_rendered
            many_calls_at_once);
    };
}

/// The checks that every server of the legacy era passes.
macro_rules! handshake {
    ($profile:ident) => {
        tests!($profile, handshake: every_version_is_negotiated an_unknown_version_is_countered
            a_session_or_none);
    };
}

/// Tests in which the client of the Python SDK uses the server through the bridge.
macro_rules! bridged {
    ($profile:ident: $($scenario:ident)+) => {
        mod bridged {
            $(
                #[test]
                fn $scenario() {
                    crate::bridge::carries(&crate::profile::$profile, stringify!($scenario));
                }
            )+
        }
    };
}

mod sse {
    calls!(SSE);
    handshake!(SSE);
    tests!(SSE, sessions: ends_when_terminated begins_anew_when_ended_by_another
        expires_when_ended_by_another);
    tests!(SSE, listening: hears_of_new_tools);
    bridged!(SSE: basics texts progress questions questions_while_listening cancellation many listening errors end
        end_while_calling expiry unparsable unreachable);

    #[test]
    fn the_quickstart_drives_it() {
        crate::quickstart::drives(&crate::profile::SSE, "done after 3 steps");
    }
}

mod json {
    calls!(JSON);
    handshake!(JSON);
    tests!(JSON, sessions: ends_when_terminated begins_anew_when_ended_by_another
        expires_when_ended_by_another);
    tests!(JSON, listening: hears_of_new_tools);
    bridged!(JSON: basics texts progress questions_while_listening cancellation many listening errors end
        end_while_calling);
}

mod stateless {
    calls!(STATELESS);
    handshake!(STATELESS);
    tests!(STATELESS, sessions: nothing_to_terminate);
    tests!(STATELESS, listening: nothing_to_hear);
    bridged!(STATELESS: basics progress many errors end end_while_calling);
}

mod everything {
    calls!(EVERYTHING);
    handshake!(EVERYTHING);
    tests!(EVERYTHING, sessions: ends_when_terminated is_refused_when_ended_by_another);
    tests!(EVERYTHING, listening: hears_of_new_resources);
    tests!(EVERYTHING, everything_only: sampling_is_answered_while_the_call_is_open);
    bridged!(EVERYTHING: basics texts progress questions roots cancellation_is_told many listening errors end
        end_while_calling);

    #[test]
    fn the_quickstart_drives_it() {
        let result = "Long running operation completed. Duration: 3 seconds, Steps: 3.";
        crate::quickstart::drives(&crate::profile::EVERYTHING, result);
    }
}

mod modern {
    calls!(MODERN);
    tests!(MODERN, sessions: nothing_to_terminate);
    tests!(MODERN, listening: nothing_to_hear);
    tests!(MODERN, modern_only: discovers awkward_tool_names awkward_and_plain_prompt_names
        headers_are_validated a_parameter_in_a_header a_subscription_delivers
        the_handshake_is_refused);
    bridged!(MODERN: basics texts progress questions cancellation many subscription errors end end_while_calling
        unparsable);
}
