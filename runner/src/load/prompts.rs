//! What is asked: made-up prompts of a known length, or a file of real ones.

use super::patient::open_patiently;
use super::{LoadError, lengths};
use brownout_injector::Draw;
use brownout_injector::scenario::{OutputLength, PromptSource};
use brownout_injector::units::LengthDist;
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, Read};
use std::path::Path;

/// What one request asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The question.
    pub input: Input,
    /// The most tokens the answer may have.
    pub max_tokens: u32,
}

/// The question itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A text.
    Text(String),
    /// Chat messages, as the file has them.
    Messages(Vec<Value>),
}

impl Input {
    /// The question as one text, for protocols that know no messages.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Messages(messages) => {
                let contents: Vec<&str> =
                    messages.iter().filter_map(|message| message["content"].as_str()).collect();
                contents.join("\n")
            }
        }
    }
}

/// Makes the prompt of each request from its number alone.
#[derive(Clone, Debug)]
pub struct Prompts {
    seed: u64,
    source: Source,
    output: LengthDist,
}

#[derive(Clone, Debug)]
enum Source {
    MadeUp { tokens: LengthDist, prefix: String, prefix_tokens: u32 },
    File(std::sync::Arc<[FileLine]>),
}

#[derive(Clone, Debug, Deserialize)]
struct FileLine {
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Option<Vec<Value>>,
    #[serde(default)]
    max_tokens: Option<u32>,
}

impl Prompts {
    /// Prompts as `source` wants them; a file is read now, relative to `base`.
    ///
    /// # Errors
    /// A file that cannot be read, a line that is no prompt, both or neither of `tokens` and `file`, impossible lengths.
    pub fn new(
        source: &PromptSource,
        output: &OutputLength,
        seed: u64,
        base: &Path,
    ) -> Result<Self, LoadError> {
        let bad = |what: &'static str| move |why: String| LoadError::Load(format!("{what}: {why}"));
        lengths::check(&output.tokens).map_err(bad("output.tokens"))?;
        let source = match (&source.tokens, &source.file) {
            (Some(_), Some(_)) => {
                return Err(LoadError::Load(
                    "a prompt comes from `tokens` or from `file`, not from both".to_owned(),
                ));
            }
            (None, None) => return Err(LoadError::Load("a prompt needs `tokens` or a `file`".to_owned())),
            (None, Some(_)) if source.shared_prefix.is_some() => {
                return Err(LoadError::Load(
                    "`sharedPrefix` is for made-up prompts, not for a file".to_owned(),
                ));
            }
            (None, Some(file)) => Source::File(read_file(&base.join(file))?.into()),
            (Some(tokens), None) => {
                lengths::check(tokens).map_err(bad("prompt.tokens"))?;
                let prefix_tokens = source.shared_prefix.unwrap_or(0);
                if prefix_tokens > lengths::MAX_TOKENS {
                    return Err(LoadError::Load(format!(
                        "a shared prefix of {prefix_tokens} tokens is too long"
                    )));
                }
                let mut prefix = String::new();
                push_words(&mut prefix, Draw::new(seed, "prefix", 0), prefix_tokens);
                Source::MadeUp { tokens: tokens.clone(), prefix, prefix_tokens }
            }
        };
        Ok(Self { seed, source, output: output.tokens.clone() })
    }

    /// The prompt of request `number`.
    #[must_use]
    pub fn prompt(&self, number: u64) -> Prompt {
        let drawn = || lengths::sample(&self.output, Draw::new(self.seed, "output length", number));
        match &self.source {
            Source::File(lines) => {
                let line = &lines[(number % lines.len() as u64) as usize];
                let input = match &line.messages {
                    Some(messages) => Input::Messages(messages.clone()),
                    None => Input::Text(line.prompt.clone().unwrap_or_default()),
                };
                Prompt { input, max_tokens: line.max_tokens.unwrap_or_else(drawn) }
            }
            Source::MadeUp { tokens, prefix, prefix_tokens } => {
                let asked = lengths::sample(tokens, Draw::new(self.seed, "prompt length", number));
                // A prompt no longer than the shared prefix still ends in a word of its own.
                let own = asked.saturating_sub(*prefix_tokens).max(1);
                let shared = (asked - own) as usize * BYTES_PER_TOKEN;
                let mut text = String::with_capacity(shared + own as usize * BYTES_PER_TOKEN);
                text.push_str(&prefix[..shared.min(prefix.len())]);
                push_words(&mut text, Draw::new(self.seed, "prompt", number), own);
                Prompt { input: Input::Text(text), max_tokens: drawn() }
            }
        }
    }
}

