//! A local server that answers like the Hugging Face hub and records its requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use profiler::prompt::{Hub, Secret};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The commit of every file.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// The token for the hub, which must never be shown.
pub const TOKEN: &str = "hf_test_secret_value";

/// The answers for each path, in order. The last one repeats.
pub type Answers = HashMap<&'static str, Vec<Answer>>;

/// One answer.
#[derive(Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

#[derive(Default)]
struct Seen {
    /// Path and `Authorization` header of each request.
    requests: Vec<(String, Option<String>)>,
    /// Bytes of content sent.
    sent: usize,
    answers: Answers,
}

/// A running hub.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(answers: Answers) -> Self {
        let seen = Arc::new(Mutex::new(Seen {
            answers,
            ..Seen::default()
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, seen, task }
    }

    pub fn hub(&self, cache: &Path) -> Hub {
        Hub {
            endpoint: format!("http://{}", self.address).parse().unwrap(),
            cache: cache.to_owned(),
            token: Secret::new(TOKEN),
            offline: false,
            retry_pause: Duration::from_millis(1),
            patience: Duration::from_secs(30),
        }
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap()
            .requests
            .iter()
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Bytes of content sent so far.
    pub fn sent(&self) -> usize {
        self.seen.lock().unwrap().sent
    }

    pub fn tokens(&self) -> Vec<Option<String>> {
        self.seen
            .lock()
            .unwrap()
            .requests
            .iter()
            .map(|(_, token)| token.clone())
            .collect()
    }
}

async fn answer(State(seen): State<Arc<Mutex<Seen>>>, headers: HeaderMap, request: Request) -> Response {
    let mut seen = seen.lock().unwrap();
    let path = request.uri().path().to_owned();
    let token = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap().to_owned());
    seen.requests.push((path.clone(), token));
    let answer = match seen.answers.get_mut(path.as_str()) {
        Some(answers) if answers.len() > 1 => answers.remove(0),
        Some(answers) => answers[0].clone(),
        None => error(404, "EntryNotFound"),
    };
    let (status, body) = part(&headers, answer.status, answer.body);
    seen.sent += body.len();
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(body)).unwrap()
}

/// The part of the body that `Range: bytes=M-N` or `bytes=M-` requests.
fn part(headers: &HeaderMap, status: u16, body: Vec<u8>) -> (u16, Vec<u8>) {
    let range = headers.get("range").map(|range| range.to_str().unwrap());
    let Some((first, last)) = range
        .filter(|_| status == 200)
        .and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
    else {
        return (status, body);
    };
    let end = last
        .parse()
        .map_or(body.len(), |last: usize| (last + 1).min(body.len()));
    (206, body[first.parse().unwrap()..end].to_vec())
}

/// The digest by which the hub names large files.
pub fn digest(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A model with one weights file, and files that no engine loads.
pub fn model(weights: &[u8]) -> Answers {
    let name = |file: &str| match file {
        "config.json" => "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/config.json",
        _ => "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/model.safetensors",
    };
    let small = |name: &str, size: usize| json!({ "rfilename": name, "size": size, "blobId": "aaaaaaaaaaaa" });
    let large = |name: &str| json!({ "rfilename": name, "size": weights.len(), "lfs": { "sha256": digest(weights) } });
    let siblings = [
        small(".gitattributes", 5),
        small("README.md", 5),
        small("config.json", 2),
        large("consolidated.safetensors"),
        large("model.safetensors"),
        large("original/model.safetensors"),
        large("pytorch_model.bin"),
    ];
    let listing = Answer {
        status: 200,
        headers: Vec::new(),
        body: json!({ "sha": COMMIT, "siblings": siblings }).to_string().into(),
    };
    HashMap::from([
        ("/api/models/org/name/revision/main", vec![listing]),
        (name("config.json"), vec![file("aaaaaaaaaaaa", "{}")]),
        (name("model.safetensors"), vec![file(&digest(weights), weights)]),
    ])
}

/// A file of the model.
pub fn file(etag: &str, body: impl Into<Vec<u8>>) -> Answer {
    Answer {
        status: 200,
        headers: vec![("x-repo-commit", COMMIT.into()), ("etag", format!("\"{etag}\""))],
        body: body.into(),
    }
}

/// An error answer.
pub fn error(status: u16, code: &str) -> Answer {
    Answer {
        status,
        headers: vec![("x-error-code", code.into())],
        body: b"no".to_vec(),
    }
}
