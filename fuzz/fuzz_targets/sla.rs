//! Whatever the line: it is read or refused with a place inside it, and what is read can be printed and read again.
#![no_main]

use brownout_injector::sla::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(line) => {
            let printed = line.demand.to_string();
            let again = parse(&printed).unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}: {error}"));
            assert_eq!(again.demand, line.demand, "{text:?} prints as {printed:?}, which means something else");
        }
        Err(error) => {
            let last = text.chars().count().max(1);
            assert!((1..=last).contains(&error.column), "column {} of {last}: {text:?}", error.column);
            assert!(error.column - 1 + error.length <= last, "beyond the end: {text:?}");
            assert!(!error.message.is_empty(), "an error that says nothing");
        }
    }
});
