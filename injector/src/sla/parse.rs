//! The reader of SLA lines. Its errors say where, and what would be right.

use super::{Bound, Demand, Line, Metric, Operator, Quantity, Statistic};
use crate::load::closest;
use crate::units::TimeSpan;
use std::fmt;
use std::time::Duration;

/// No bound is longer than this.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// No line that says something is longer.
const LONGEST: usize = 200;

/// Why a text is no SLA line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlaError {
    /// Where it goes wrong, in characters from 1; never beyond the last character of the line.
    pub column: usize,
    /// How many characters are wrong; 0 for an empty line.
    pub length: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right, where that can be guessed: the whole line, or the word in question.
    pub suggestion: Option<String>,
}

impl fmt::Display for SlaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SlaError {}

/// A word, a number with its unit, or an operator, and where it stands (in characters, from 0).
#[derive(Clone, Copy)]
struct Token<'l> {
    text: &'l str,
    at: usize,
    length: usize,
}

fn is_operator(c: char) -> bool {
    matches!(c, '<' | '>' | '=' | '!' | '≤' | '≥')
}

fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut all: Vec<Token<'_>> = Vec::new();
    let mut open: Option<(usize, usize, bool)> = None;
    let end = [(line.len(), ' ')];
    for (chars, (byte, c)) in line.char_indices().chain(end).enumerate() {
        let ends = open.is_some_and(|(_, _, operator)| c.is_whitespace() || is_operator(c) != operator);
        if ends && let Some((start, at, _)) = open.take() {
            all.push(Token { text: &line[start..byte], at, length: chars - at });
        }
        if open.is_none() && !c.is_whitespace() {
            open = Some((byte, chars, is_operator(c)));
        }
    }
    all
}

/// Words that people use for a metric that has another name here.
const SYNONYMS: [(&str, Metric); 14] = [
    ("latency", Metric::E2e),
    ("duration", Metric::E2e),
    ("response time", Metric::E2e),
    ("time to first token", Metric::Ttft),
    ("first token", Metric::Ttft),
    ("tbt", Metric::Itl),
    ("inter-token latency", Metric::Itl),
    ("errors", Metric::ErrorRate),
    ("error", Metric::ErrorRate),
    ("failures", Metric::ErrorRate),
    ("rps", Metric::RequestRate),
    ("qps", Metric::RequestRate),
    ("tps", Metric::Throughput),
    ("tokens/s", Metric::Throughput),
];

/// Reads one line.
///
/// # Errors
/// Where and why it is none, and what may have been meant.
pub fn parse(line: &str) -> Result<Line, SlaError> {
    let tokens = tokens(line);
    if line.chars().count() > LONGEST {
        let message = format!("the line is longer than {LONGEST} characters");
        return Err(Reader { tokens: &tokens, next: 0 }.error(0, message, None));
    }
    Ok(Line { text: line.to_owned(), demand: demand(&tokens)? })
}

fn demand(tokens: &[Token<'_>]) -> Result<Demand, SlaError> {
    let mut reader = Reader { tokens, next: 0 };
    let demand = if reader.word("recovers") { reader.recovery()? } else { reader.threshold()? };
    if let Some(token) = reader.peek() {
        let message = format!("the line should end before `{}`", token.text);
        let suggestion = demand.to_string();
        return Err(reader.error(reader.next, message, Some(suggestion)));
    }
    Ok(demand)
}

struct Reader<'l> {
    tokens: &'l [Token<'l>],
    next: usize,
}

