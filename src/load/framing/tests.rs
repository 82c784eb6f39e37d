use proptest::prelude::*;

use super::*;

fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
    read(Framing::Sse, chunks)
}

fn read(framing: Framing, chunks: &[&[u8]]) -> Vec<(String, String)> {
    let mut reader = EventReader::new(framing, Held::default());
    let mut seen = Vec::new();
    let mut keep = |name: &str, data: &str| seen.push((name.to_owned(), data.to_owned()));
    for chunk in chunks {
        reader.push(chunk, &mut keep).unwrap();
    }
    reader.finish(&mut keep).unwrap();
    seen
}

#[test]
fn lines_of_json_are_read_for_all_splits() {
    let text = "{\"a\":1}\n\r\n{\"b\":\"é\"}\n{\"c\":3}".as_bytes();
    for at in 0..text.len() {
        let seen = read(Framing::Ndjson, &[&text[..at], &text[at..]]);
        let data: Vec<_> = seen.iter().map(|(_, data)| data.as_str()).collect();
        assert_eq!(data, ["{\"a\":1}", "{\"b\":\"é\"}", "{\"c\":3}"], "split at {at}");
    }
}

fn data(text: &str) -> Vec<String> {
    events(&[text.as_bytes()]).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn reads_every_line_end() {
    assert_eq!(
        data("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n"),
        ["a", "b", "c", "d"]
    );
}

#[test]
fn accepts_values_with_and_without_leading_space() {
    assert_eq!(
        data("data:{\"a\":1}\n\ndata:  two blanks\n\n"),
        ["{\"a\":1}", " two blanks"]
    );
}

#[test]
fn joins_data_lines() {
    assert_eq!(data("data: a\ndata\ndata: b\n\n"), ["a\n\nb"]);
}

#[test]
fn skips_comments_keep_alives_and_unknown_fields() {
    assert_eq!(
        data(":\n\n: ping\n\nid: 3\nretry: 10\nfoo: bar\n\ndata: a\n: within\n\n"),
        ["a"]
    );
}

#[test]
fn an_empty_data_line_is_an_event_and_a_blank_line_is_not() {
    assert_eq!(data("data:\n\n\n\n\n"), [""]);
}

#[test]
fn returns_the_event_cut_off_by_the_end() {
    assert_eq!(data("data: a\n\ndata: b"), ["a", "b"]);
    assert_eq!(data("data: a\n\ndata: b\n"), ["a", "b"]);
}

#[test]
fn names_an_event_once() {
    let seen = events(&[b"event: error\ndata: x\n\ndata: y\n\nevent: error\n\n"]);
    let seen: Vec<_> = seen.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
    assert_eq!(seen, [("error", "x"), ("", "y"), ("error", "")]);
}

#[test]
fn joins_utf8_that_was_split_and_ignores_a_byte_order_mark() {
    let text = "\u{feff}data: \u{1f980}\n\n".as_bytes();
    for at in 0..text.len() {
        assert_eq!(events(&[&text[..at], &text[at..]])[0].1, "\u{1f980}", "split at {at}");
    }
}

#[test]
fn bounds_a_line_that_does_not_end() {
    let mut parser = EventReader::new(Framing::Sse, Held::default());
    let chunk = vec![b'x'; 1 << 20];
    let fault = (0..100).find_map(|_| parser.push(&chunk, |_, _| {}).err()).unwrap();
    assert!(fault.message.contains("64 MiB"), "{fault}");
}

#[test]
fn bounds_an_event_of_many_lines() {
    let mut parser = EventReader::new(Framing::Sse, Held::default());
    let mut line = b"data: ".to_vec();
    line.resize(1 << 20, b'x');
    line.push(b'\n');
    assert!((0..100).any(|_| parser.push(&line, |_, _| {}).is_err()));
}

proptest! {
    #[test]
    fn splitting_does_not_matter(
        parts in prop::collection::vec(
            prop::sample::select(vec!["data: a", "data:b", "data", ":c", "event: error", "é\u{1f980}", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n"]),
            0..40,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let text = parts.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(events(&chunks), events(&[&text]));
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>()) {
        let at = at.index(bytes.len() + 1);
        prop_assert_eq!(events(&[&bytes[..at], &bytes[at..]]), events(&[&bytes]));
    }
}

/// Events that never end are bounded for all streams together; what a stream held is free for the others when it ends.
#[test]
fn what_all_streams_hold_is_bounded() {
    let held = Held::default();
    let chunk = vec![b'x'; 1 << 20];
    let fill = |reader: &mut EventReader, chunks: usize| {
        (0..chunks).try_for_each(|_| reader.push(&chunk, |_, _| unreachable!("there is no line end")))
    };
    let mut streams: Vec<EventReader> = (0..64).map(|_| EventReader::new(Framing::Sse, held.clone())).collect();
    let fault = streams.iter_mut().try_for_each(|stream| fill(stream, 16)).unwrap_err();
    assert!(fault.message.contains("more than 256 MiB together"), "{fault}");
    drop(streams);
    let mut long = EventReader::new(Framing::Sse, held.clone());
    fill(&mut long, 32).unwrap();
    long.push(b"\n", |_, _| {}).unwrap();
    assert!(
        held.0.load(Ordering::Relaxed) < 1 << 20,
        "a long line is freed at its end"
    );
}
