//! Patterns of paths, names and headers.

/// Whether `text` is as `pattern` says, where `*` stands for any characters, also none. Linear in practice, never
/// exponential: only the last star is ever tried again.
#[must_use]
pub fn glob(pattern: impl AsRef<[u8]>, text: impl AsRef<[u8]>) -> bool {
    let (pattern, text) = (pattern.as_ref(), text.as_ref());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((star_p, star_t)) = star {
            p = star_p + 1;
            t = star_t + 1;
            star = Some((star_p, t));
        } else {
            return false;
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, is) in [
            ("/v1/*", "/v1/chat/completions", true),
            ("*chat*", "/v1/chat/completions", true),
            ("/v1/chat", "/v1/chat/completions", false),
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "axxbxxbxc", true),
            ("a*b*c", "axxbxx", false),
        ] {
            assert_eq!(glob(pattern, text), is, "{pattern} on {text}");
        }
    }
}
