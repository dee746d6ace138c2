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
