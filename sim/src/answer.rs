//! One answer: the model's tokens written out as text, with all the rules about when it ends.

use crate::model::{Generator, Sampling};
use crate::vocab::{self, Class};
use crate::weights::Weights;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finish {
    /// The model ended it, or a stop sequence was met.
    Stop,
    /// It reached the most tokens asked for, or the model's length.
    Length,
    /// It is a complete tool call.
    ToolCalls,
    /// The client went away, or the server is shutting down.
    Abort,
}

impl Finish {
    /// vLLM's `finished_reason` label, which is also OpenAI's `finish_reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::Abort => "abort",
        }
    }
}

/// The text of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A vocabulary word: plain ASCII that needs no escaping.
    Plain(&'static str),
    /// Anything else.
    Owned(Box<str>),
}

impl Text {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        match self {
            Text::Plain(text) => text,
            Text::Owned(text) => text,
        }
    }
}

/// A piece of a JSON document that the model fills in, one token each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Fixed text.
    Literal(String),
    /// A word of the model's choice.
    Word,
    /// A number of the model's choice, 0 to 99.
    Number,
    /// One of these.
    Choice(Vec<String>),
}

/// What the tokens are written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Sentences.
    Prose,
    /// A JSON document, piece by piece (the arguments of a tool call).
    Document(Vec<Segment>),
    /// Nothing: the prompt is only read (an embedding). Takes one step and counts no generated token.
    Pooling,
}

/// Everything that decides an answer.
#[derive(Clone, Debug)]
pub struct AnswerSpec {
    /// The prompt's tokens, at least one.
    pub prompt: Vec<u32>,
    /// Temperature and seed.
    pub sampling: Sampling,
    /// Most tokens, at least 1.
    pub max_tokens: usize,
    /// Fewest tokens: neither the model nor a stop sequence ends it before.
    pub min_tokens: usize,
    /// Whether only `max_tokens` (and stop sequences) end it.
    pub ignore_eos: bool,
    /// Texts that end the answer and are not part of it.
    pub stop: Vec<String>,
    /// Prose or a document.
    pub shape: Shape,
}

/// One token of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id, which goes into the KV cache.
    pub id: u32,
    /// What it adds to the text; may be empty while a stop sequence may be beginning.
    pub text: Text,
    /// Set on the last token.
    pub finish: Option<Finish>,
}

/// An answer in the making.
#[derive(Debug)]
pub struct Answer {
    spec: AnswerSpec,
    generator: Option<Generator>,
    produced: usize,
    opening: bool,
    held: String,
}

impl Answer {
    /// An answer of which nothing is said yet.
    pub fn new(spec: AnswerSpec) -> Answer {
        Answer { spec, generator: None, produced: 0, opening: true, held: String::new() }
    }

    /// Says the next token. The prompt is read when the first is asked for.
    pub fn step(&mut self, weights: &Weights) -> Token {
        let spec = &self.spec;
        let generator =
            self.generator.get_or_insert_with(|| Generator::new(weights, &spec.prompt, spec.sampling));
        let id = generator.next(weights);
        self.produced += 1;
        let may_end = self.produced >= spec.min_tokens;
        let mut finish = None;
        if self.produced >= spec.max_tokens {
            finish = Some(Finish::Length);
        }
        let text = match &spec.shape {
            Shape::Prose => {
                if may_end && !spec.ignore_eos && generator.ends(weights) {
                    finish = Some(Finish::Stop);
                }
                let text = vocab::text(id, self.opening);
                self.opening = vocab::class(id) == Class::Stop;
                // The very first word has no space before it.
                Text::Plain(if self.produced == 1 { text.trim_start() } else { text })
            }
            Shape::Document(segments) => {
                if self.produced >= segments.len() {
                    finish = Some(Finish::ToolCalls);
                }
                match segments.get(self.produced - 1) {
                    Some(Segment::Literal(text)) => Text::Owned(text.as_str().into()),
                    Some(Segment::Word) => Text::Plain(vocab::word(id)),
                    Some(Segment::Number) => Text::Owned((id % 100).to_string().into()),
                    Some(Segment::Choice(of)) if !of.is_empty() => {
                        Text::Owned(of[id as usize % of.len()].as_str().into())
                    }
                    _ => Text::Plain(""),
                }
            }
            Shape::Pooling => {
                finish = Some(Finish::Stop);
                Text::Plain("")
            }
        };
        if self.spec.stop.is_empty() || !may_end {
            return Token { id, text, finish };
        }
        let (text, stopped) = self.hold(text.as_str(), finish.is_some());
        Token {
            id,
            text: Text::Owned(text.into()),
            finish: if stopped { Some(Finish::Stop) } else { finish },
        }
    }

