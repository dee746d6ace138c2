//! YAML as a tree in which every node knows where it stands in the text.
//!
//! Built from parser events, not by recursion: nesting, size and the growth by aliases are all bounded, whatever the
//! text says.

use super::diagnostic::{Problem, quoted};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as RawSpan, StrInput, Tag};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Deeper than any scenario; a bound on every recursion over a tree.
pub(super) const MAX_DEPTH: usize = 64;
/// Nodes of a tree with all aliases written out.
const MAX_NODES: usize = 400_000;

/// One node and where it stands, in bytes of the text.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Null,
    Bool(bool),
    /// A whole or broken number, as JSON has it.
    Number(serde_json::Number),
    /// `.inf`, `.nan` or an integer beyond 64 bits: numbers that JSON does not have.
    OddNumber,
    /// A text, and where it begins if the source has it letter by letter, so that a column in it can be shown.
    Text {
        text: String,
        verbatim: Option<usize>,
    },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

/// One key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Rc<Node>,
}

impl Node {
    /// The entries of a mapping; none for any other node.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for any other node.
    pub(super) fn items(&self) -> &[Rc<Node>] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// The entry of a mapping that has this key.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value that a mapping has under this key.
    pub(super) fn get(&self, key: &str) -> Option<&Rc<Self>> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The text of a scalar that is a text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// What it is, for messages.
    pub(super) fn noun(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "true or false",
            Data::Number(_) | Data::OddNumber => "a number",
            Data::Text { .. } => "text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }

    /// The same as JSON. Numbers that JSON does not have become null; shapes that want a number refuse them before.
    pub(super) fn json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.data {
            Data::Null | Data::OddNumber => Value::Null,
            Data::Bool(is) => Value::Bool(*is),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text { text, .. } => Value::String(text.clone()),
            Data::List(items) => Value::Array(items.iter().map(|item| item.json()).collect()),
            Data::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.json())).collect())
            }
        }
    }
}

/// Maps the parser's positions (in characters) to bytes.
struct Offsets(Option<Vec<usize>>, usize);

impl Offsets {
    fn new(text: &str) -> Self {
        Self((!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect()), text.len())
    }

    fn byte(&self, chars: usize) -> usize {
        match &self.0 {
            None => chars.min(self.1),
            Some(all) => all.get(chars).copied().unwrap_or(self.1),
        }
    }

    fn span(&self, span: &RawSpan) -> Range<usize> {
        self.byte(span.start.index())..self.byte(span.end.index())
    }
}

/// A collection that is still open.
struct Open {
    anchor: usize,
    start: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Rc<Node>>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, Range<usize>>, key: Option<Key> },
}

/// The key that waits for its value.
struct Key {
    text: String,
    span: Range<usize>,
    /// Whether the entry is left out because the key is wrong.
    dropped: bool,
}

struct Builder<'t> {
    text: &'t str,
    offsets: Offsets,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Rc<Node>, usize)>,
    nodes: usize,
    root: Option<Rc<Node>>,
    problems: Vec<Problem>,
}

/// Reads the one document of `text`. Problems that leave a tree come with it; those that leave none come alone.
pub(super) fn parse(text: &str) -> (Option<Rc<Node>>, Vec<Problem>) {
    let mut builder = Builder {
        text,
        offsets: Offsets::new(text),
        open: Vec::new(),
        anchors: BTreeMap::new(),
        nodes: 0,
        root: None,
        problems: Vec::new(),
    };
    let mut parser = Parser::new_from_str(text);
    match builder.run(&mut parser) {
        Ok(()) => (builder.root, builder.problems),
        Err(problem) => (None, vec![*problem]),
    }
}

