//! Which faults hit which request.

use crate::record::{Outcome, RequestRecord};
use brownout_injector::journal::{Entry, What};
use std::collections::BTreeSet;

/// The kind of fault that falsifies a server's own count of tokens.
const USAGE_LIE: &str = "usageLie";

/// Settles which faults acted on each request. The mark on an answer names what acts or will see the answer, before
/// its body is known; whether a fault of this run then did anything, only the journal knows: a mark of one that never
/// acted goes, and one that acted after the headers were out comes. Marks of faults that others armed stay.
pub fn attribute(requests: &mut [RequestRecord], journal: &[Entry]) {
    let ours: BTreeSet<&str> = journal
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Armed { fault, .. } => Some(fault.as_str()),
            _ => None,
        })
        .collect();
    let fired: BTreeSet<(u64, &str)> = journal
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Fired(fired) if fired.touched > 0 => Some((fired.request?, fired.fault.as_str())),
            _ => None,
        })
        .collect();
    let lied: BTreeSet<u64> = journal
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Fired(fired) if fired.touched > 0 && fired.kind == USAGE_LIE => fired.request,
            _ => None,
        })
        .collect();
    for request in requests {
        let number = request.number;
        request.faults.retain(|fault| !ours.contains(fault.as_str()) || fired.contains(&(number, fault)));
        for (_, fault) in fired.range((number, "")..(number + 1, "")) {
            if !request.faults.iter().any(|known| known == fault) {
                request.faults.push((*fault).to_owned());
            }
        }
        // Our own lie about the number of tokens is not to become a measurement.
        if lied.contains(&number) {
            (request.output_tokens, request.tokens_from_usage) = (request.chunks, false);
        }
        // What a fault tore was no connection that the server had closed before.
        if request.outcome == Outcome::StaleKeepalive && !request.faults.is_empty() {
            request.outcome = Outcome::ResetMidstream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::attempt::Job;
    use crate::record::Phase;
    use brownout_injector::journal::Fired;

    fn fired(fault: &str, request: Option<u64>) -> Entry {
        let fired = Fired {
            fault: fault.to_owned(),
            kind: "stall".to_owned(),
            n: 0,
            request,
            process: None,
            path: "/v1/chat/completions".to_owned(),
            touched: 1,
            asked_ms: 0.0,
            given_ms: 0.0,
            note: String::new(),
        };
        Entry { at: 0.0, what: What::Fired(fired) }
    }

    fn armed(fault: &str) -> Entry {
        let what = What::Armed { fault: fault.to_owned(), kind: "stall".to_owned(), ends_in: 1.0 };
        Entry { at: 0.0, what }
    }

    #[test]
    fn the_journal_settles_what_acted_on_which_request() {
        let request = |number, faults: &[&str]| {
            let mut request = Job::unsent(number, Phase::Fault, 0.0, 0.0, Outcome::Ok, "");
            request.faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
            request
        };
        let mut requests = [request(5, &["marked", "idle", "of others"]), request(9, &["idle"])];
        let mut idle = fired("idle", Some(9));
        if let What::Fired(fired) = &mut idle.what {
            fired.touched = 0;
        }
        let journal = [
            armed("marked"),
            armed("idle"),
            armed("late"),
            fired("marked", Some(5)),
            fired("late", Some(5)),
            fired("late", Some(5)),
            fired("stranger", Some(7)),
            fired("unnumbered", None),
            idle,
        ];
        attribute(&mut requests, &journal);
        assert_eq!(requests[0].faults, ["marked", "of others", "late"]);
        assert!(requests[1].faults.is_empty(), "it was marked, and nothing acted on it");
    }

    #[test]
    fn a_fault_that_lies_about_tokens_is_not_believed() {
        let told = |number| {
            let mut request = Job::unsent(number, Phase::Fault, 0.0, 0.0, Outcome::Ok, "");
            (request.chunks, request.output_tokens, request.tokens_from_usage) = (8, 80, true);
            request
        };
        let mut lie = fired("lie", Some(2));
        if let What::Fired(fired) = &mut lie.what {
            fired.kind = USAGE_LIE.to_owned();
        }
        assert!(brownout_injector::Fault::kind(USAGE_LIE).is_some());
        let mut requests = [told(1), told(2)];
        attribute(&mut requests, &[armed("lie"), lie]);
        let tokens = requests.map(|request| (request.output_tokens, request.tokens_from_usage));
        assert_eq!(tokens, [(80, true), (8, false)]);
    }

    #[test]
    fn a_connection_that_a_fault_tore_was_not_closed_before() {
        let stale = |number| Job::unsent(number, Phase::Fault, 0.0, 0.0, Outcome::StaleKeepalive, "");
        let mut requests = [stale(1), stale(2)];
        attribute(&mut requests, &[armed("cut"), fired("cut", Some(2))]);
        assert_eq!(
            requests.map(|request| request.outcome),
            [Outcome::StaleKeepalive, Outcome::ResetMidstream]
        );
    }

    #[test]
    fn without_a_journal_the_marks_are_all_there_is() {
        let mut requests = [Job::unsent(1, Phase::Fault, 0.0, 0.0, Outcome::Ok, "")];
        requests[0].faults.push("marked".to_owned());
        attribute(&mut requests, &[]);
        assert_eq!(requests[0].faults, ["marked"]);
    }
}
