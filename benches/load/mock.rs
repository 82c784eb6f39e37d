//! A server that streams on a known schedule and timestamps every write, as the reference for a client's timestamps.
//!
//! It sends the first token 50 ms after reading the request and the others at a fixed gap, for chat and completions,
//! with usage if requested. It has one thread, one loop and prebuilt chunks, because it shares the machine with the
//! client under measurement. `GET /report` returns all timestamps so far and clears them.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use serde_json::{Value, json};

use crate::clock::monotonic;

/// Time from a request to its first token.
pub const FIRST: Duration = Duration::from_millis(50);

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Serves until the process is killed. Prints its address. With a `bundle` above 1, each event carries so many tokens and
/// counts those so far.
pub fn serve(gap: Duration, bundle: u64) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // The standard library sets a backlog of 128 connections, too few for clients that open all of theirs at once.
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(4096).unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    // Independent of the machine's default: BBR paces each write with a timer, which doubles the cost of a write.
    // Connections inherit the setting.
    let _kept_where_unknown = setsockopt(&listener, TcpCongestion, &OsString::from("cubic"));
    println!("http://{}", listener.local_addr().unwrap());
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).unwrap();
    epoll
        .add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))
        .unwrap();
    epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER)).unwrap();
    let mut mock = Mock {
        epoll,
        lines: HashMap::new(),
        next_line: 0,
        firsts: VecDeque::new(),
        others: VecDeque::new(),
        gap,
        bundle,
        log: Vec::new(),
        shapes: [Shape::new(false), Shape::new(true)],
    };
    let mut events = vec![EpollEvent::empty(); 256];
    loop {
        mock.write_due();
        let next = mock.next_due();
        let timeout = match next.map(|due| due.saturating_sub(monotonic())) {
            None => EpollTimeout::NONE,
            Some(Duration::ZERO) => EpollTimeout::ZERO,
            Some(wait) => {
                let once = Expiration::OneShot(TimeSpec::from(wait));
                timer.set(once, TimerSetTimeFlags::empty()).unwrap();
                EpollTimeout::NONE
            }
        };
        let count = mock.epoll.wait(&mut events, timeout).unwrap_or(0);
        for event in &events[..count] {
            match event.data() {
                LISTENER => mock.accept(&listener),
                TIMER => drop(timer.wait()),
                line => mock.read(line),
            }
        }
    }
}

/// The prebuilt bytes of one kind of answer.
struct Shape {
    first: Vec<u8>,
    middle: Vec<u8>,
    last: Vec<u8>,
}

impl Shape {
    fn new(chat: bool) -> Self {
        let mut first = HEAD.as_bytes().to_vec();
        if chat {
            first.extend(chunk(&event(chat, json!({ "role": "assistant", "content": "" }), None)));
        }
        let middle = chunk(&event(chat, json!({ "content": " tok" }), None));
        first.extend(&middle);
        Self {
            first,
            middle,
            last: chunk(&event(chat, json!({ "content": " tok" }), Some("length"))),
        }
    }
}