impl<'t> Builder<'t> {
    fn run(&mut self, parser: &mut Parser<'t, StrInput<'t>>) -> Result<(), Box<Problem>> {
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| Box::new(self.syntax(&error)))?;
            let at = self.offsets.span(&span);
            match event {
                Event::DocumentStart(_) if self.root.is_some() => {
                    return Err(Box::new(Problem::new(
                        at,
                        "a second document begins here",
                        "one file holds one scenario",
                    )));
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let data = self.scalar(&text, style, tag.as_deref(), &at);
                    self.close(Node { span: at, data }, anchor, 1)?;
                }
                Event::SequenceStart(anchor, tag) => {
                    self.refuse_tag(tag.as_deref(), &at);
                    self.begin(OpenKind::List(Vec::new()), anchor, &at)?;
                }
                Event::MappingStart(anchor, tag) => {
                    self.refuse_tag(tag.as_deref(), &at);
                    let kind = OpenKind::Map { entries: Vec::new(), seen: BTreeMap::new(), key: None };
                    self.begin(kind, anchor, &at)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(at.end)?,
                Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                    Some((node, size)) => self.close_shared(node, at, size)?,
                    None => {
                        return Err(Box::new(Problem::new(
                            at,
                            "this alias stands inside the value that it names",
                            "write the value out",
                        )));
                    }
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn begin(&mut self, kind: OpenKind, anchor: usize, at: &Range<usize>) -> Result<(), Box<Problem>> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Box::new(Problem::new(
                at.clone(),
                "the nesting is too deep here",
                format!("a scenario nests at most {MAX_DEPTH} levels"),
            )));
        }
        self.open.push(Open { anchor, start: at.start, kind });
        Ok(())
    }

    fn end(&mut self, end: usize) -> Result<(), Box<Problem>> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let data = match open.kind {
            OpenKind::List(items) => Data::List(items),
            OpenKind::Map { entries, .. } => Data::Map(entries),
        };
        // The parser closes a block where the next one begins; what a caret should show ends with the last line of it.
        let end = self.text[open.start..end].trim_end().len() + open.start;
        self.close(Node { span: open.start..end, data }, open.anchor, 1)
    }

    fn close(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Box<Problem>> {
        let at = node.span.clone();
        let node = Rc::new(node);
        if anchor > 0 {
            let mut budget = MAX_NODES;
            let size = written_out(&node, &mut budget);
            self.anchors.insert(anchor, (Rc::clone(&node), size));
        }
        self.close_shared(node, at, size)
    }

    /// Puts a finished node where it belongs. `size`: how many nodes it stands for when aliases are written out.
    fn close_shared(&mut self, node: Rc<Node>, at: Range<usize>, size: usize) -> Result<(), Box<Problem>> {
        self.nodes += size;
        if self.nodes > MAX_NODES {
            return Err(Box::new(Problem::new(
                at,
                "the scenario is too large with its aliases written out",
                format!("it may have {MAX_NODES} values at most"),
            )));
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(OpenKind::List(items)) => items.push(node),
            Some(OpenKind::Map { entries, seen, key }) => match key.take() {
                None => {
                    let (key_value, problem) = key_of(&node, at, seen);
                    *key = Some(key_value);
                    self.problems.extend(problem);
                }
                Some(key) if key.dropped => {}
                Some(key) => entries.push(Entry { key: key.text, key_span: key.span, value: node }),
            },
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: &Range<usize>) -> Data {
        let plain = style == ScalarStyle::Plain;
        let tag = match tag {
            Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
                suffix @ ("str" | "int" | "float" | "bool" | "null") => Some(suffix.to_owned()),
                _ => {
                    self.refuse_tag(Some(tag), at);
                    None
                }
            },
            other => {
                self.refuse_tag(other, at);
                None
            }
        };
        if tag.as_deref() == Some("str") || (!plain && tag.is_none()) {
            return self.text_data(text, at);
        }
        core_schema(text).unwrap_or_else(|| self.text_data(text, at))
    }

    fn text_data(&self, text: &str, at: &Range<usize>) -> Data {
        let source = &self.text[at.clone()];
        let skipped = usize::from(source.starts_with(['"', '\'']));
        let verbatim = !text.is_empty() && source[skipped..].starts_with(text);
        Data::Text { text: text.to_owned(), verbatim: verbatim.then_some(at.start + skipped) }
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, at: &Range<usize>) {
        let Some(tag) = tag else { return };
        if tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq") {
            return;
        }
        self.problems.push(Problem::new(
            at.clone(),
            format!("the tag {} means nothing in a scenario", quoted(&tag.to_string())),
            "leave the tag out",
        ));
    }

    fn syntax(&self, error: &ScanError) -> Problem {
        let at = self.offsets.byte(error.marker().index());
        let line_start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[line_start..].lines().next().unwrap_or("");
        let end = self.text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        // The reader may stop at the end of the line before.
        let next = self.text[line_start..].find('\n').map_or(self.text.len(), |end| line_start + end + 1);
        let following = self.text[next..].lines().next().unwrap_or("");
        for (start, line) in [(line_start, line), (next, following)] {
            let indent = &line[..line.len() - line.trim_start().len()];
            if let Some(tab) = indent.find('\t').map(|tab| start + tab) {
                return Problem::new(tab..tab + 1, "a tab cannot indent YAML", "indent with spaces");
            }
        }
        let info = error.info();
        let hint = if info.contains("mapping values are not allowed") {
            "is a line above or this one indented wrongly? a text with `: ` in it needs quotes"
        } else if info.contains("simple key expect") {
            "a line above this one lacks its `:`"
        } else if info.contains("quoted scalar") {
            "this quote is never closed"
        } else if info.contains("flow mapping") || info.contains("flow sequence") {
            "a `,` or a closing bracket is missing here or above"
        } else if info.contains("recursion") {
            "the nesting is too deep here"
        } else {
            "the YAML cannot be read from here on"
        };
        Problem::new(at..end, format!("this is no YAML: {info}"), hint)
    }
}

