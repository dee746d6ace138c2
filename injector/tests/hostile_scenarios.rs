//! Files that nobody wrote by mistake: binary, huge, cut at random, or made to grow.

use brownout_injector::{load, load_bytes};
use proptest::prelude::*;

const GOOD: &str = include_str!("good.yaml");

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let at = |bytes: &[u8]| {
        let errors = load_bytes("bad.yaml", bytes).expect_err("it is no scenario");
        let first = errors.iter().next().expect("never empty").clone();
        (first.line, first.column, format!("{} {}", first.message, first.label))
    };
    let (line, column, words) = at(b"kind: x\nspec: \xff\n");
    assert_eq!((line, column), (2, 7));
    assert!(words.contains("0xff") && words.contains("UTF-8"), "{words}");
    assert!(at(b"\xff\xfea\0:\0").2.contains("UTF-16"));
    assert!(at(b"").2.contains("the file is empty"));
    assert!(at(b"# nothing but a comment\n").2.contains("the file is empty"));
    assert!(at(&vec![b'a'; 5 << 20]).2.contains("at most 4 MiB"));
}

/// Small texts that would grow beyond all bounds if they were taken at their word.
#[test]
fn hostile_files_cost_little_and_end_in_an_error() {
    let laughs: String = std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned())
        .chain((1..20).map(|i| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", "))))
        .collect();
    let shared: String = std::iter::once("a0: &a0 {b: 1, c: 2, d: 3}\n".to_owned())
        .chain((1..50_000).map(|i| format!("a{i}: *a0\n")))
        .collect();
    let twice: String = (0..20_000).map(|i| format!("k{}: 1\n", i % 10_000)).collect();
    let quotes = "\"".repeat(100_001);
    for text in [
        laughs,
        shared,
        twice,
        quotes,
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        (0..3000).map(|i| " ".repeat(i) + "a:\n").collect(),
        format!("a: |\n  {}\n", "x".repeat(1 << 20)),
        "&a ".repeat(50_000),
        "!!".repeat(50_000),
        "%TAG ! x\n".repeat(10_000),
    ] {
        let errors = load("hostile.yaml", &text).expect_err("it is no scenario");
        assert!(errors.render(false).len() < 200_000);
    }
}

#[test]
fn a_scenario_of_ten_thousand_lines_loads() {
    let (head, tail) = GOOD.split_at(GOOD.find("    - name: second").expect("it is there"));
    let many: String = (0..2_500)
        .map(|i| format!("    - name: f{i}\n      stall:\n        atToken: 3\n        for: 2s\n"))
        .collect();
    let scenario =
        load("long.yaml", &format!("{head}{many}{tail}")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(scenario.spec.faults.len(), 2_502);
    let errors = load("long.yaml", &format!("{head}{}{tail}", many.replace("atToken", "token")));
    let errors = errors.expect_err("each fault is wrong");
    assert!(errors.len() >= 1000);
    assert!(errors.render(false).contains("more in long.yaml"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any text: an answer, never a panic, and every place lies in the text.
    #[test]
    fn no_text_makes_it_panic(text in "[ -~\n\té\u{feff}]{0,120}") {
        if let Err(errors) = load("any.yaml", &text) {
            for error in &errors {
                prop_assert!(error.line <= text.matches('\n').count() + 1);
            }
            prop_assert!(errors.render(true).contains("any.yaml:"));
        }
    }

    /// The good file with a piece cut out or doubled: as near to real mistakes as chance comes.
    #[test]
    fn no_cut_makes_it_panic(from in 0..GOOD.len(), length in 0_usize..40, twice: bool) {
        let to = (from + length).min(GOOD.len());
        let text = if twice {
            format!("{}{}", &GOOD[..to], &GOOD[from..])
        } else {
            format!("{}{}", &GOOD[..from], &GOOD[to..])
        };
        if let Err(errors) = load("cut.yaml", &text) {
            prop_assert!(errors.render(false).contains("cut.yaml:"));
        }
    }

    /// What was read and is written again reads as the same: no field is lost on the way.
    #[test]
    fn whatever_is_taken_is_taken_whole(from in 0..GOOD.len(), length in 0_usize..40) {
        let text = format!("{}{}", &GOOD[..from], &GOOD[(from + length).min(GOOD.len())..]);
        if let Ok(scenario) = load("cut.yaml", &text) {
            let json = serde_json::to_string(&scenario).expect("a scenario can be written");
            prop_assert_eq!(load("cut.json", &json), Ok(scenario));
        }
    }
}
