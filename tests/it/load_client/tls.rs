//! The TLS server that a user's load reaches: it writes, and then waits.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use crate::support::scripted::{accepted, read_request, tls};

/// The certificate that a client must trust, relative to the root of the repository.
pub const CERTIFICATE: &str = "tests/data/tls/certificate.pem";

/// Answers every request with these parts, with a pause after each. Returns the URL.
pub fn server(parts: Vec<String>, pause: Duration) -> String {
    let config = tls(CERTIFICATE, "tests/data/tls/key.pem");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}/v1/completions", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (stream, parts) = (accepted(&config, stream), parts.clone());
            std::thread::spawn(move || converse(stream, &parts, pause));
        }
    });
    url
}

/// Serves a connection until the client closes it.
fn converse(stream: impl Read + Write, parts: &[String], pause: Duration) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        read_request(&mut stream)?;
        for part in parts {
            stream.get_mut().write_all(part.as_bytes()).ok()?;
            stream.get_mut().flush().ok()?;
            std::thread::sleep(pause);
        }
    }
}
