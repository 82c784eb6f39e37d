use proptest::prelude::*;

use super::*;

/// Status, body, done, reusable; or the error.
type Seen = Result<(Option<u16>, Vec<u8>, bool, bool), InvalidResponse>;

fn read(parts: &[&[u8]]) -> Seen {
    let mut response = Response::new();
    let mut body = Vec::new();
    for part in parts {
        response.push(part, |_, bytes| body.extend_from_slice(bytes))?;
    }
    Ok((response.status(), body, response.done(), response.reusable()))
}

fn whole(text: &str) -> (Option<u16>, String, bool, bool) {
    let (status, body, done, reusable) = read(&[text.as_bytes()]).unwrap();
    (status, String::from_utf8(body).unwrap(), done, reusable)
}

#[test]
fn body_with_content_length() {
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(whole(text), (Some(200), "hello".into(), true, true));
    assert_eq!(whole(&text[..text.len() - 1]), (Some(200), "hell".into(), false, false));
    assert_eq!(whole(&format!("{text}!")), (Some(200), "hello".into(), true, false));
    assert_eq!(
        whole("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
        (Some(503), String::new(), true, true)
    );
}

#[test]
fn chunk_extensions_and_trailers_are_skipped() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n\
        3;name=\"a b\"\r\nabc\r\n00A \r\n0123456789\r\n0;last\r\nExpires: never\r\n\r\n";
    assert_eq!(whole(text), (Some(200), "abc0123456789".into(), true, true));
}

#[test]
fn informational_heads_are_skipped() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    assert_eq!(whole(text), (Some(200), "ok".into(), true, true));
}

#[test]
fn body_without_length_ends_at_close() {
    let mut response = Response::new();
    let mut body = Vec::new();
    response
        .push(b"HTTP/1.1 200 OK\r\n\r\nda", |_, bytes| body.extend_from_slice(bytes))
        .unwrap();
    assert!(!response.done() && response.close() && !response.reusable());
    assert_eq!(body, b"da");
}

#[test]
fn connection_reuse_follows_the_headers() {
    let reusable = |version: &str, field: &str| {
        whole(&format!(
            "HTTP/{version} 200 OK\r\ncontent-length: 0\r\n{field}\r\n\r\n"
        ))
        .3
    };
    assert!(reusable("1.1", "x: y") && !reusable("1.1", "Connection: close"));
    assert!(!reusable("1.0", "x: y") && reusable("1.0", "connection: Keep-Alive"));
    assert!(!reusable("1.1", "connection: x, CLOSE"));
}

#[test]
fn truncated_response_is_not_complete() {
    for text in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
    ] {
        let mut response = Response::new();
        response.push(text.as_bytes(), |_, _| {}).unwrap();
        assert!(!response.close(), "{text}");
    }
}

#[test]
fn invalid_response_is_an_error() {
    let wrong = |text: &str| read(&[text.as_bytes()]).unwrap_err().0;
    assert!(wrong("SSH-2.0-OpenSSH_9.6\r\n\r\n").contains("not HTTP/1.1"));
    assert!(wrong("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ndata: x").contains("not chunked"));
    assert!(
        wrong("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n").contains("not chunked")
    );
    assert!(wrong("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").contains("`x`"));
    assert!(wrong("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").contains("`gzip`"));
    assert!(wrong(&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(70_000))).contains("64 KiB"));
}

/// A response with one of the usual framings.
fn responses() -> impl Strategy<Value = Vec<u8>> {
    let heads = prop::collection::vec(
        prop::sample::select(vec![
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 102 Processing\r\na: b\r\n\r\n",
        ]),
        0..3,
    );
    let parts = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6);
    let form = 0..3;
    (heads, parts, form, "[a-z;=]{0,8}", any::<bool>()).prop_map(|(heads, parts, form, extension, trailer)| {
        let mut text = heads.concat().into_bytes();
        let body = parts.concat();
        match form {
            0 => {
                text.extend(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).bytes());
                text.extend(body);
            }
            1 => {
                text.extend(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                text.extend(body);
            }
            _ => {
                text.extend(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for part in parts {
                    text.extend(format!("{:x};{extension}\r\n", part.len()).bytes());
                    text.extend(part);
                    text.extend(b"\r\n");
                }
                text.extend(if trailer {
                    &b"0\r\nDate: now\r\n\r\n"[..]
                } else {
                    b"0\r\n\r\n"
                });
            }
        }
        text
    })
}

fn cut<'a>(text: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn splitting_does_not_matter(text in responses(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let seen = read(&cut(&text, &cuts)).unwrap();
        prop_assert_eq!(&seen, &read(&[&text]).unwrap());
        let bytewise: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(&seen, &read(&bytewise).unwrap());
    }

    #[test]
    fn invalid_bytes_give_the_same_result_for_all_splits(
        tail in prop::collection::vec(any::<u8>(), 0..300),
        chunked in any::<bool>(),
        at in any::<prop::sample::Index>(),
    ) {
        let head: &[u8] = if chunked { b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" } else { b"HTTP/1.1 2" };
        let text = [head, &tail].concat();
        prop_assert_eq!(read(&cut(&text, &[at])), read(&[&text]));
    }
}