/// English text has about four characters a token; each made-up word has three letters and a space.
const BYTES_PER_TOKEN: usize = 4;

fn push_words(text: &mut String, draw: Draw, words: u32) {
    const CONSONANTS: &[u8; 16] = b"bdfghklmnprstvwz";
    const VOWELS: &[u8; 4] = b"aeou";
    for word in 0..u64::from(words) {
        let bits = draw.bits(word);
        text.push(char::from(CONSONANTS[(bits & 15) as usize]));
        text.push(char::from(VOWELS[(bits >> 4 & 3) as usize]));
        text.push(char::from(CONSONANTS[(bits >> 6 & 15) as usize]));
        text.push(' ');
    }
}

/// The largest file of prompts in bytes; all of it is kept in memory.
const MAX_FILE: u64 = 512 << 20;

/// Whether a file of prompts can be used.
///
/// # Errors
/// A file that cannot be read or is too large, a line that is no prompt.
pub fn check_prompts(path: &Path) -> Result<(), LoadError> {
    read_file(path).map(drop)
}

fn read_file(path: &Path) -> Result<Vec<FileLine>, LoadError> {
    let file = path.display().to_string();
    let text = read_at_most(path, MAX_FILE).map_err(|error| LoadError::File { file: file.clone(), error })?;
    // Some editors and shells begin UTF-8 with the mark that tells UTF-16's byte order.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |why: String| LoadError::Line { file: file.clone(), line: index + 1, why };
        let parsed: FileLine = serde_json::from_str(line)
            // To the parser each line is the first.
            .map_err(|error| bad(error.to_string().replace(" at line 1 column ", " at column ")))?;
        match (&parsed.prompt, &parsed.messages) {
            (Some(_), Some(_)) => return Err(bad("`prompt` and `messages` exclude each other".to_owned())),
            (None, None) => return Err(bad("neither `prompt` nor `messages`".to_owned())),
            (None, Some(messages)) if messages.is_empty() => return Err(bad("no messages".to_owned())),
            _ => {}
        }
        if parsed.max_tokens == Some(0) {
            return Err(bad("`max_tokens` of 0".to_owned()));
        }
        lines.push(parsed);
    }
    if lines.is_empty() {
        return Err(LoadError::Line { file, line: 1, why: "no prompt in the whole file".to_owned() });
    }
    Ok(lines)
}

