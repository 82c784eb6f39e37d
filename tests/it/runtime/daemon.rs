//! A Docker daemon on a socket of the test, which gives scripted answers and records its requests.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Outcome, Profiler, temp};

/// Runs until dropped.
pub struct Daemon {
    folder: TempDir,
    asked: Asked,
    _runtime: tokio::runtime::Runtime,
}

/// `METHOD /path` without the version, and the body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

impl Daemon {
    /// Starts a daemon. `answers` maps `METHOD /path`, without the version, to a status and a body. A 404 falls back to
    /// a daemon's usual answer. The event that it gives comes again without end.
    pub fn new(answers: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static) -> Self {
        let folder = temp();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let asked = Asked::default();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::UnixListener::bind(folder.path().join("docker.sock")).unwrap()
        };
        let kept = Arc::clone(&asked);
        let respond = move |request: Request| respond(request, Arc::clone(&kept), answers.clone());
        runtime.spawn(axum::serve(listener, Router::new().fallback(respond)).into_future());
        Self {
            folder,
            asked,
            _runtime: runtime,
        }
    }

    /// The value of `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("docker.sock").display())
    }

    /// The bodies of all requests that start with `question`.
    pub fn asked(&self, question: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        let bodies = asked.iter().filter(|(asked, _)| asked.starts_with(question));
        bodies.map(|(_, body)| body.clone()).collect()
    }

    /// All requests, oldest first.
    pub fn questions(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|(asked, _)| asked.clone())
            .collect()
    }

    /// Runs a script against this daemon, with these arguments and permission for the images `engine` and `x`.
    pub fn run(&self, script: &str, args: &[&str]) -> Outcome {
        let program = Profiler::new().file("ask.rhai", script).args(["run", "ask.rhai"]);
        let program = program.args(["--allow", "image=engine,image=x"]);
        program.args(args).env("DOCKER_HOST", self.host()).run()
    }
}

/// An answer of the daemon with an error message.
pub fn message(status: u16, text: &str) -> (u16, Value) {
    (status, json!({"message": text}))
}

async fn respond(request: Request, kept: Asked, answers: impl Fn(&str) -> (u16, Value)) -> Response {
    let path = request.uri().path();
    let asked = format!("{} {}", request.method(), path.strip_prefix("/v1.41").unwrap_or(path));
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    kept.lock().unwrap().push((asked.clone(), body));
    let (status, body) = match (answers(&asked), usual(&asked)) {
        ((404, _), Some(usual)) => (200, usual),
        (answer, _) => answer,
    };
    let status = StatusCode::from_u16(status).unwrap();
    if asked == "GET /events" && status.is_success() {
        let event = futures_util::stream::repeat(Ok::<_, std::convert::Infallible>(format!("{body}\n")));
        return Body::from_stream(event).into_response();
    }
    if body.is_null() {
        status.into_response()
    } else {
        (status, axum::Json(body)).into_response()
    }
}

fn usual(asked: &str) -> Option<Value> {
    match asked {
        "GET /version" => Some(json!({"Version": "fake", "ApiVersion": "1.41"})),
        "GET /info" => Some(json!({"DockerRootDir": "/", "Runtimes": {}})),
        "GET /containers/json" | "GET /networks" => Some(json!([])),
        "POST /networks/create" => Some(json!({"Id": "network", "Warning": ""})),
        _ => None,
    }
}
