//! The words the stand-in speaks, and its tokenizer.
//!
//! The vocabulary is a few hundred English words sorted by their part in a sentence, so that the weights
//! (see [`crate::weights`]) can join them by a small grammar and the answers read as sentences. One word, its
//! leading space included, is one token, and so is a full stop or a comma. Text from outside is cut into words;
//! a word that is not in the vocabulary is cut into pieces of four bytes, near the four characters a token that
//! byte-pair tokenizers reach on English. So `encode` of an answer gives back as many tokens as were generated.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The part of speech of a vocabulary word; the grammar in the weights is written in these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// End of text; never printed.
    End,
    /// `.`
    Stop,
    /// `,`
    Comma,
    /// the, a, every …
    Determiner,
    /// Adjectives.
    Adjective,
    /// Nouns.
    Noun,
    /// Verbs in the third person.
    Verb,
    /// Adverbs.
    Adverb,
    /// Prepositions.
    Preposition,
    /// Conjunctions.
    Conjunction,
}

const WORDS: &[(Class, &str)] = &[
    (Class::End, "<|end|>"),
    (Class::Stop, "."),
    (Class::Comma, ","),
    (Class::Determiner, "the a this that every each another no some our your their its one any"),
    (
        Class::Adjective,
        "quiet small large old new bright dark early late slow quick cold warm deep shallow wide narrow heavy \
         light soft hard smooth rough clear cloudy empty full open closed gentle sharp simple complex plain \
         strange common rare sudden steady brief long short tall low high near distant broken whole single \
         double hidden visible silent loud careful careless patient eager honest clever wise young fresh dry \
         wet green blue red golden silver grey white black modern ancient local foreign public private certain \
         possible useful useless final first second last next previous usual sturdy fragile pale narrowed calm \
         wild busy idle ready rusty tidy hollow solid liquid frozen bitter sweet sour mild severe humble proud",
    ),
    (
        Class::Noun,
        "river mountain valley forest garden field road bridge harbour island lake ocean shore wind storm rain \
         snow cloud sky sun moon star morning evening night winter summer spring autumn season year month week \
         day hour minute moment village town city street house room door window wall roof floor kitchen table \
         chair lamp mirror clock book letter page paper pencil story song poem picture map journey path track \
         train ship boat wagon engine wheel machine tool hammer rope box basket bottle glass cup plate knife \
         bread apple honey salt water fire smoke stone sand metal iron copper wood leaf root branch tree flower \
         seed grass horse dog cat bird fish bee wolf fox sheep child teacher farmer sailor doctor baker painter \
         writer singer traveller neighbour friend stranger family crowd council market school library museum \
         station office factory workshop tower castle question answer reason problem idea plan rule law number \
         word sentence language signal message memory dream shadow colour sound voice shape line circle corner \
         edge centre distance weight measure balance change motion force energy pattern system network channel \
         record index layer block queue server region cluster model token cache batch budget limit window",
    ),
    (
        Class::Verb,
        "follows carries holds keeps finds loses makes breaks builds opens closes moves turns lifts drops pulls \
         pushes crosses reaches leaves enters watches hears sees shows hides teaches learns reads writes draws \
         paints counts measures compares changes repeats remembers forgets knows believes doubts answers asks \
         explains describes names calls sends receives gives takes brings returns begins ends stops starts \
         waits serves helps feeds guards covers fills empties joins divides shares gathers scatters collects \
         sorts weighs tests proves solves repairs replaces protects supports surrounds becomes meets passes \
         touches warms cools lights darkens needs wants likes fears expects allows prevents causes limits \
         guides leads trusts admires",
    ),
    (
        Class::Adverb,
        "slowly quickly quietly loudly often rarely always never soon later again once twice together alone \
         almost nearly surely perhaps gently carefully suddenly finally usually clearly simply easily hardly \
         evenly freely today everywhere somewhere outside inside upstream downstream",
    ),
    (
        Class::Preposition,
        "in on under over near behind beside between beyond through across along around toward against with \
         without before after during from into above below within",
    ),
    (Class::Conjunction, "and but or while because until although when where so unless since"),
];

/// One vocabulary entry in the forms it is printed in.
struct Entry {
    class: Class,
    /// In the middle of a sentence: with its leading space (punctuation has none).
    inner: &'static str,
    /// At the start of a later sentence: leading space, capital letter.
    opening: &'static str,
}

struct Vocabulary {
    entries: Vec<Entry>,
    ids: HashMap<&'static str, u32>,
}

