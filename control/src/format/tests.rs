use std::cell::Cell;

use super::*;
use crate::images::{Gguf, llama, model, reader, safetensors};

fn parts(image: &[u8]) -> Parts {
    Parts::find(&reader(image), image.len() as u64)
}

#[test]
fn a_safetensors_header_ends_where_its_length_says() {
    let image = safetensors("{}      ", &[1; 100]);
    assert_eq!(parts(&image), Parts { kind: Kind::Safetensors, header: 16 });
    assert_eq!(parts(&image[..16]), Parts { kind: Kind::Safetensors, header: 16 });
    let model = model();
    assert_eq!(parts(&model).header, model.len() as u64 - 4000);
}

#[test]
fn what_is_not_quite_safetensors_is_of_no_known_format() {
    let other = Parts { kind: Kind::Other, header: 0 };
    let image = safetensors("{}", &[]);
    for cut in 0..image.len() {
        assert_eq!(parts(&image[..cut]), other, "the first {cut} bytes");
    }
    assert_eq!(parts(&safetensors("[]", &[])), other);
    assert_eq!(parts(&safetensors("", b"{}")), other);
    let too_long = [&100_000_001_u64.to_le_bytes(), b"{".as_slice()].concat();
    assert_eq!(Parts::find(&reader(&too_long), u64::MAX), other);
    let longest = [&100_000_000_u64.to_le_bytes(), b"{".as_slice()].concat();
    assert_eq!(Parts::find(&reader(&longest), u64::MAX).header, 100_000_008);
}

#[test]
fn a_gguf_header_ends_at_the_next_aligned_byte() {
    for (gguf, alignment) in [
        (llama(), 32),
        (llama().value("general.alignment", 4, &64_u32.to_le_bytes()), 64),
        (llama().value("general.alignmend", 4, &64_u32.to_le_bytes()), 32),
        (llama().array("nested", 9, 2, &[[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]; 2].concat()), 32),
    ] {
        let image = gguf.file(alignment, &[1; 500]);
        assert_eq!(parts(&image), Parts { kind: Kind::Gguf, header: image.len() as u64 - 500 });
    }
    let mut second_version = llama().file(32, &[]);
    second_version[4] = 2;
    assert_eq!(parts(&second_version).kind, Kind::Gguf);
}

#[test]
fn a_gguf_file_that_ends_in_its_padding_is_all_header() {
    let header = llama().value("general.alignment", 4, &4096_u32.to_le_bytes()).header();
    assert_eq!(parts(&header), Parts { kind: Kind::Gguf, header: header.len() as u64 });
}

#[test]
fn what_is_not_quite_gguf_is_of_no_known_format() {
    let whole = llama().header();
    for cut in 0..whole.len() {
        assert_eq!(parts(&whole[..cut]).kind, Kind::Other, "the first {cut} of {} bytes", whole.len());
    }
    let deep = (0..8).rev().fold(vec![0; 12], |inner: Vec<u8>, _| {
        [&9_u32.to_le_bytes(), 1_u64.to_le_bytes().as_slice(), &inner].concat()
    });
    for (odd, gguf) in [
        ("alignment", llama().value("general.alignment", 4, &48_u32.to_le_bytes())),
        ("no alignment", llama().value("general.alignment", 4, &0_u32.to_le_bytes())),
        ("alignment's type", llama().value("general.alignment", 10, &32_u64.to_le_bytes())),
        ("type", llama().value("a", 13, &[0; 8])),
        ("dimensions", llama().tensor("a", &[1; 5], 0)),
        ("depth", llama().value("a", 9, &deep)),
        ("length of an array", llama().array("a", 10, u64::MAX, &[0; 64])),
        ("number of strings", llama().array("a", 8, u64::MAX, &[0; 64])),
    ] {
        assert_eq!(parts(&gguf.file(32, &[])).kind, Kind::Other, "{odd}");
    }
    for (at, byte) in [(0, b'F'), (4, 1), (4, 4), (7, 3), (15, 255), (23, 255)] {
        let mut image = llama().file(32, &[0; 99]);
        image[at] = byte;
        assert_eq!(parts(&image).kind, Kind::Other, "{byte} at byte {at}");
    }
}

/// Tokens and merges of a large vocabulary: the source is asked for blocks, never for a string at a time.
#[test]
fn a_large_vocabulary_takes_few_reads() {
    let words: Vec<String> = (0..300_000).map(|n| format!("word{n}")).collect();
    let image =
        Gguf::default().strings("tokenizer.ggml.tokens", &words).tensor("a", &[1], 0).file(32, &[7; 9]);
    let (reads, read) = (Cell::new(0), reader(&image));
    let counting = |offset: u64, into: &mut [u8]| {
        reads.set(reads.get() + 1);
        read(offset, into)
    };
    let found = Parts::find(&counting, image.len() as u64);
    assert_eq!(found, Parts { kind: Kind::Gguf, header: image.len() as u64 - 9 });
    assert!(reads.get() <= image.len() / 4096 + 3, "{} reads of {} bytes", reads.get(), image.len());
}

/// A header that never ends, of any length that its counts allow.
#[test]
fn a_walk_ends() {
    let start = [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &[255; 16]].concat();
    let (furthest, read) = (Cell::new(0), reader(&start));
    let endless = |offset: u64, into: &mut [u8]| {
        furthest.set(furthest.get().max(offset + into.len() as u64));
        into.fill(0);
        read(offset, into);
        into.len()
    };
    assert_eq!(Parts::find(&endless, u64::MAX).kind, Kind::Other);
    assert_eq!(furthest.get(), MOST);
}

/// What says it gave more than it was asked for is believed as far as there is room.
#[test]
fn a_source_may_lie() {
    assert_eq!(Parts::find(&|_: u64, _: &mut [u8]| usize::MAX, 100).kind, Kind::Other);
}
