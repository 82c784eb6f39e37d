//! The TLS server that a user's load reaches: it writes, and then waits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The certificate that a client must trust, relative to the root of the repository.
pub const CERTIFICATE: &str = "tests/data/tls/certificate.pem";

/// Answers every request with these parts, with a pause after each. Returns the URL.
pub fn server(parts: Vec<String>, pause: Duration) -> String {
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_file("tests/data/tls/key.pem").unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}/v1/completions", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let parts = parts.clone();
            std::thread::spawn(move || converse(StreamOwned::new(session, stream), &parts, pause));
        }
    });
    url
}

/// Serves a connection until the client closes it.
fn converse(stream: impl Read + Write, parts: &[String], pause: Duration) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().ok()?;
            }
        }
        stream.read_exact(&mut vec![0; length]).ok()?;
        for part in parts {
            stream.get_mut().write_all(part.as_bytes()).ok()?;
            stream.get_mut().flush().ok()?;
            std::thread::sleep(pause);
        }
    }
}
