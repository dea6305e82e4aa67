//! The suite: one module per server, each with the checks that it must pass, as tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "checks are functions that tests call: a panic is how they fail"
)]

mod breaking;
mod bridge;
mod calls;
mod everything_only;
mod handshake;
mod listening;
mod modern_only;
mod nginx;
mod parameters;
mod probing;
mod profile;
mod proxies;
mod quickstart;
mod restarts;
mod resuming;
mod sessions;
mod subscriptions;
mod upstreams;

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

/// The checks of asking for its era that every server of the Python SDK passes which takes a handshake: it speaks both.
macro_rules! probing {
    ($profile:ident) => {
        tests!($profile, probing: it_is_modern_and_can_be_called_at_once a_handshake_can_follow);
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

/// Makes a test of every check of restarts, of a server in the mode `$mode`.
macro_rules! restarts {
    ($mode:ident: $($check:ident)+) => {
        mod restarts {
            $(
                #[tokio::test]
                async fn $check() {
                    let check = crate::restarts::$check(stringify!($mode));
                    tokio::time::timeout(crate::PATIENCE, check).await.expect("it hangs");
                }
            )+
        }
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
    probing!(SSE);
    tests!(SSE, sessions: ends_when_terminated begins_anew_when_ended_by_another
        expires_when_ended_by_another);
    tests!(SSE, listening: hears_of_new_tools);
    tests!(SSE, resuming: a_cut_call_without_ids_fails);
    restarts!(sse: between_calls_nobody_notices between_calls_it_is_an_error_if_so_wanted
        a_call_waits_until_it_is_up_again during_calls_every_call_ends);
    bridged!(SSE: basics texts progress questions questions_while_listening cancellation many listening errors end
        end_while_calling expiry restart unparsable unreachable);

    #[test]
    fn the_quickstart_drives_it() {
        crate::quickstart::drives(&crate::profile::SSE, "done after 3 steps");
    }
}

mod json {
    calls!(JSON);
    handshake!(JSON);
    probing!(JSON);
    tests!(JSON, sessions: ends_when_terminated begins_anew_when_ended_by_another
        expires_when_ended_by_another);
    tests!(JSON, listening: hears_of_new_tools);
    restarts!(json: during_calls_without_a_head_every_call_ends);
    bridged!(JSON: basics texts progress questions_while_listening cancellation many listening errors end
        end_while_calling);
}

mod stateless {
    calls!(STATELESS);
    handshake!(STATELESS);
    probing!(STATELESS);
    tests!(STATELESS, sessions: nothing_to_terminate);
    tests!(STATELESS, listening: nothing_to_hear);
    bridged!(STATELESS: basics progress many errors end end_while_calling);
}

mod resume {
    probing!(RESUME);
    tests!(RESUME, calls: progress_comes_first many_calls_at_once);
    tests!(RESUME, sessions: ends_when_terminated begins_anew_when_ended_by_another);
    tests!(RESUME, listening: hears_of_new_tools);
    tests!(RESUME, resuming: a_server_that_hangs_up_is_polled many_calls_are_polled_at_once a_cut_call_goes_on
        many_cut_calls_go_on a_cut_call_is_live_again listening_goes_on_after_a_cut another_takes_a_call_over);
    restarts!(resume: between_calls_nobody_notices during_calls_every_call_ends);
    bridged!(RESUME: basics progress polling cuts);
}

mod everything {
    calls!(EVERYTHING);
    handshake!(EVERYTHING);
    tests!(EVERYTHING, probing: it_is_legacy_and_takes_the_handshake what_is_found_out_is_remembered
        what_was_remembered_as_modern_is_forgotten);
    tests!(EVERYTHING, sessions: ends_when_terminated is_refused_when_ended_by_another);
    tests!(EVERYTHING, listening: hears_of_new_resources);
    tests!(EVERYTHING, resuming: a_call_survives_an_impatient_proxy);
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
        headers_are_validated a_parameter_in_a_header the_handshake_is_refused);
    tests!(MODERN, probing: it_is_modern_and_can_be_called_at_once what_is_found_out_is_remembered
        what_was_remembered_wrongly_is_forgotten);
    tests!(MODERN, parameters: every_value_arrives what_no_header_can_hold_is_not_sent unknown_tools_are_looked_up
        what_no_header_can_hold_is_refused_of_unknown_tools changed_tools_are_looked_up
        many_calls_look_a_changed_tool_up_once what_was_learned_can_be_kept);
    tests!(MODERN, subscriptions: a_subscription_delivers a_subscription_ends_when_dropped a_cut_subscription_fails
        a_cut_subscription_is_opened_again);
    tests!(MODERN, breaking: a_cut_call_fails a_cut_call_without_a_head_fails a_cut_prompt_is_asked_for_again
        a_prompt_that_is_cut_twice_fails a_cut_prompt_fails_if_so_wanted
        a_cut_prompt_without_a_head_is_asked_for_again a_cut_call_that_may_be_repeated_is_made_again);
    bridged!(MODERN: basics texts progress questions cancellation many subscription mirrored
        mirrored_after_a_change errors end end_while_calling unparsable);
}
