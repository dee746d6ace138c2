use super::*;
use proptest::prelude::*;

const CHAT: Api = Api::OpenaiChat;

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn text(text: &str) -> String {
    chunk(&format!("{{\"content\":\"{text}\"}}"), "null")
}

/// Reads `(time, bytes)` as one read each, then the orderly end.
fn read_at(api: Api, reads: &[(f64, &[u8])]) -> Answer {
    let mut answer = Answer::events(api);
    for (number, (at, bytes)) in reads.iter().enumerate() {
        answer.push(*at, number as u64, Bytes::copy_from_slice(bytes));
    }
    answer.end(reads.last().map_or(0.0, |read| read.0));
    answer
}

fn stream(events: &[(f64, String)]) -> Answer {
    let reads: Vec<(f64, &[u8])> = events.iter().map(|(at, event)| (*at, event.as_bytes())).collect();
    read_at(CHAT, &reads)
}

#[test]
fn only_content_counts_as_a_token() {
    let answer = stream(&[
        (0.1, ": keep-alive\n\n".to_owned()),
        (0.2, "data: : keepalive\n\n".to_owned()),
        (0.3, "data: {\"choices\":[],\"usage\":null}\n\n".to_owned()),
        (0.4, chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null")),
        (0.5, chunk("{\"role\":\"assistant\",\"content\":null}", "null")),
        (1.0, text("a")),
        (1.5, text("b")),
        (1.6, chunk("{}", "\"stop\"")),
        (
            1.7,
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\
               \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
                .to_owned(),
        ),
        (1.8, "data: [DONE]\n\n".to_owned()),
    ]);
    assert_eq!((answer.ttft, answer.ttfo, answer.last_token), (Some(1.0), Some(1.0), Some(1.5)));
    assert_eq!((answer.chunks, answer.gaps.as_slice()), (2, [0.5].as_slice()));
    assert_eq!(answer.finish.as_deref(), Some("stop"));
    assert_eq!(answer.usage, Usage { prompt: Some(5), cached: Some(4), output: Some(2) });
    assert!(answer.done && answer.breach.is_none() && answer.model.as_deref() == Some("m"));
}

#[test]
fn reasoning_is_a_token_but_no_output() {
    for key in ["reasoning", "reasoning_content"] {
        let answer = stream(&[
            (0.1, chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null")),
            (0.5, chunk(&format!("{{\"{key}\":\"hm\"}}"), "null")),
            (3.0, text("yes")),
        ]);
        assert_eq!((answer.ttft, answer.ttfo, answer.chunks), (Some(0.5), Some(3.0), 2), "{key}");
    }
}

#[test]
fn a_tool_call_is_output() {
    let call = |function: &str| {
        chunk(&format!("{{\"tool_calls\":[{{\"index\":0,\"function\":{function}}}]}}"), "null")
    };
    let answer = stream(&[
        (0.5, call("{\"name\":\"weather\",\"arguments\":\"\"}")),
        (0.6, call("{\"arguments\":\"{\\\"city\\\":\"}")),
        (0.7, call("{\"arguments\":\"\\\"Paris\\\"}\"}")),
    ]);
    assert_eq!(
        (answer.ttfo, answer.chunks, answer.tools.as_slice()),
        (Some(0.5), 3, ["weather".to_owned()].as_slice())
    );
    assert!(answer.arguments_are_json());
    let broken = stream(&[(0.5, call("{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\"}"))]);
    assert!(!broken.arguments_are_json());
}

#[test]
fn events_in_one_read_are_coalesced_with_nothing_between() {
    let three = format!("{}{}{}", text("a"), text("b"), text("c"));
    let answer = stream(&[(1.0, three), (1.5, text("d"))]);
    assert_eq!((answer.chunks, answer.coalesced, answer.gaps.as_slice()), (4, 2, [0.0, 0.0, 0.5].as_slice()));
}

#[test]
fn two_frames_of_one_read_are_coalesced_too() {
    let mut answer = Answer::events(CHAT);
    answer.push(1.0, 7, Bytes::from(text("a")));
    answer.push(1.0, 7, Bytes::from(text("b")));
    assert_eq!((answer.chunks, answer.coalesced, answer.gaps.as_slice()), (2, 1, [0.0].as_slice()));
}

#[test]
fn an_error_may_come_in_many_shapes_and_may_be_none() {
    for none in ["\"\"", "null", "{}"] {
        let event =
            format!("data: {{\"error\":{none},\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n");
        let answer = stream(&[(0.1, event)]);
        assert_eq!((answer.breach, answer.chunks), (None, 1), "{none}");
    }
    for event in [
        "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n",
        "data: {\"error\":\"boom\"}\n\n",
        "event: error\ndata: {\"detail\":\"boom\"}\n\n",
        "error: {\"message\":\"boom\"}\n\n",
    ] {
        let answer =
            stream(&[(0.1, text("a")), (0.2, event.to_owned()), (0.3, "data: [DONE]\n\n".to_owned())]);
        assert!(
            matches!(&answer.breach, Some(Breach::Error(text)) if text.contains("boom")),
            "{event}: {:?}",
            answer.breach
        );
        assert!(answer.done && answer.chunks == 1);
    }
}

#[test]
fn a_broken_stream_says_what_broke_first() {
    let no_json =
        stream(&[(0.1, text("a")), (0.2, "data: {\"choices\": [\n\n".to_owned()), (0.3, text("b"))]);
    assert!(matches!(no_json.breach, Some(Breach::Json(_))));
    assert_eq!(no_json.chunks, 2, "and reading goes on");
    let joined = format!("{}{}", text("a").trim_end(), "\n") + &text("b");
    assert!(matches!(stream(&[(0.1, joined)]).breach, Some(Breach::Sse(why)) if why.contains("blank line")));
    let bad_utf8 =
        read_at(CHAT, &[(0.1, b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n")]);
    assert!(matches!(bad_utf8.breach, Some(Breach::Sse(why)) if why.contains("UTF-8")));
    let huge = vec![b'x'; MAX_EVENT + 1];
    assert!(matches!(read_at(CHAT, &[(0.1, b"data: "), (0.2, &huge)]).breach, Some(Breach::Sse(_))));
}

#[test]
fn a_last_event_without_its_blank_line_counts_and_a_cut_one_does_not() {
    let whole = text("b");
    let answer = stream(&[(0.1, text("a")), (0.2, whole.trim_end().to_owned())]);
    assert_eq!((answer.chunks, &answer.breach), (2, &None));
    let cut = stream(&[(0.1, text("a")), (0.2, whole[..30].to_owned())]);
    assert_eq!((cut.chunks, &cut.breach, cut.done), (1, &None, false));
    let done = stream(&[(0.1, text("a")), (0.2, "data: [DONE]".to_owned())]);
    assert!(done.done);
}

#[test]
fn what_follows_the_end_marker_is_not_read() {
    let answer = stream(&[(0.1, text("a")), (0.2, "data: [DONE]\n\n".to_owned()), (0.3, text("b"))]);
    assert_eq!(answer.chunks, 1);
}

#[test]
fn other_protocols_have_their_own_tokens_and_ends() {
    let anthropic = read_at(
        Api::AnthropicMessages,
        &[
            (0.1, b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"c\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"),
            (0.2, b"event: ping\ndata: {\"type\":\"ping\"}\n\n"),
            (0.3, b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"),
            (0.5, b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"),
            (0.6, b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":12}}\n\n"),
            (0.7, b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
        ],
    );
    assert_eq!((anthropic.ttft, anthropic.ttfo), (Some(0.3), Some(0.5)));
    assert_eq!((anthropic.usage.prompt, anthropic.usage.output, anthropic.done), (Some(9), Some(12), true));
    let tgi = read_at(
        Api::TgiGenerate,
        &[
            (0.1, b"data:{\"token\":{\"text\":\"a\",\"special\":false},\"generated_text\":null,\"details\":null}\n\n"),
            (0.2, b"data:{\"token\":{\"text\":\"</s>\",\"special\":true},\"generated_text\":\"a\",\"details\":{\"finish_reason\":\"eos_token\",\"generated_tokens\":2}}\n\n"),
        ],
    );
    assert_eq!(
        (tgi.chunks, tgi.finish.as_deref(), tgi.usage.output, tgi.done),
        (1, Some("eos_token"), Some(2), true)
    );
    let triton = read_at(
        Api::TritonGenerate,
        &[(0.1, b"data: {\"text_output\":\"a\"}\n\n"), (0.2, b"data: {\"text_output\":\"b\"}\n\n")],
    );
    assert_eq!((triton.chunks, triton.done), (2, false));
}

#[test]
fn a_whole_answer_is_read_at_its_end() {
    let whole = |api, streamed, body: &str| {
        let mut answer = Answer::whole(api, streamed);
        let (one, other) = body.as_bytes().split_at(body.len() / 2);
        answer.push(0.5, 0, Bytes::copy_from_slice(one));
        answer.push(0.6, 1, Bytes::copy_from_slice(other));
        answer.end(0.6);
        answer
    };
    let chat = "{\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}],\
                \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}";
    let answer = whole(CHAT, false, chat);
    assert_eq!((answer.content, answer.ttft, answer.last_token), (true, None, Some(0.6)));
    assert_eq!((answer.usage.output, answer.done), (Some(5), true));
    assert_eq!(whole(CHAT, true, chat).ttft, Some(0.6), "a stream was asked for");
    assert_eq!(
        answer.hash(),
        stream(&[(0.1, text("hel")), (0.2, text("lo"))]).hash(),
        "the text alone counts"
    );
    let vectors = whole(
        Api::OpenaiEmbeddings,
        false,
        "{\"data\":[{\"embedding\":[0.5,1]}],\"usage\":{\"prompt_tokens\":3}}",
    );
    assert!(vectors.content && vectors.usage.prompt == Some(3));
    assert!(!whole(Api::OpenaiEmbeddings, false, "{\"data\":[]}").content);
    assert!(matches!(whole(CHAT, false, "<html>").breach, Some(Breach::Json(_))));
    assert!(matches!(whole(CHAT, false, "{\"error\":{\"message\":\"no\"}}").breach, Some(Breach::Error(_))));
}

#[test]
fn a_body_beyond_all_measure_is_not_kept() {
    let mut answer = Answer::whole(CHAT, false);
    let frame = Bytes::from(vec![b' '; MAX_BODY / 4]);
    for read in 0..5 {
        answer.push(0.1, read, frame.clone());
    }
    assert!(matches!(answer.breach, Some(Breach::Json(_))));
}

proptest! {
    #[test]
    fn however_the_bytes_are_cut_the_answer_is_the_same(
        words in prop::collection::vec("[a-zäß€😀]{0,6}", 0..12),
        ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        cuts in prop::collection::vec(1_usize..40, 1..60),
    ) {
        let mut all: String = words.iter().map(|word| text(word)).collect();
        all += &chunk("{}", "\"stop\"");
        all += ": ping\n\ndata: [DONE]\n\n";
        let all = all.replace('\n', ending).into_bytes();
        let mut reads = Vec::new();
        let (mut rest, mut cut) = (all.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cut.next().expect("endless")));
            reads.push((reads.len() as f64, piece));
            rest = after;
        }
        let (whole, cut) = (read_at(CHAT, &[(0.0, &all)]), read_at(CHAT, &reads));
        let tokens = words.iter().filter(|word| !word.is_empty()).count() as u32;
        prop_assert_eq!((whole.chunks, cut.chunks), (tokens, tokens));
        prop_assert_eq!(whole.hash(), cut.hash());
        prop_assert!(cut.done && cut.breach.is_none() && cut.finish.as_deref() == Some("stop"));
        prop_assert_eq!(cut.gaps.len() as u32, tokens.saturating_sub(1));
        prop_assert_eq!(cut.gaps.iter().filter(|gap| **gap == 0.0).count() as u32, cut.coalesced);
    }
}
