//! The server that a user's load reaches in these tests: it sends exactly what a test wants, byte by byte.

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::scripted::read_request;

/// A step of an answer.
#[derive(Clone)]
pub enum Act {
    Write(String),
    /// Sends the text one byte at a time.
    Trickle(String),
    Wait(Duration),
    /// Closes the connection.
    Close,
}

/// The steps of the answer to a request; requests are numbered from 0 over all connections.
pub type Answer = Arc<dyn Fn(u64) -> Vec<Act> + Send + Sync>;

pub struct Server {
    pub url: String,
    pub connections: Arc<AtomicU64>,
    /// Heads and bodies as received.
    pub requests: Arc<Mutex<Vec<String>>>,
}

pub fn server(answer: impl Fn(u64) -> Vec<Act> + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let served = Server {
        url: format!("http://{}/v1/completions", listener.local_addr().unwrap()),
        connections: Arc::default(),
        requests: Arc::default(),
    };
    let (connections, requests) = (Arc::clone(&served.connections), Arc::clone(&served.requests));
    let answer: Answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            connections.fetch_add(1, Ordering::Relaxed);
            let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
            std::thread::spawn(move || converse(stream, &answer, &requests));
        }
    });
    served
}

fn converse(mut stream: TcpStream, answer: &Answer, requests: &Mutex<Vec<String>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (head, body) = read_request(&mut reader)?;
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(head + &*String::from_utf8_lossy(&body));
            requests.len() as u64 - 1
        };
        for act in answer(number) {
            match act {
                Act::Write(text) => stream.write_all(text.as_bytes()).ok()?,
                Act::Trickle(text) => {
                    for byte in text.bytes() {
                        stream.write_all(&[byte]).ok()?;
                    }
                }
                Act::Wait(time) => std::thread::sleep(time),
                Act::Close => {
                    stream.shutdown(std::net::Shutdown::Both).ok()?;
                    return None;
                }
            }
        }
    }
}

/// The head of a response and its events in chunks, without the final chunk.
pub fn streamed(events: &[&str]) -> String {
    let chunks: String = events
        .iter()
        .map(|event| {
            let event = format!("data: {event}\n\n");
            format!("{:x}\r\n{event}\r\n", event.len())
        })
        .collect();
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
}

pub const TOKEN: &str = r#"{"choices":[{"text":" a"}]}"#;
pub const LAST: &str = r#"{"choices":[{"text":" b","finish_reason":"length"}]}"#;
pub const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;

/// A complete answer of two tokens.
pub fn good() -> String {
    streamed(&[TOKEN, LAST, USAGE, "[DONE]"]) + "0\r\n\r\n"
}