/// A text of at most so many bytes, whatever it comes from: a pipe or a device may have no end.
fn read_at_most(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = open_patiently(path)?.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_refused() {
        let error = read_at_most(Path::new("/dev/zero"), 1000).expect_err("it has no end");
        assert!(error.to_string().contains("more than 1000 bytes"), "{error}");
    }

    const OUTPUT: OutputLength = OutputLength { tokens: LengthDist::Constant(7) };

    fn made_up(tokens: LengthDist, shared_prefix: Option<u32>, seed: u64) -> Prompts {
        let source = PromptSource { tokens: Some(tokens), shared_prefix, file: None };
        Prompts::new(&source, &OUTPUT, seed, Path::new(".")).expect("possible prompts")
    }

    fn from_file(content: &str) -> Result<Prompts, LoadError> {
        let folder = std::env::temp_dir().join(format!(
            "brownout-prompts-{}-{:x}",
            std::process::id(),
            brownout_injector::draw::stable_hash(content.as_bytes())
        ));
        std::fs::create_dir_all(&folder).expect("a folder for the test's file");
        std::fs::write(folder.join("prompts.jsonl"), content).expect("the test's file");
        let source =
            PromptSource { tokens: None, shared_prefix: None, file: Some("prompts.jsonl".to_owned()) };
        let prompts = Prompts::new(&source, &OUTPUT, 1, &folder);
        std::fs::remove_dir_all(&folder).expect("the folder goes away");
        prompts
    }

    #[test]
    fn made_up_prompts_have_their_length_and_are_distinct_from_the_first_word() {
        let prompts = made_up(LengthDist::Constant(50), None, 9);
        let (one, other) = (prompts.prompt(1).input.text(), prompts.prompt(2).input.text());
        assert_eq!((one.len(), one.split_whitespace().count()), (200, 50));
        assert_ne!(one[..20], other[..20]);
        assert_eq!(one, made_up(LengthDist::Constant(50), None, 9).prompt(1).input.text());
        assert_ne!(one, made_up(LengthDist::Constant(50), None, 10).prompt(1).input.text());
    }

    #[test]
    fn a_shared_prefix_is_shared_and_nothing_more() {
        let prompts = made_up(LengthDist::Constant(50), Some(30), 9);
        let (one, other) = (prompts.prompt(1).input.text(), prompts.prompt(2).input.text());
        assert_eq!((one.len(), &one[..120]), (200, &other[..120]));
        assert_ne!(one[120..140], other[120..140]);
        let short = made_up(LengthDist::Constant(10), Some(30), 9).prompt(1).input.text();
        assert_eq!(
            (short.len(), &short[..36]),
            (40, &one[..36]),
            "a prompt shorter than the prefix uses its start"
        );
    }

    #[test]
    fn a_file_is_used_in_order_and_again() {
        let prompts = from_file(
            "{\"prompt\": \"one\", \"max_tokens\": 3}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"two\"}]}\n",
        )
        .expect("a good file");
        assert_eq!(prompts.prompt(0), Prompt { input: Input::Text("one".to_owned()), max_tokens: 3 });
        assert_eq!(prompts.prompt(1).input.text(), "two");
        assert_eq!(prompts.prompt(1).max_tokens, 7);
        assert_eq!(prompts.prompt(2), prompts.prompt(0));
    }

    #[test]
    fn a_file_may_come_from_an_editor_that_marks_utf_8_and_ends_lines_with_cr() {
        let prompts =
            from_file("\u{feff}{\"prompt\": \"one\"}\r\n{\"prompt\": \"two\"}\r\n").expect("a good file");
        assert_eq!(prompts.prompt(0).input.text(), "one");
        assert_eq!(prompts.prompt(1).input.text(), "two");
        let error =
            from_file("{\"prompt\": \"one\"}\n{\"prompt\" 1}\n").expect_err("a colon is missing").to_string();
        assert!(error.contains("prompts.jsonl:2: expected `:` at column 11"), "{error}");
    }

    #[test]
    fn a_bad_line_is_named() {
        for (content, line) in [
            ("{\"prompt\": \"a\"}\n{\"prompt\": \n", ":2: "),
            ("{\"prompt\": \"a\"}\n\n{}\n", ":3: "),
            ("{\"prompt\": \"a\", \"messages\": []}\n", ":1: "),
            ("{\"messages\": []}\n", ":1: "),
            ("{\"prompt\": \"a\", \"max_tokens\": 0}\n", ":1: "),
            ("\n", ":1: "),
        ] {
            let error = from_file(content).expect_err(content).to_string();
            assert!(error.contains("prompts.jsonl") && error.contains(line), "{error}");
        }
    }

    #[test]
    fn tokens_and_file_exclude_each_other() {
        let both = PromptSource {
            tokens: Some(LengthDist::Constant(1)),
            shared_prefix: None,
            file: Some("x".to_owned()),
        };
        let neither = PromptSource { tokens: None, shared_prefix: None, file: None };
        for source in [both, neither] {
            assert!(Prompts::new(&source, &OUTPUT, 1, Path::new(".")).is_err());
        }
    }
}
