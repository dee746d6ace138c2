//! Looks for keys in JSON text without parsing it. Sound because a quote inside a JSON string is always escaped: the
//! bytes `"key"` can only be a whole string token.

use memchr::memmem;

/// The bytes right behind each `"key":`.
fn values<'a>(json: &'a [u8], key: &'a str) -> impl Iterator<Item = &'a [u8]> {
    memmem::find_iter(json, key.as_bytes()).filter_map(move |at| {
        let quoted = at > 0 && json[at - 1] == b'"' && !(at > 1 && json[at - 2] == b'\\');
        let behind = json[at + key.len()..].strip_prefix(b"\"")?.trim_ascii_start();
        quoted.then_some(())?;
        Some(behind.strip_prefix(b":")?.trim_ascii_start())
    })
}

/// Whether `key` has a string value that is not empty.
pub(super) fn text(json: &[u8], key: &str) -> bool {
    values(json, key).any(|value| value.starts_with(b"\"") && !value.starts_with(b"\"\""))
}

/// Whether `key` has a value that says something: not null, not `""`, `{}` or `[]`.
pub(super) fn something(json: &[u8], key: &str) -> bool {
    values(json, key).any(|value| match value.first() {
        Some(b'"') => !value.starts_with(b"\"\""),
        Some(b'{') => value[1..].trim_ascii_start().first() != Some(&b'}'),
        Some(b'[') => value[1..].trim_ascii_start().first() != Some(&b']'),
        Some(b'n') | None => false,
        Some(_) => true,
    })
}

/// Whether `key` is `true`.
pub(super) fn is_true(json: &[u8], key: &str) -> bool {
    values(json, key).any(|value| value.starts_with(b"true"))
}

/// The first string value of `key`, still escaped.
pub(super) fn string<'a>(json: &'a [u8], key: &'a str) -> Option<&'a [u8]> {
    values(json, key).find_map(|value| {
        let value = value.strip_prefix(b"\"")?;
        Some(&value[..memchr::memchr(b'"', value)?])
    })
}