fn event(chat: bool, delta: Value, finish: Option<&str>) -> String {
    let (object, mut choice) = if chat {
        ("chat.completion.chunk", json!({ "index": 0, "delta": delta }))
    } else {
        ("text_completion", json!({ "index": 0, "text": delta["content"] }))
    };
    choice["logprobs"] = Value::Null;
    choice["finish_reason"] = json!(finish);
    let body = json!({ "id": "cmpl-00000000", "object": object, "created": 1_795_186_594, "model": "mock", "choices": [choice] });
    format!("data: {body}\n\n")
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// An answer in progress.
struct Stream {
    id: String,
    chat: bool,
    usage: Option<u64>,
    tokens: u64,
    /// Events so far.
    written: u64,
    due: Duration,
    read: Duration,
    stamps: Vec<Duration>,
}

struct Line {
    socket: TcpStream,
    input: Vec<u8>,
    stream: Option<Stream>,
}

struct Mock {
    epoll: Epoll,
    lines: HashMap<u64, Line>,
    next_line: u64,
    // Both are sorted by time, because every entry of a queue waits equally long.
    firsts: VecDeque<(Duration, u64)>,
    others: VecDeque<(Duration, u64)>,
    gap: Duration,
    bundle: u64,
    log: Vec<Stream>,
    shapes: [Shape; 2],
}

impl Mock {
    fn next_due(&self) -> Option<Duration> {
        let fronts = [self.firsts.front(), self.others.front()];
        fronts.into_iter().flatten().map(|(due, _)| *due).min()
    }

    fn accept(&mut self, listener: &TcpListener) {
        while let Ok((socket, _)) = listener.accept() {
            socket.set_nonblocking(true).unwrap();
            socket.set_nodelay(true).unwrap();
            let number = self.next_line;
            self.next_line += 1;
            self.epoll
                .add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number))
                .unwrap();
            let input = Vec::new();
            self.lines.insert(
                number,
                Line {
                    socket,
                    input,
                    stream: None,
                },
            );
        }
    }

    fn write_due(&mut self) {
        let now = monotonic();
        for first in [true, false] {
            loop {
                let queue = if first { &mut self.firsts } else { &mut self.others };
                match queue.front() {
                    Some((due, _)) if *due <= now => {}
                    _ => break,
                }
                let Some((due, number)) = queue.pop_front() else { break };
                self.write(number, due);
            }
        }
    }

    fn write(&mut self, number: u64, due: Duration) {
        let Some(line) = self.lines.get_mut(&number) else {
            return;
        };
        let Some(stream) = &mut line.stream else { return };
        let shape = &self.shapes[usize::from(stream.chat)];
        stream.written += 1;
        let end = stream.written * self.bundle == stream.tokens;
        let last;
        let bytes = if self.bundle > 1 {
            last = Self::bundled(stream, self.bundle, end);
            &last
        } else if end {
            last = Self::last(shape, stream);
            &last
        } else if stream.written == 1 {
            &shape.first
        } else {
            &shape.middle
        };
        let now = monotonic();
        stream.stamps.push(now);
        if line.socket.write_all(bytes).is_err() {
            self.lines.remove(&number);
            return;
        }
        if end {
            self.log.extend(line.stream.take());
        } else {
            let next = due + self.gap;
            stream.due = next;
            self.others.push_back((next, number));
        }
    }

    /// The next event of several tokens, with their count so far, and the end after the last one.
    fn bundled(stream: &Stream, bundle: u64, end: bool) -> Vec<u8> {
        let mut bytes = if stream.written == 1 {
            HEAD.as_bytes().to_vec()
        } else {
            Vec::new()
        };
        let count = stream.written * bundle;
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1 });
        let text = " tok".repeat(usize::try_from(bundle).unwrap());
        let choice = json!({ "index": 0, "delta": { "content": text }, "finish_reason": end.then_some("length") });
        let body = json!({ "object": "chat.completion.chunk", "model": "mock", "choices": [choice], "usage": usage });
        bytes.extend(chunk(&format!("data: {body}\n\n")));
        if end {
            bytes.extend(chunk("data: [DONE]\n\n"));
            bytes.extend(b"0\r\n\r\n");
        }
        bytes
    }

    fn last(shape: &Shape, stream: &Stream) -> Vec<u8> {
        let mut bytes = if stream.tokens == 1 {
            shape.first.clone()
        } else {
            Vec::new()
        };
        bytes.extend(&shape.last);
        if let Some(input) = stream.usage {
            let usage = json!({ "prompt_tokens": input, "completion_tokens": stream.tokens, "total_tokens": input + stream.tokens });
            let object = if stream.chat {
                "chat.completion.chunk"
            } else {
                "text_completion"
            };
            let body = json!({ "id": "cmpl-00000000", "object": object, "created": 1_795_186_594, "model": "mock", "choices": [], "usage": usage });
            bytes.extend(chunk(&format!("data: {body}\n\n")));
        }
        bytes.extend(chunk("data: [DONE]\n\n"));
        bytes.extend(b"0\r\n\r\n");
        bytes
    }

    fn read(&mut self, number: u64) {
        let Some(line) = self.lines.get_mut(&number) else {
            return;
        };
        let mut buffer = [0; 16 << 10];
        match line.socket.read(&mut buffer) {
            Ok(0) => drop(self.lines.remove(&number)),
            Ok(length) => {
                let at = monotonic();
                line.input.extend_from_slice(&buffer[..length]);
                self.take_request(number, at);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => drop(self.lines.remove(&number)),
        }
    }

    fn take_request(&mut self, number: u64, at: Duration) {
        let Some(line) = self.lines.get_mut(&number) else {
            return;
        };
        let Some(head) = line
            .input
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .map(|at| at + 4)
        else {
            return;
        };
        let text = String::from_utf8_lossy(&line.input[..head]).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|field| field.strip_prefix("content-length:")?.trim().parse().ok())
            .unwrap_or(0);
        if line.input.len() < head + length {
            return;
        }
        let body: Value = serde_json::from_slice(&line.input[head..head + length]).unwrap_or_default();
        line.input.clear();
        if text.starts_with("post /v1/chat/completions") || text.starts_with("post /v1/completions") {
            let tokens = ["max_tokens", "max_completion_tokens"]
                .iter()
                .find_map(|name| body[*name].as_u64())
                .unwrap_or(100);
            let words = |text: &Value| text.as_str().map_or(1, |text| text.split(' ').count() as u64);
            let asked = body["stream_options"]["include_usage"] == true;
            line.stream = Some(Stream {
                id: body["user"].as_str().unwrap_or_default().to_owned(),
                chat: text.contains("/chat/"),
                usage: asked.then(|| words(&body["prompt"])),
                tokens,
                written: 0,
                due: at + FIRST,
                read: at,
                stamps: Vec::with_capacity(usize::try_from(tokens).unwrap()),
            });
            self.firsts.push_back((at + FIRST, number));
            return;
        }
        let (status, page) = if text.starts_with("get /report") {
            ("200 OK", report(std::mem::take(&mut self.log)))
        } else if ["get /v1/models", "get /health"]
            .iter()
            .any(|page| text.starts_with(page))
        {
            let model = json!({ "id": "mock", "object": "model", "max_model_len": 32768 });
            ("200 OK", json!({ "object": "list", "data": [model] }))
        } else {
            ("404 Not Found", json!({ "error": "no such page" }))
        };
        let page = page.to_string();
        let length = page.len();
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{page}");
        line.socket.set_nonblocking(false).unwrap();
        line.socket.write_all(answer.as_bytes()).unwrap();
        line.socket.set_nonblocking(true).unwrap();
    }
}

/// For each stream: its id, when its request was read, and when each token was written, in nanoseconds.
fn report(log: Vec<Stream>) -> Value {
    let nanos = |at: &Duration| u64::try_from(at.as_nanos()).unwrap();
    let streams = log.iter().map(|stream| {
        json!([
            stream.id,
            nanos(&stream.read),
            stream.stamps.iter().map(nanos).collect::<Vec<_>>()
        ])
    });
    Value::Array(streams.collect())
}