    /// Adds text behind what is held back and gives out what can no longer be part of a stop sequence.
    fn hold(&mut self, text: &str, last: bool) -> (String, bool) {
        self.held.push_str(text);
        if let Some(at) = self.spec.stop.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let keep = if last {
            0
        } else {
            self.spec.stop.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0)
        };
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), false)
    }
}

/// The length of the longest end of `text` that begins `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    (1..=stop.len().min(text.len()))
        .rev()
        .find(|&length| stop.is_char_boundary(length) && text.ends_with(&stop[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(max_tokens: usize) -> AnswerSpec {
        let mut prompt = Vec::new();
        vocab::encode("Tell me about the river and the bridge.", &mut prompt);
        AnswerSpec {
            prompt,
            sampling: Sampling { temperature: 0.0, seed: 1 },
            max_tokens,
            min_tokens: 0,
            ignore_eos: true,
            stop: Vec::new(),
            shape: Shape::Prose,
        }
    }

    fn run(spec: AnswerSpec) -> (String, usize, Finish) {
        let dir = tempfile::tempdir().expect("a directory");
        let weights = Weights::open(&crate::weights::write(dir.path(), 5).expect("written")).expect("opens");
        let mut answer = Answer::new(spec);
        let mut text = String::new();
        for count in 1..10_000 {
            let token = answer.step(&weights);
            text.push_str(token.text.as_str());
            if let Some(finish) = token.finish {
                return (text, count, finish);
            }
        }
        panic!("an answer without end");
    }

    #[test]
    fn max_tokens_is_exact_when_the_end_is_ignored() {
        let (text, count, finish) = run(spec(37));
        assert_eq!((count, finish), (37, Finish::Length));
        let mut again = Vec::new();
        vocab::encode(&text, &mut again);
        assert_eq!(again.len(), 37, "{text}");
        assert!(text.starts_with(|c: char| c.is_ascii_uppercase()), "{text}");
    }

    #[test]
    fn left_alone_the_model_ends_at_a_full_stop_but_not_before_min_tokens() {
        let (text, count, finish) = run(AnswerSpec { ignore_eos: false, ..spec(5000) });
        assert_eq!(finish, Finish::Stop);
        assert!(text.ends_with('.') && count < 1000, "{count}: {text}");
        let (_, longer, _) = run(AnswerSpec { ignore_eos: false, min_tokens: 1500, ..spec(5000) });
        assert!(longer >= 1500);
    }

    #[test]
    fn a_stop_sequence_across_tokens_ends_the_text_before_it() {
        let (whole, ..) = run(spec(60));
        let second = whole.match_indices(' ').nth(20).expect("twenty words").0;
        // Begins inside one token and ends inside the next.
        let stop = &whole[second - 2..second + 3];
        let (text, count, finish) = run(AnswerSpec { stop: vec![stop.to_owned()], ..spec(60) });
        assert_eq!(finish, Finish::Stop);
        assert_eq!(text, whole[..whole.find(stop).expect("from the text")]);
        assert!(count < 60);
        let (unstopped, ..) = run(AnswerSpec { stop: vec!["zebra".to_owned()], ..spec(60) });
        assert_eq!(unstopped, whole, "text that was held back comes out at the end");
    }

    #[test]
    fn a_document_is_finished_as_a_tool_call_or_cut_by_length() {
        let segments = vec![
            Segment::Literal("{\"a\": \"".into()),
            Segment::Word,
            Segment::Literal("\", \"b\": ".into()),
            Segment::Number,
            Segment::Literal("}".into()),
        ];
        let shape = Shape::Document(segments);
        let (text, _, finish) = run(AnswerSpec { shape: shape.clone(), ..spec(50) });
        assert_eq!(finish, Finish::ToolCalls);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(value["a"].is_string() && value["b"].is_u64());
        assert_eq!(run(AnswerSpec { shape, ..spec(3) }).2, Finish::Length);
    }
}
