//! Servers with scripted answers, over TCP or TLS, with arbitrary headers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// A request as received.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub body: Value,
    /// Number of earlier requests, to any path.
    pub before: usize,
}

impl Asked {
    /// True if the request generates text.
    pub fn generates(&self) -> bool {
        self.path.ends_with("completions")
    }
}

/// A server that runs until the test process exits.
pub struct Scripted {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

type Answer = dyn Fn(&Asked) -> String + Send + Sync;

impl Scripted {
    /// Serves over TCP.
    pub fn start(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(answer))
    }

    /// Serves over TLS, with a self-signed certificate as made by `openssl req -x509`.
    pub fn self_signed(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        let tls = tls(SELF_SIGNED, "tests/data/tls/self-signed-key.pem");
        Self::serve(Some(tls), Arc::new(answer))
    }

    fn serve(tls: Option<Arc<ServerConfig>>, answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tls, answer, seen) = (tls.clone(), Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || match tls {
                    Some(config) => converse(accepted(&config, stream), answer.as_ref(), &seen),
                    None => converse(stream, answer.as_ref(), &seen),
                });
            }
        });
        Self { url, asked }
    }

    /// The requests so far that match `of_interest`.
    pub fn asked(&self, of_interest: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let all = self.asked.lock().unwrap();
        all.iter().filter(|asked| of_interest(asked)).cloned().collect()
    }
}

/// The path of the self-signed certificate, relative to the root of the repository.
pub const SELF_SIGNED: &str = "tests/data/tls/self-signed.pem";

/// A server's side of TLS with this certificate and key, paths relative to the root of the repository.
pub fn tls(certificate: &str, key: &str) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

/// A connection over TLS.
pub fn accepted(tls: &Arc<ServerConfig>, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(Arc::clone(tls)).unwrap(), stream)
}

/// Reads the head and the body of the next request; `None` if the client disconnected.
pub fn read_request(stream: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begun = head.len();
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if let Some(value) = head[begun..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Answers requests until the client disconnects.
fn converse(stream: impl Read + Write, answer: &Answer, seen: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (head, body) = read_request(&mut stream)?;
        let asked = {
            let mut seen = seen.lock().unwrap();
            let asked = Asked {
                path: head.split(' ').nth(1)?.to_owned(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
                before: seen.len(),
            };
            seen.push(asked.clone());
            asked
        };
        stream.get_mut().write_all(answer(&asked).as_bytes()).ok()?;
        stream.get_mut().flush().ok()?;
    }
}

/// A complete HTTP answer. `head` holds further header lines, each with its line end.
pub fn answer(status: u16, head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\n{head}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The answers of a healthy OpenAI server: a list of one model, and completions of token ids.
pub fn healthy(asked: &Asked) -> String {
    match asked.path.as_str() {
        "/v1/models" => answer(200, "", r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#),
        "/v1/completions" => {
            let input = asked.body["prompt"].as_array().map_or(0, Vec::len);
            let output = asked.body["max_tokens"].as_u64().unwrap_or_default();
            let text = json!({ "choices": [{ "index": 0, "text": "word ".repeat(usize::try_from(output).unwrap()), "finish_reason": "length" }] });
            let usage = json!({ "choices": [], "usage": { "prompt_tokens": input, "completion_tokens": output } });
            answer(
                200,
                "content-type: text/event-stream\r\n",
                &format!("data: {text}\n\ndata: {usage}\n\ndata: [DONE]\n\n"),
            )
        }
        _ => answer(404, "", r#"{"detail":"Not Found"}"#),
    }
}
