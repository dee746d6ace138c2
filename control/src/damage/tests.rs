use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::images::{Gguf, llama, model, reader, safetensors};

const WAYS: [How; 6] = [How::BitFlip, How::ZeroPage, How::Header, How::Truncate, How::Dtype, How::Shape];

fn draw(seed: u64) -> Draw {
    Draw::new(seed, "rot", 0)
}

fn plan(how: How, count: u64, seed: u64, image: &[u8]) -> Option<Damage> {
    Damage::plan(how, count, 500, draw(seed), &reader(image), image.len() as u64)
}

/// The file as its reader sees it.
fn seen(damage: &Damage, image: &[u8]) -> Vec<u8> {
    let mut seen = image.to_vec();
    let changed = damage.apply(0, &mut seen);
    assert_eq!(changed, differing(image, &seen).len() as u64);
    seen
}

fn differing(a: &[u8], b: &[u8]) -> Vec<u64> {
    assert_eq!(a.len(), b.len());
    (0..a.len()).filter(|i| a[*i] != b[*i]).map(|i| i as u64).collect()
}

fn note(damage: &Damage) -> String {
    damage.to_string()
}

fn ranges(damage: &Damage, from: u64, to: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    damage.each_range(from, to, &mut |from, to| ranges.push((from, to)));
    ranges
}

/// What of the header's text differs, before and after.
fn rewritten(how: How, seed: u64, image: &[u8]) -> Option<(String, String)> {
    let seen = seen(&plan(how, 1, seed, image)?, image);
    let header = Parts::find(&reader(image), image.len() as u64).header as usize;
    assert_eq!(image[header..], seen[header..]);
    let lines = |bytes: &[u8]| String::from_utf8(bytes[8..header].to_vec()).unwrap();
    let (old, new) = (lines(image), lines(&seen));
    let mut pairs = old.lines().zip(new.lines()).filter(|(old, new)| old != new);
    let (old, new) = pairs.next().expect("nothing was rewritten");
    assert_eq!(pairs.next(), None);
    Some((old.trim().to_owned(), new.trim().to_owned()))
}

#[test]
fn ways_keep_their_numbers() {
    for (number, how) in WAYS.into_iter().enumerate() {
        assert_eq!(how.to_u32(), number as u32 + 1);
        assert_eq!(How::from_u32(how.to_u32()), Some(how));
    }
    assert_eq!((How::from_u32(0), How::from_u32(7)), (None, None));
}

#[test]
fn bits_flip_in_the_data_one_in_each_part() {
    let image = model();
    let data = image.len() - 4000;
    let damage = plan(How::BitFlip, 8, 1, &image).unwrap();
    let seen = seen(&damage, &image);
    let places = differing(&image, &seen);
    assert_eq!(places.len(), 8);
    for (part, at) in places.iter().enumerate() {
        assert!((data + part * 500..data + (part + 1) * 500).contains(&(*at as usize)), "{part}: {at}");
        assert_eq!((image[*at as usize] ^ seen[*at as usize]).count_ones(), 1);
    }
    assert_eq!(note(&damage), "8 bits flipped in the tensors");
    assert_eq!(note(&plan(How::BitFlip, 1, 1, &[0; 9]).unwrap()), "1 bit flipped in the file");
}

#[test]
fn more_bits_than_bytes_are_one_a_byte() {
    let image = [7; 30];
    let damage = plan(How::BitFlip, u64::MAX, 1, &image).unwrap();
    assert_eq!(differing(&image, &seen(&damage, &image)).len(), 30);
    assert_eq!(ranges(&damage, 0, u64::MAX), [(0, 30)]);
}

#[test]
fn zeroed_pages_lie_where_the_files_own_do() {
    let image = safetensors("{}", &[1; 40_000]);
    let damage = plan(How::ZeroPage, 3, 1, &image).unwrap();
    let places = differing(&image, &seen(&damage, &image));
    assert_eq!(places.len(), 3 * 4096);
    for page in places.chunks(4096) {
        assert_eq!((page[0] % 4096, page[4095] - page[0]), (0, 4095));
    }
    assert_eq!(note(&damage), "3 pages of 4096 bytes zeroed in the tensors");
}