/// Nodes in `node` with every alias written out; stops counting where `budget` is used up.
fn written_out(node: &Node, budget: &mut usize) -> usize {
    if *budget == 0 {
        return 0;
    }
    *budget -= 1;
    let below: usize = match &node.data {
        Data::List(items) => items.iter().map(|item| written_out(item, budget)).sum(),
        Data::Map(entries) => entries.iter().map(|entry| written_out(&entry.value, budget) + 1).sum(),
        _ => 0,
    };
    below + 1
}

/// The key that `node` is, and what is wrong with it.
fn key_of(
    node: &Node,
    at: Range<usize>,
    seen: &mut BTreeMap<String, Range<usize>>,
) -> (Key, Option<Problem>) {
    let text = match &node.data {
        Data::Text { text, .. } => text.clone(),
        Data::Bool(is) => is.to_string(),
        Data::Number(number) => number.to_string(),
        _ => {
            let problem =
                Problem::new(at.clone(), format!("{} cannot be a key", node.noun()), "a key is a plain word");
            return (Key { text: String::new(), span: at, dropped: true }, Some(problem));
        }
    };
    let Some(first) = seen.get(&text) else {
        seen.insert(text.clone(), at.clone());
        return (Key { text, span: at, dropped: false }, None);
    };
    let problem = Problem::new(
        at.clone(),
        format!("the key {} comes twice", quoted(&text)),
        "only one of the two can hold: remove the other",
    )
    .also(first.clone(), "it is here already");
    (Key { text, span: at, dropped: true }, Some(problem))
}

/// The plain scalars that are no text, by the core schema of YAML 1.2 (section 10.3.2).
pub(super) fn core_schema(text: &str) -> Option<Data> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Data::Null),
        "true" | "True" | "TRUE" => return Some(Data::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Data::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Some(Data::OddNumber),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(Data::OddNumber);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let number = u64::from_str_radix(digits, radix);
            return Some(number.map_or(Data::OddNumber, |n| Data::Number(n.into())));
        }
    }
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit())
        || (unsigned.starts_with('.') && unsigned[1..].starts_with(|c: char| c.is_ascii_digit()));
    if !numeric || unsigned.contains(|c: char| !matches!(c, '0'..='9' | '.' | 'e' | 'E' | '+' | '-')) {
        return None;
    }
    let digits: Cow<'_, str> = text.strip_prefix('+').unwrap_or(text).into();
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = digits.parse::<u64>().map(Into::into).or_else(|_| digits.parse::<i64>().map(Into::into));
        return Some(whole.map_or(Data::OddNumber, Data::Number));
    }
    let broken: f64 = digits.parse().ok()?;
    Some(serde_json::Number::from_f64(broken).map_or(Data::OddNumber, Data::Number))
}
