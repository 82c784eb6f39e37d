//! A user attaches to a server that is no engine: the bytes that it sends, and how a load reports them.

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt::Linger};
use serde_json::json;

use super::finished;
use crate::support::Profiler;
use crate::support::scripted::read_request;

/// The end of an answer.
#[derive(Clone, Copy)]
enum End {
    /// The connection stays open.
    Stays,
    /// The connection is closed in order.
    Closes,
    /// The connection is reset.
    Resets,
}

const EVENTS: [&str; 4] = [
    r#"{"choices":[{"text":" a"}]}"#,
    r#"{"choices":[{"text":" b","finish_reason":"length"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
    "[DONE]",
];

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The first `events` events, in chunks.
fn chunks(events: usize) -> String {
    let chunk = |event: &&str| format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8);
    EVENTS[..events].iter().map(chunk).collect()
}

/// Serves a model list and completions. Every fourth completion is `answer`, with `pause` between its bytes.
fn serve(answer: &str, end: End, pause: Duration) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, asked) = (Arc::new(answer.to_owned()), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
            std::thread::spawn(move || converse(stream, &answer, end, pause, &asked));
        }
    });
    url
}

fn converse(mut stream: TcpStream, answer: &str, end: End, pause: Duration, asked: &AtomicU64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (head, _) = read_request(&mut reader)?;
        if head.starts_with("GET") {
            let models = r#"{"data":[{"id":"m","max_model_len":4096}]}"#;
            let found = head.starts_with("GET /v1/models");
            let (status, body) = if found {
                ("200 OK", models)
            } else {
                ("404 Not Found", "")
            };
            let whole = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(whole.as_bytes()).ok()?;
            continue;
        }
        if !(asked.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(4) {
            let good = format!("{HEAD}{}0\r\n\r\n", chunks(4));
            stream.write_all(good.as_bytes()).ok()?;
            continue;
        }
        if pause.is_zero() {
            stream.write_all(answer.as_bytes()).ok()?;
        } else {
            for byte in answer.bytes() {
                stream.write_all(&[byte]).ok()?;
                std::thread::sleep(pause);
            }
        }
        match end {
            End::Stays => {}
            End::Closes => {
                stream.shutdown(Shutdown::Both).ok()?;
                return None;
            }
            End::Resets => {
                // Gives the sent bytes time to arrive before the reset.
                std::thread::sleep(Duration::from_millis(50));
                let at_once = linger {
                    l_onoff: 1,
                    l_linger: 0,
                };
                setsockopt(&stream, Linger, &at_once).ok()?;
                return None;
            }
        }
    }
}

/// Sends 20 requests, of which every fourth gets `answer`. Fails unless these fail in this form with this message, and
/// the others complete.
#[track_caller]
fn fails(answer: &str, end: End, form: &str, said: &str) {
    let url = serve(answer, end, Duration::ZERO);
    let text = format!(
        "import \"std/engines\" as engines;
        engines::attach(\"openai\", #{{ url: \"{url}\" }}).load(#{{ concurrency: 2, requests: 20, input: 3, output: 2, timeout: 20 }})"
    );
    let load = finished(Profiler::new().file("main.rhai", text), &["--allow", "net=127.0.0.1"]);
    assert_eq!(load.counts(), [20, 15, 5, 0], "{}", load.answer);
    let failure = &load.answer["failures"][form];
    assert_eq!(failure["count"], json!(5), "{}", load.answer["failures"]);
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains(said), "{message}");
    assert!(load.answer["ttft_ms"]["mean"].is_number(), "{}", load.answer);
    assert_eq!(load.measured().count(), 20);
    assert!(
        load.outcome
            .stderr
            .contains(&format!("5 of 20 requests failed: 5 `{form}`"))
    );
}

#[test]
fn a_reset_within_an_answer() {
    let answer = format!("{HEAD}{}", chunks(1));
    fails(&answer, End::Resets, "broken", "reset by peer");
}

#[test]
fn a_connection_that_is_closed_after_the_head() {
    fails(
        HEAD,
        End::Closes,
        "broken",
        "the connection was closed during the response",
    );
}

#[test]
fn a_connection_that_is_closed_within_a_chunk() {
    let chunks = chunks(2);
    let answer = format!("{HEAD}{}", &chunks[..chunks.len() - 20]);
    fails(
        &answer,
        End::Closes,
        "broken",
        "the connection was closed during the response",
    );
}

#[test]
fn a_page_of_status_200() {
    let page = "<html>\n<h1>It works</h1>\n</html>";
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
        page.len()
    );
    let said = "not an event stream; it begins with `<html> <h1>It works</h1> </html>`";
    fails(&format!("{head}{page}"), End::Stays, "malformed", said);
}

#[test]
fn an_error_of_status_200_that_is_no_stream() {
    let body = r#"{"error":{"message":"upstream is gone"}}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    fails(&format!("{head}{body}"), End::Stays, "in_stream", "upstream is gone");
}

#[test]
fn a_redirection_is_not_followed() {
    let answer = "HTTP/1.1 307 Temporary Redirect\r\nlocation: https://there.example/\r\ncontent-length: 0\r\n\r\n";
    fails(
        answer,
        End::Stays,
        "status_307",
        "redirected to `https://there.example/`",
    );
}

#[test]
fn a_status_without_a_word() {
    let answer = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
    fails(answer, End::Stays, "status_502", "502 Bad Gateway with an empty body");
}

#[test]
fn what_is_no_http() {
    fails("SSH-2.0-OpenSSH_9.6\r\n\r\n", End::Closes, "malformed", "not HTTP/1.1");
}

#[test]
fn a_stream_that_trickles_is_read_to_its_end() {
    let answer = format!("{HEAD}{}0\r\n\r\n", chunks(4));
    let url = serve(&answer, End::Stays, Duration::from_micros(200));
    let text = format!(
        "import \"std/engines\" as engines;
        engines::attach(\"openai\", #{{ url: \"{url}\" }}).load(#{{ concurrency: 2, requests: 12, input: 3, output: 2 }})"
    );
    let load = finished(Profiler::new().file("main.rhai", text), &["--allow", "net=127.0.0.1"]);
    assert_eq!(load.counts(), [12, 12, 0, 0], "{}", load.answer);
}
