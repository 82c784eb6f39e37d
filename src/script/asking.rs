//! The server that an adapter's `ready` looks at.

use std::time::Duration;

use rhai::Dynamic;
use serde::Serialize;

use crate::fault::{Fault, Result};
use crate::http;
use crate::task::Tasks;

/// Larger answers are cut: health and information pages are small.
const LARGEST: usize = 1 << 20;

/// How long one request may take: `ready` is asked again soon.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A server by its base URL.
#[derive(Clone, Debug)]
pub(super) struct Server {
    base: String,
    client: reqwest::Client,
    /// What `launch(options)` got.
    pub(super) options: Dynamic,
}

/// What it answered.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The HTTP status; 0 when there was no answer.
    status: u16,
    /// The text; without an answer, why there was none.
    body: String,
}

impl Server {
    /// The server at `base`, `http://127.0.0.1:8000`.
    pub(super) fn new(base: &str, client: reqwest::Client, options: Dynamic) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            client,
            options,
        }
    }

    /// `GET path`.
    pub(super) fn get(&self, tasks: &Tasks, path: &str) -> Result<Answer> {
        tasks.wait(self.ask(self.client.get(self.url(path)?)))
    }

    /// `POST path` with a JSON body; it may take so long.
    pub(super) fn post(
        &self,
        tasks: &Tasks,
        path: &str,
        body: &serde_json::Value,
        patience: Duration,
    ) -> Result<Answer> {
        tasks.wait(self.ask(self.client.post(self.url(path)?).json(body).timeout(patience)))
    }

    /// Only this server can be asked: `//other` and `@other` lead nowhere else.
    fn url(&self, path: &str) -> Result<String> {
        if path.starts_with('/') {
            Ok(format!("{}{path}", self.base))
        } else {
            Err(Fault::usage(format!("the path `{path}` does not begin with `/`")))
        }
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        Ok(match answer(request).await {
            Ok(answer) => answer,
            // A server that is still starting refuses connections: that is an answer to `ready`, not a fault.
            Err(error) => Answer {
                status: 0,
                body: http::root(&error),
            },
        })
    }
}

async fn answer(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
    let mut response = request.send().await?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > LARGEST {
            body.truncate(LARGEST);
            break;
        }
    }
    Ok(Answer {
        status,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
