//! Answers that a fault gives in the server's stead.

use crate::body::Body;
use crate::case::Case;
use crate::meter::Origin;
use brownout_injector::effect::{Answer, AnswerBody, RetryValue};
use brownout_injector::facts::FAULT_HEADER;
use brownout_injector::wire::Api;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The answer as HTTP, marked with the faults behind it.
pub(crate) fn response(answer: &Answer, api: Api, case: Box<Case>) -> Response<Body> {
    let body = match &answer.body {
        AnswerBody::Empty => Bytes::new(),
        AnswerBody::Error(error) => error.body(api).into(),
    };
    let is_json = !body.is_empty();
    let mark = case.header();
    let mut response = Response::new(Body::full(body, Origin::Injected).keeping(case));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if is_json {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    add_headers(headers, &answer.headers);
    if let Some(mark) = mark {
        headers.insert(FAULT_HEADER, mark);
    }
    response
}

/// Writes headers whose values may hang on the clock.
pub(crate) fn add_headers(to: &mut HeaderMap, from: &[(String, RetryValue)]) {
    for (name, value) in from {
        let value = match value {
            RetryValue::Text(text) => text.clone(),
            RetryValue::DateIn(span) => httpdate::fmt_http_date(SystemTime::now() + *span),
            RetryValue::Rfc3339In(span) => rfc3339(SystemTime::now() + *span),
        };
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            to.insert(name, value);
        }
    }
}

/// A time in UTC as RFC 3339 writes it. The calendar is the proleptic Gregorian one, counted in eras of 400 years
/// (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_read_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_083_199, "2026-11-30T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