// The forms are built once for the process and live as long as it does, so tokens travel as `&'static str`.
static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let mut entries = Vec::new();
    let mut ids = HashMap::new();
    for &(class, words) in WORDS {
        for word in words.split_whitespace() {
            if ids.contains_key(word) {
                continue;
            }
            let space = if matches!(class, Class::Stop | Class::Comma) { "" } else { " " };
            let mut capital = word.to_owned();
            if let Some(first) = capital.get_mut(0..1) {
                first.make_ascii_uppercase();
            }
            ids.insert(word, entries.len() as u32);
            entries.push(Entry {
                class,
                inner: format!("{space}{word}").leak(),
                opening: format!("{space}{capital}").leak(),
            });
        }
    }
    Vocabulary { entries, ids }
});

/// How many tokens the vocabulary holds.
pub fn size() -> usize {
    VOCABULARY.entries.len()
}

/// The end-of-text token.
pub const END: u32 = 0;

/// The first token that is a word: those before it are the end of text and punctuation.
const FIRST_WORD: u32 = 3;

/// The part of speech of token `id` (ids past the end wrap round, so that corrupted weights stay in range).
pub fn class(id: u32) -> Class {
    VOCABULARY.entries[id as usize % size()].class
}

/// What token `id` prints: with its leading space, and with a capital letter where `opening` says that it opens a
/// sentence. Every form is plain ASCII without quotes or backslashes, so it needs no escaping in JSON.
pub fn text(id: u32, opening: bool) -> &'static str {
    let entry = &VOCABULARY.entries[id as usize % size()];
    if opening { entry.opening } else { entry.inner }
}

/// The bare lower-case word of token `id`, as used inside tool-call arguments; where it is punctuation, the first word.
pub fn word(id: u32) -> &'static str {
    let id = if matches!(class(id), Class::End | Class::Stop | Class::Comma) { FIRST_WORD } else { id };
    text(id, false).trim_start()
}

/// Cuts `text` into tokens. Deterministic; every byte of every word is covered.
///
/// Ids below [`size`] are vocabulary words; others are pieces, numbered by a hash of their bytes.
pub fn encode(text: &str, out: &mut Vec<u32>) {
    for chunk in text.split_whitespace() {
        let mut rest = chunk;
        while !rest.is_empty() {
            let alphabetic = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            let end = if alphabetic == 0 {
                rest.chars().next().map_or(rest.len(), char::len_utf8)
            } else {
                alphabetic
            };
            let (word, tail) = rest.split_at(end);
            encode_word(word, out);
            rest = tail;
        }
    }
}

fn encode_word(word: &str, out: &mut Vec<u32>) {
    let known = if word.bytes().any(|b| b.is_ascii_uppercase()) {
        VOCABULARY.ids.get(word.to_ascii_lowercase().as_str())
    } else {
        VOCABULARY.ids.get(word)
    };
    if let Some(&id) = known {
        out.push(id);
        return;
    }
    for piece in word.as_bytes().chunks(4) {
        let mut bytes = [0; 4];
        bytes[..piece.len()].copy_from_slice(piece);
        // A piece is at most four bytes, so its bytes are its number: no two pieces share an id by chance.
        let id = u32::from_le_bytes(bytes);
        out.push(if (id as usize) < size() { id | 1 << 31 } else { id });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_encode_to_as_many_tokens_as_they_were_made_of() {
        let ids: Vec<u32> = (1..size() as u32).collect();
        let text: String = ids.iter().map(|&id| text(id, id % 3 == 0)).collect();
        let mut again = Vec::new();
        encode(&text, &mut again);
        assert_eq!(again, ids);
    }

    #[test]
    fn unknown_words_are_cut_into_pieces_of_four_bytes() {
        let mut ids = Vec::new();
        encode("Antidisestablishmentarianism", &mut ids);
        assert_eq!(ids.len(), 7);
        assert!(ids.iter().all(|&id| id as usize >= size()));
    }

    #[test]
    fn the_vocabulary_is_large_and_needs_no_escaping() {
        assert!(size() > 450, "{}", size());
        for id in 0..size() as u32 {
            assert!(word(id).bytes().all(|byte| byte.is_ascii_lowercase()), "{id}: {}", word(id));
            let quoted = serde_json::to_string(text(id, true)).expect("a string");
            assert_eq!(quoted.len(), text(id, true).len() + 2);
        }
    }
}
