//! The URL of a server.

use crate::wire::Api;

/// Whether a byte may stand in a path as it is: RFC 3986, 3.3.
pub(super) fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte)
}

const NO_SCHEME: &str = "it does not begin with http:// or https://";

/// Whether a text is the base URL of a server.
pub(super) fn base_url(url: &str) -> Result<(), &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or(NO_SCHEME)?;
    if !matches!(scheme, "http" | "https") {
        return Err(NO_SCHEME);
    }
    if url.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        return Err("it has a character that no URL has");
    }
    if url.contains(['?', '#']) {
        return Err("it has a query or a fragment, and paths are added to it");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if !rest[authority.len()..].bytes().all(is_path) {
        return Err("its path has a character that no path has");
    }
    if Api::of_path(&rest[authority.len()..]) != Api::Other {
        return Err(
            "it ends in an endpoint's path, which is added to it: leave out all from `/v1` on, or its like",
        );
    }
    if authority.contains('@') {
        return Err("it has a user name in it; give credentials in `load.headers`");
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or("its host is wrong")?)),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match host {
        "" => return Err("it has no host"),
        host if authority.starts_with('[') && host.parse::<std::net::Ipv6Addr>().is_err() => {
            return Err("its host is no IPv6 address");
        }
        host if !authority.starts_with('[') && !host.bytes().all(name) => {
            return Err("its host has a character that no host has");
        }
        _ => {}
    }
    match port.map(str::parse::<u16>) {
        Some(Err(_) | Ok(0)) => Err("its port is no number from 1 to 65535"),
        _ => Ok(()),
    }
}
