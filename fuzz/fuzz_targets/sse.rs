//! Whatever the bytes and however they are cut into frames: nothing is lost, nothing is held back beyond the limit, the events
//! are the same, and reading them never panics.
#![no_main]

use brownout_injector::wire::sse::{SseSplitter, fields};
use brownout_injector::wire::{Api, classify, read};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 64;

/// Splits `frames`; what came out, piece by piece.
fn split<'a>(frames: impl Iterator<Item = &'a [u8]>, limit: usize) -> Vec<(Bytes, bool)> {
    let mut splitter = SseSplitter::new(limit);
    let mut pieces = Vec::new();
    for frame in frames {
        splitter.push(Bytes::copy_from_slice(frame));
        while let Some(piece) = splitter.next_event() {
            pieces.push((piece.raw, piece.whole));
        }
    }
    while let Some(piece) = splitter.finish() {
        pieces.push((piece.raw, piece.whole));
    }
    pieces
}

fn joined(pieces: &[(Bytes, bool)]) -> Vec<u8> {
    pieces.iter().flat_map(|(raw, _)| raw.iter().copied()).collect()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, stream) = input;
    let cut = usize::from(cut).max(1);
    let whole = split(std::iter::once(stream), usize::MAX);
    let in_frames = split(stream.chunks(cut), usize::MAX);
    let bounded = split(stream.chunks(cut), LIMIT);
    assert_eq!(joined(&whole), stream, "bytes were lost or changed");
    assert_eq!(joined(&in_frames), stream, "bytes were lost or changed at a frame border");
    assert_eq!(joined(&bounded), stream, "bytes were lost or changed at the limit");
    for (raw, complete) in &whole {
        let fields = fields(raw);
        for api in [Api::OpenaiChat, Api::OpenaiCompletions, Api::OpenaiResponses, Api::AnthropicMessages, Api::TgiGenerate] {
            let _ = classify(api, fields.data.as_deref());
            if let Some(data) = &fields.data {
                let _ = read(api, data);
            }
        }
        assert!(*complete || raw == &whole.last().expect("there is one").0, "a broken piece in the middle");
    }
});
