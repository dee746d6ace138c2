//! Whatever the file holds, the loader gives a scenario or says what is wrong, and what it lets through can be decided on.
#![no_main]

use brownout_injector::wire::Api;
use brownout_injector::{Facts, Plan, load};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|text: &str| {
    match load("fuzz.yaml", text) {
        Err(diagnostics) => assert!(!diagnostics.to_string().is_empty(), "an error that says nothing"),
        Ok(scenario) => {
            let plan = Plan::compile(&scenario, None);
            for (number, seconds) in [0, 1, 30, 3600].into_iter().enumerate() {
                let verdict = plan.decide(&Facts {
                    at: Duration::from_secs(seconds),
                    number: Some(number as u64),
                    method: "POST",
                    path: "/v1/chat/completions",
                    api: Api::OpenaiChat,
                    model: Some("m"),
                    stream: true,
                    prompt_tokens: 10,
                    max_tokens: Some(16),
                    header: &|_| None,
                });
                assert!(verdict.iter().all(|firing| firing.until <= plan.ends), "a fault outlives its plan");
            }
        }
    }
});