#[test]
fn data_without_a_whole_page_is_zeroed_as_one() {
    for (length, zeroed) in [(6, 6), (4000, 4000), (7000, 4096)] {
        let image = safetensors("{}", &vec![1; length]);
        let damage = plan(How::ZeroPage, 3, 1, &image).unwrap();
        assert_eq!(ranges(&damage, 0, 9999), [(10, 10 + zeroed)]);
        assert_eq!(differing(&image, &seen(&damage, &image)).len() as u64, zeroed);
        assert_eq!(note(&damage), format!("{zeroed} bytes zeroed in the tensors"));
    }
}

#[test]
fn a_file_is_not_recognised() {
    let image = safetensors("{}", &[1; 9]);
    let damage = plan(How::Header, 1, 1, &image).unwrap();
    let seen_by = seen(&damage, &image);
    assert_eq!(u64::from_le_bytes(*seen_by.first_chunk().unwrap()), 2 + (1 << 62));
    assert_eq!(note(&damage), "header length: 2 to 4611686018427387906");

    let image = llama().file(32, &[]);
    let damage = plan(How::Header, 1, 1, &image).unwrap();
    let mut seen_by = seen(&damage, &image);
    assert_eq!(differing(&image, &seen_by), [0]);
    assert_eq!(damage.apply(0, &mut seen_by), 0, "bytes that are as they shall be do not change");
    assert_eq!(note(&damage), "magic: GGUF to FGUF");

    let damage = plan(How::Header, 1, 1, b"PK").unwrap();
    assert_eq!(differing(b"PK", &seen(&damage, b"PK")), [0]);
    assert!(note(&damage).starts_with("first byte: 0x50 to 0x"), "{}", note(&damage));
}

#[test]
fn a_file_ends_early() {
    let damage = plan(How::Truncate, 1, 1, &[1; 999]).unwrap();
    assert_eq!(damage.limit(), Some(499));
    assert_eq!(seen(&damage, &[1; 999]), [1; 999]);
    assert_eq!(ranges(&damage, 0, 999), []);
    assert_eq!(note(&damage), "ends after 499 of 999 bytes");
    let keeps =
        |permille, size| Damage::plan(How::Truncate, 1, permille, draw(1), &reader(&[]), size)?.limit();
    assert_eq!(keeps(0, 1), Some(0));
    assert_eq!(keeps(u32::MAX, 1), Some(0));
    assert_eq!(keeps(999, u64::MAX), Some(18_428_297_329_635_842_063));
    assert_eq!(keeps(500, 0), None);
    assert_eq!(plan(How::BitFlip, 1, 1, b"a").unwrap().limit(), None);
}

