//! Which faults hit which request.

use crate::record::RequestRecord;
use brownout_injector::journal::{Entry, What};
use std::collections::BTreeMap;

/// Adds the faults that the journal saw on each request, by the request's number, to those that the answer named. A
/// fault that fired after the headers were out is only in the journal.
pub fn attribute(requests: &mut [RequestRecord], journal: &[Entry]) {
    let places: BTreeMap<u64, usize> =
        requests.iter().enumerate().map(|(place, request)| (request.number, place)).collect();
    for entry in journal {
        let What::Fired(fired) = &entry.what else { continue };
        let Some(place) = fired.request.and_then(|number| places.get(&number)) else { continue };
        let faults = &mut requests[*place].faults;
        if !faults.contains(&fired.fault) {
            faults.push(fired.fault.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::attempt::Job;
    use crate::record::{Outcome, Phase};
    use brownout_injector::journal::Fired;

    fn fired(fault: &str, request: Option<u64>) -> Entry {
        let fired = Fired {
            fault: fault.to_owned(),
            kind: "stall".to_owned(),
            n: 0,
            request,
            path: "/v1/chat/completions".to_owned(),
            touched: 1,
            asked_ms: 0.0,
            given_ms: 0.0,
            note: String::new(),
        };
        Entry { at: 0.0, what: What::Fired(fired) }
    }

    #[test]
    fn faults_are_added_by_number_and_once() {
        let request = |number| Job::unsent(number, Phase::Fault, 0.0, 0.0, Outcome::Ok, "");
        let mut requests = [request(5), request(9)];
        requests[0].faults.push("marked".to_owned());
        let other = Entry { at: 0.0, what: What::Healed { reason: "ended".to_owned() } };
        let journal = [
            fired("marked", Some(5)),
            fired("late", Some(5)),
            fired("late", Some(5)),
            fired("stranger", Some(7)),
            fired("unnumbered", None),
            other,
        ];
        attribute(&mut requests, &journal);
        assert_eq!(requests[0].faults, ["marked", "late"]);
        assert!(requests[1].faults.is_empty());
    }
}