impl<'l> Reader<'l> {
    fn peek(&self) -> Option<Token<'l>> {
        self.tokens.get(self.next).copied()
    }

    /// Takes the next token if it is this word.
    fn word(&mut self, word: &str) -> bool {
        let is = self.peek().is_some_and(|token| token.text.eq_ignore_ascii_case(word));
        self.next += usize::from(is);
        is
    }

    /// An error at a token; at the last one where the line has ended.
    fn error(&self, index: usize, message: impl Into<String>, suggestion: Option<String>) -> SlaError {
        let token = self.tokens.get(index).or(self.tokens.last());
        SlaError {
            column: token.map_or(1, |token| token.at + 1),
            length: token.map_or(0, |token| token.length),
            message: message.into(),
            suggestion,
        }
    }

    /// What was read so far, as it should be written.
    fn so_far(&self) -> String {
        let words: Vec<&str> = self.tokens[..self.next].iter().map(|token| token.text).collect();
        words.join(" ")
    }

    fn rest(&self) -> String {
        let words: Vec<&str> = self.tokens[self.next..].iter().map(|token| token.text).collect();
        words.join(" ")
    }

    fn recovery(&mut self) -> Result<Demand, SlaError> {
        if !self.word("within") {
            let message = "`recovers` is followed by `within` and a time";
            let mut words = self.tokens.iter().map(|token| token.text);
            let time = words.find(|text| text.parse::<TimeSpan>().is_ok()).unwrap_or("30s");
            return Err(self.error(self.next, message, Some(format!("recovers within {time}"))));
        }
        Ok(Demand::RecoversWithin(self.time("recovers within 30s")?))
    }

    fn threshold(&mut self) -> Result<Demand, SlaError> {
        let metric = self.metric()?;
        let statistic = self.statistic(metric)?;
        let operator = self.operator()?;
        let bound = self.bound(metric, operator)?;
        let hold = if self.word("for") {
            let example = format!(
                "{} for 10s",
                self.tokens[..self.next - 1].iter().map(|t| t.text).collect::<Vec<_>>().join(" ")
            );
            Some(self.time(&example)?)
        } else {
            None
        };
        Ok(Demand::Threshold { metric, statistic, operator, bound, hold })
    }

    fn metric(&mut self) -> Result<Metric, SlaError> {
        let Some(first) = self.peek() else {
            let message = "the line is empty: it names a metric, an operator and a value";
            return Err(self.error(0, message, Some("ttft p99 < 800ms".to_owned())));
        };
        let words =
            self.tokens.iter().take_while(|token| !token.text.starts_with(is_operator)).count().min(4);
        for count in (1..=words).rev() {
            let name = self.joined(count);
            if let Some(metric) = Metric::ALL.into_iter().find(|metric| metric.name() == name) {
                self.next += count;
                return Ok(metric);
            }
        }
        let synonym = (1..=words).rev().find_map(|count| {
            let name = self.joined(count);
            SYNONYMS.iter().find(|(word, _)| *word == name).map(|(_, metric)| (count, metric.name()))
        });
        let names = || Metric::ALL.into_iter().map(Metric::name).chain(["recovers within"]);
        let near = || {
            let name =
                closest(&self.joined(2.min(words)), names()).or_else(|| closest(&self.joined(1), names()))?;
            Some((name.split(' ').count().min(words), name))
        };
        // `p95 ttft`, as other tools write it.
        let swapped = || {
            let [statistic, metric] =
                [0, 1].map(|at| self.tokens.get(self.next + at).map(|token| token.text.to_lowercase()));
            let (statistic, metric) = (statistic?, metric?);
            let known = Metric::ALL.iter().any(|known| known.name() == metric);
            let percentile = statistic.strip_prefix('p').is_some_and(|p| p.parse::<f64>().is_ok());
            (known && (percentile || ["mean", "max"].contains(&statistic.as_str())))
                .then(|| (2, format!("{metric} {statistic}")))
        };
        let meant = swapped().or_else(|| synonym.or_else(near).map(|(count, name)| (count, name.to_owned())));
        let known: Vec<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
        let mut message = format!("`{}` is no metric; there are {}", first.text, known.join(", "));
        if let Some((count, name)) = &meant
            && let Err(next) = self.with_first(*count, name)
        {
            message += &format!(". Then, {}", next.message);
            message += &next.suggestion.map_or(String::new(), |right| format!(", such as `{right}`"));
        }
        Err(self.error(0, message, meant.map(|(_, name)| name)))
    }

    /// Reads the line as if `words` stood in the place of its first `count` tokens.
    fn with_first(&self, count: usize, words: &str) -> Result<Demand, SlaError> {
        let rest = self.tokens.iter().skip(count).map(|token| token.text);
        demand(&tokens(&[words].into_iter().chain(rest).collect::<Vec<_>>().join(" ")))
    }

    /// The next words in lower case, one blank between them.
    fn joined(&self, count: usize) -> String {
        let words = self.tokens[self.next..].iter().take(count).map(|token| token.text.to_lowercase());
        words.collect::<Vec<_>>().join(" ")
    }

    fn statistic(&mut self, metric: Metric) -> Result<Option<Statistic>, SlaError> {
        let word = self.peek().filter(|token| !token.text.starts_with(is_operator));
        let needs = metric.quantity() == Quantity::Time;
        let Some(token) = word else {
            if !needs {
                return Ok(None);
            }
            let message = format!("`{metric}` has many values: say which, as in `{metric} p99 < ...`");
            let suggestion = format!("{metric} p99 {}", self.rest());
            return Err(self.error(self.next, message, Some(suggestion.trim_end().to_owned())));
        };
        let lower = token.text.to_lowercase();
        if !needs {
            let is_statistic = lower == "mean" || lower == "max" || percentile(&lower).is_some();
            let message = match is_statistic {
                true => format!("`{metric}` is one number and has no `{}`", token.text),
                false => format!("`{}` should be an operator: <, <=, > or >=", token.text),
            };
            let tail: Vec<&str> = self.tokens[self.next + 1..].iter().map(|token| token.text).collect();
            let suggestion = match (is_statistic, operator_word(&lower)) {
                (true, _) => Some(format!("{metric} {}", tail.join(" ")).trim_end().to_owned()),
                (false, Some(operator)) => {
                    Some(format!("{metric} {operator} {}", tail.join(" ")).trim_end().to_owned())
                }
                _ => None,
            };
            return Err(self.error(self.next, message, suggestion));
        }
        let statistic = match lower.as_str() {
            "mean" => Some(Statistic::Mean),
            "max" => Some(Statistic::Max),
            _ => percentile(&lower).filter(|p| *p > 0.0 && *p < 100.0).map(Statistic::Percentile),
        };
        let Some(statistic) = statistic else {
            let suggestion = match lower.as_str() {
                "avg" | "average" => Some("mean"),
                "median" | "med" => Some("p50"),
                "p100" | "maximum" => Some("max"),
                "p999" => Some("p99.9"),
                _ => closest(&lower, ["mean", "max", "p50", "p90", "p95", "p99", "p99.9"]),
            };
            let message =
                format!("`{}` is no statistic: write p50, p90, p99, p99.9, mean or max", token.text);
            return Err(self.error(self.next, message, suggestion.map(str::to_owned)));
        };
        self.next += 1;
        Ok(Some(statistic))
    }

    fn operator(&mut self) -> Result<Operator, SlaError> {
        let Some(token) = self.peek() else {
            let message = "an operator (<, <=, >, >=) and a value are missing at the end";
            return Err(self.error(self.next, message, None));
        };
        let operator = match token.text {
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            other => {
                let suggestion = match other {
                    "=<" | "≤" | "=" | "==" => Some("<="),
                    "=>" | "≥" => Some(">="),
                    other => operator_word(&other.to_lowercase()),
                };
                let message = match other {
                    "=" | "==" => {
                        "no measured number is ever exactly a value: write < or <=, > or >=".to_owned()
                    }
                    _ => format!("`{other}` is no operator: write <, <=, > or >="),
                };
                return Err(self.error(self.next, message, suggestion.map(str::to_owned)));
            }
        };
        self.next += 1;
        Ok(operator)
    }

    fn bound(&mut self, metric: Metric, operator: Operator) -> Result<Bound, SlaError> {
        let at = self.next;
        let example = match metric.quantity() {
            Quantity::Time => "800ms",
            Quantity::Share => "1%",
            Quantity::Rate => "5/s",
        };
        let Some(token) = self.peek() else {
            let message = format!("a value such as {example} or 3x baseline is missing at the end");
            return Err(self.error(at, message, Some(format!("{} {example}", self.so_far()))));
        };
        self.next += 1;
        let digits = token.text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(token.text.len());
        let (number, unit) = token.text.split_at(digits);
        if token.text.eq_ignore_ascii_case("baseline") {
            return Err(self.error(at, "say how many times the baseline", Some("1x baseline".to_owned())));
        }
        let Some(value) = number_of(number) else {
            let message = format!("`{}` is no value: write one such as {example} or 3x baseline", token.text);
            return Err(self.error(at, message, None));
        };
        let unit = unit.to_lowercase();
        if unit == "x" || unit == "×" {
            if !self.word("baseline") {
                let message = format!("`{}` is so many times what? It can only be the baseline", token.text);
                return Err(self.error(at, message, Some(format!("{value}x baseline"))));
            }
            if value <= 0.0 {
                return Err(self.error(at, "a multiple of the baseline is more than 0", None));
            }
            return Ok(Bound::TimesBaseline(value));
        }
        if self.peek().is_some_and(|next| matches!(next.text, "baseline" | "of")) && unit == "%" {
            let message = "a share of the baseline is written as a multiple of it";
            return Err(self.error(at, message, Some(format!("{}x baseline", value / 100.0))));
        }
        let absolute = match (metric.quantity(), unit.as_str()) {
            (Quantity::Time, "") | (_, "") => None,
            (Quantity::Time, _) => {
                let time = token.text.parse::<TimeSpan>().ok().map(|span| span.0);
                if let Some(time) = time.filter(|time| *time > DAY) {
                    let message = format!("{} is longer than a day", TimeSpan(time));
                    return Err(self.error(at, message, None));
                }
                time.map(|time| time.as_secs_f64())
            }
            (Quantity::Share, "%") => Some(value / 100.0),
            (Quantity::Rate, "/s") => Some(value),
            _ => None,
        };
        let Some(absolute) = absolute else {
            return Err(self.wrong_unit(at, metric, number, &unit, value));
        };
        if metric.quantity() == Quantity::Share && absolute > 1.0 {
            return Err(self.error(at, "a share is 100% at most", None));
        }
        let impossible = match (operator, metric.quantity()) {
            (Operator::Less, _) => absolute <= 0.0,
            (Operator::Greater, Quantity::Share) => absolute >= 1.0,
            (Operator::LessOrEqual, Quantity::Time) => absolute <= 0.0,
            _ => false,
        };
        if impossible {
            let message = format!("`{metric}` can never be {operator} {}", token.text);
            let suggestion = (metric.quantity() == Quantity::Share)
                .then(|| if operator == Operator::Less { "<= 0%" } else { ">= 100%" }.to_owned());
            return Err(self.error(at, message, suggestion));
        }
        Ok(Bound::Absolute(absolute))
    }

    fn wrong_unit(&self, at: usize, metric: Metric, number: &str, unit: &str, value: f64) -> SlaError {
        let token = self.tokens[at].text;
        // A unit that stands apart from its number.
        if unit.is_empty()
            && let Some(next) = self.peek()
        {
            let joined = format!("{number}{}", next.text);
            let apart = match metric.quantity() {
                Quantity::Time => joined.parse::<TimeSpan>().is_ok(),
                Quantity::Share => next.text == "%",
                Quantity::Rate => next.text == "/s",
            } || next.text == "x";
            if apart {
                let message = format!("`{token}` and its unit `{}` are one word", next.text);
                return self.error(at, message, Some(joined));
            }
        }
        let (what, suggestion) = match metric.quantity() {
            Quantity::Time => ("a time", format!("{number}ms")),
            Quantity::Share if unit.is_empty() && value < 1.0 => ("a share", format!("{}%", value * 100.0)),
            Quantity::Share => ("a share", format!("{number}%")),
            Quantity::Rate if unit == "%" => ("a number per second", format!("{}x baseline", value / 100.0)),
            Quantity::Rate => ("a number per second", format!("{number}/s")),
        };
        let message = match unit {
            "" => format!("`{token}` needs a unit: `{metric}` is {what}"),
            unit => format!("`{unit}` is no unit of `{metric}`, which is {what}"),
        };
        self.error(at, message, Some(suggestion))
    }

    fn time(&mut self, example: &str) -> Result<Duration, SlaError> {
        let at = self.next;
        let Some(token) = self.peek() else {
            return Err(self.error(at, "a time such as 30s is missing at the end", Some(example.to_owned())));
        };
        self.next += 1;
        match token.text.to_lowercase().parse::<TimeSpan>() {
            Ok(span) if span.0.is_zero() => Err(self.error(at, "the time must be more than 0", None)),
            Ok(span) if span.0 > DAY => Err(self.error(at, "the time is longer than a day", None)),
            Ok(span) => Ok(span.0),
            Err(_) => {
                let bare = number_of(token.text).is_some();
                let message = match bare {
                    true => format!("`{}` needs a unit", token.text),
                    false => format!("`{}` is no time: write one such as 30s or 1m30s", token.text),
                };
                Err(self.error(at, message, bare.then(|| format!("{}s", token.text))))
            }
        }
    }
}

/// The number in `p99.9`.
fn percentile(word: &str) -> Option<f64> {
    word.strip_prefix('p').and_then(number_of)
}

/// A plain decimal number with no sign and no exponent, at most a million million.
fn number_of(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = plain.then(|| text.parse().ok())??;
    (number <= 1e12).then_some(number)
}

fn operator_word(word: &str) -> Option<&'static str> {
    match word {
        "below" | "under" | "less" | "lt" | "is" => Some("<"),
        "above" | "over" | "more" | "gt" | "greater" => Some(">"),
        _ => None,
    }
}