#[test]
fn each_tensors_type_may_become_another_of_its_size() {
    let image = model();
    let found: BTreeSet<(String, String)> =
        (0..200).map(|seed| rewritten(How::Dtype, seed, &image).unwrap()).collect();
    let of = |tensor: &str, new: &str| {
        assert!(
            found.iter().any(|(old, is)| old.starts_with(tensor) && is.contains(new)),
            "{new}: {found:?}"
        );
    };
    of(r#""wte""#, r#""dtype":"I32","shape":[10,25]"#);
    of(r#""scale""#, r#""dtype" : "F16"  }"#);
    of(r#""dtype""#, r#"{"dtype":"F8_E5M2","#);
    of(r#""mask""#, r#""dtype":"U8"  ,"shape""#);
    assert_eq!(found.len(), 4);
    let notes: BTreeSet<String> =
        (0..200).map(|seed| note(&plan(How::Dtype, 1, seed, &image).unwrap())).collect();
    for words in [": F32 to I32", ": BF16 to F16", ": F8_E4M3 to F8_E5M2", ": BOOL to U8"] {
        assert!(notes.iter().any(|note| note.ends_with(words)), "{words}: {notes:?}");
    }
    let at = image.windows(3).position(|w| w == b"F32").unwrap();
    let at = at + 3 + image[at + 3..].windows(3).position(|w| w == b"F32").unwrap();
    assert!(notes.contains(&format!("dtype at byte {at}: F32 to I32")), "{at}: {notes:?}");
}

#[test]
fn each_tensor_is_as_likely_as_another() {
    let image = model();
    for how in [How::Dtype, How::Shape] {
        let mut hits = BTreeMap::<String, u32>::new();
        for seed in 0..4000 {
            let (old, _) = rewritten(how, seed, &image).unwrap();
            *hits.entry(old).or_default() += 1;
        }
        // Binomial with p = 1/4: a standard deviation of 27.
        assert!(hits.len() == 4 && hits.values().all(|n| (850..1150).contains(n)), "{hits:?}");
    }
}

#[test]
fn a_digit_of_a_shape_becomes_another() {
    let image = model();
    let shape = |line: &str| -> Vec<u64> {
        let digits = line.split("\"shape\"").nth(1).unwrap().split(['[', ']']).nth(1).unwrap();
        digits
            .split(',')
            .map(|number| number.trim().to_owned())
            .map(|number| {
                assert!(number == "0" || !number.starts_with('0'), "{line}");
                number.parse().unwrap()
            })
            .collect()
    };
    let mut found = BTreeSet::new();
    for seed in 0..500 {
        let (old, new) = rewritten(How::Shape, seed, &image).unwrap();
        let (before, after) = (shape(&old), shape(&new));
        assert_ne!(before, after);
        assert!(!after.contains(&0), "{new}");
        found.insert((old[..6].to_owned(), before, after));
    }
    assert_eq!(found.iter().map(|(name, ..)| name).collect::<BTreeSet<_>>().len(), 4);
    // Digits that may be another: 10: 8 + 9, 25: 8 + 9, 1000: 8 + 3 * 9, 5: 8, 100: 8 + 2 * 9, 500: 8 + 2 * 9.
    assert!((90..=129).contains(&found.len()), "{}", found.len());
}

#[test]
fn a_dimension_of_none_comes_to_be_some() {
    let image = safetensors(r#"{"a":{"dtype":"F32","shape":[0]}}"#, &[]);
    for seed in 0..50 {
        let (_, new) = rewritten(How::Shape, seed, &image).unwrap();
        assert!(!new.contains("[0]") && new.len() == 33, "{new}");
    }
}

#[test]
fn what_has_no_types_and_shapes_keeps_them() {
    let ways = [How::Dtype, How::Shape];
    for header in
        ["{}", r#"{"a":{"dtype":"C64","shape":[]}}"#, r#"{"__metadata__":{"dtype":"F32","shape":"1"}}"#]
    {
        let image = safetensors(header, &[1; 9]);
        assert_eq!(ways.map(|how| plan(how, 1, 1, &image)), [None, None], "{header}");
    }
    for image in [b"PK123".to_vec(), Gguf::default().tensor("a", &[], 12).file(32, &[1])] {
        assert_eq!(ways.map(|how| plan(how, 1, 1, &image)), [None, None]);
    }
    assert_eq!(WAYS.map(|how| plan(how, 1, 1, &[])), [None; 6]);
    for how in [How::BitFlip, How::ZeroPage] {
        assert_eq!(plan(how, 0, 1, b"abc"), None);
        assert_eq!(plan(how, 1, 1, &safetensors("{}", &[])), None);
    }
}

#[test]
fn a_gguf_tensors_type_and_shape_become_others() {
    let image = llama().tensor("alone", &[1, 5], 30).file(32, &[1; 9]);
    let notes = |how| -> BTreeSet<String> {
        (0..200)
            .map(|seed| {
                let damage = plan(how, 1, seed, &image).unwrap();
                let seen = seen(&damage, &image);
                let size = image.len() as u64;
                assert_eq!(Parts::find(&reader(&seen), size), Parts::find(&reader(&image), size));
                note(&damage).split_once(": ").unwrap().1.to_owned()
            })
            .collect()
    };
    assert_eq!(notes(How::Dtype), ["BF16 to F16", "F32 to I32", "Q4_0 to IQ4_NL"].map(str::to_owned).into());
    assert_eq!(notes(How::Shape), ["1 to 3", "64 to 65"].map(str::to_owned).into());
}

/// Files of each format, and of none. No byte of their data is zero, so that what is zeroed differs.
fn image() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(1..=u8::MAX, 0..20_000);
    (0..4, data).prop_map(|(kind, data)| match kind {
        0 => [&model(), data.as_slice()].concat(),
        1 => llama().file(32, &data),
        2 => safetensors("{}", &data),
        _ => data,
    })
}

fn way() -> impl Strategy<Value = How> {
    prop::sample::select(WAYS.to_vec())
}

proptest! {
    #[test]
    fn a_file_read_in_pieces_is_the_file_read_at_once(
        image in image(), how in way(), count in 1..300_u64, seed: u64, cuts in prop::collection::vec(0..20_000_usize, 0..8)
    ) {
        let Some(damage) = plan(how, count, seed, &image) else { return Ok(()) };
        let whole = seen(&damage, &image);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(image.len())).chain([0, image.len()]).collect();
        cuts.sort_unstable();
        let mut pieces = image.clone();
        let mut changed = 0;
        for cut in cuts.windows(2) {
            changed += damage.apply(cut[0] as u64, &mut pieces[cut[0]..cut[1]]);
        }
        prop_assert_eq!(changed, differing(&image, &whole).len() as u64);
        prop_assert!(pieces == whole);
    }

    #[test]
    fn ranges_are_all_that_may_change(
        image in image(), how in way(), count in 1..300_u64, seed: u64, from in 0..20_000_u64, length in 0..20_000_u64
    ) {
        let Some(damage) = plan(how, count, seed, &image) else { return Ok(()) };
        let to = from + length;
        let ranges = ranges(&damage, from, to);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
        let within: Vec<u64> = ranges.into_iter().flat_map(|(from, to)| from..to).collect();
        let differ = differing(&image, &seen(&damage, &image));
        prop_assert_eq!(within, differ.into_iter().filter(|at| (from..to).contains(at)).collect::<Vec<_>>());
    }

    #[test]
    fn damage_keeps_to_the_data_and_is_the_same_each_time(image in image(), count in 1..300_u64, seed: u64) {
        let header = Parts::find(&reader(&image), image.len() as u64).header;
        for how in WAYS {
            prop_assert_eq!(plan(how, count, seed, &image), plan(how, count, seed, &image));
        }
        for how in [How::BitFlip, How::ZeroPage] {
            let Some(damage) = plan(how, count, seed, &image) else { continue };
            prop_assert!(differing(&image, &seen(&damage, &image)).iter().all(|at| *at >= header));
        }
    }

    /// A header of which some bytes are others: whatever it says now, nothing panics, and damage stays within the file.
    #[test]
    fn nothing_that_a_file_says_is_believed(
        image in image(), changes in prop::collection::vec((0..500_usize, any::<u8>()), 0..6), how in way(), seed: u64
    ) {
        let mut image = image;
        for (at, byte) in changes {
            if let Some(place) = image.get_mut(at) {
                *place = byte;
            }
        }
        let size = image.len() as u64;
        prop_assert!(Parts::find(&reader(&image), size).header <= size);
        if let Some(damage) = plan(how, 5, seed, &image) {
            seen(&damage, &image);
            prop_assert!(ranges(&damage, 0, u64::MAX).iter().all(|(from, to)| from < to && *to <= size));
            prop_assert!(damage.limit().is_none_or(|limit| limit < size));
            prop_assert!(!note(&damage).is_empty());
        }
    }

    /// A file said to be of any size, read anywhere.
    #[test]
    fn no_size_and_no_offset_is_too_large(size: u64, count: u64, offset: u64, how in way(), length in 0..100_usize) {
        let start = b"no known format";
        let Some(damage) = Damage::plan(how, count, 1000, draw(1), &reader(start), size) else { return Ok(()) };
        damage.apply(offset, &mut vec![1; length]);
        damage.each_range(offset, offset.saturating_add(length as u64), &mut |from, to| assert!(from < to));
    }
}

/// A read looks at what it may meet, not at each of the places: this would not end otherwise.
#[test]
fn small_reads_of_large_damage_are_quick() {
    let size = 1 << 50;
    let damage = Damage::plan(How::BitFlip, 1 << 40, 0, draw(1), &reader(b"no known format"), size).unwrap();
    let mut changed = 0;
    for read in 0..1000_u64 {
        changed += damage.apply(read << 40, &mut [0; 4096]);
    }
    assert_eq!(changed, 4000);
}
