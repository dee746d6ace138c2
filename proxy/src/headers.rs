//! Headers that belong to one connection, not to the message (RFC 9110, 7.6.1).

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Takes the connection's own headers off. `upgrade` keeps those that ask for, or agree to, another protocol.
///
/// `TE: trailers` stays, as the proxy passes trailers on and servers send none without it; `Trailer` stays too.
pub(crate) fn strip(headers: &mut HeaderMap, upgrade: bool) {
    // Most messages have none of them, and one look at each name costs less than looking each of these up.
    if !upgrade && !headers.keys().any(belongs_to_connection) {
        return;
    }
    if let Some(connection) = headers.get(CONNECTION) {
        // The usual values name no header: nothing more to look up.
        if !is_usual(connection) {
            let named: Vec<HeaderName> = headers
                .get_all(CONNECTION)
                .iter()
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','))
                .filter_map(|name| name.trim().parse().ok())
                .collect();
            for name in named {
                if name != UPGRADE && name != TE {
                    headers.remove(name);
                }
            }
        }
        headers.remove(CONNECTION);
    }
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
    if headers.remove(TRANSFER_ENCODING).is_some() {
        // Both at once is request smuggling's way in; the transfer coding wins (RFC 9112, 6.3).
        headers.remove(CONTENT_LENGTH);
    }
    if let Some(te) = headers.get(TE) {
        let trailers = te.to_str().is_ok_and(|te| te.split(',').any(|coding| coding.trim() == "trailers"));
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        } else {
            headers.remove(TE);
        }
    }
    if upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    } else {
        headers.remove(UPGRADE);
    }
}

fn belongs_to_connection(name: &HeaderName) -> bool {
    [CONNECTION, TRANSFER_ENCODING, TE, UPGRADE, KEEP_ALIVE, PROXY_CONNECTION].contains(name)
}

fn is_usual(connection: &HeaderValue) -> bool {
    let value = connection.as_bytes();
    value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
}

/// HTTP/2 may split cookies over several headers, HTTP/1.1 may not (RFC 9113, 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_some() {
        let parts: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
            headers.insert(COOKIE, joined);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
            })
            .collect()
    }

    #[test]
    fn what_belongs_to_the_connection_stays_behind() {
        let mut headers = map(&[
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ]);
        strip(&mut headers, false);
        assert_eq!(headers, map(&[("accept", "*/*")]));
    }

    #[test]
    fn trailers_and_upgrades_go_on() {
        let mut headers =
            map(&[("connection", "Upgrade"), ("upgrade", "websocket"), ("te", "gzip, trailers")]);
        strip(&mut headers, true);
        assert_eq!(headers, map(&[("te", "trailers"), ("connection", "upgrade"), ("upgrade", "websocket")]));
    }

    #[test]
    fn cookies_become_one() {
        let mut headers = map(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut headers);
        assert_eq!(headers, map(&[("cookie", "a=1; b=2")]));
    }
}
