//! HTTP requests of an adapter's `ready` function to its engine.

use std::time::Duration;

use rhai::Dynamic;
use serde::Serialize;

use crate::fault::{Fault, Result};
use crate::http;
use crate::task::Tasks;

/// Longer responses are truncated: health and information pages are small.
const MAX_BODY: usize = 1 << 20;

/// Timeout of one request. `ready` is called repeatedly.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// An engine's server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    base: String,
    client: reqwest::Client,
    /// Argument of the adapter's `launch(options)`.
    pub(super) options: Dynamic,
}

/// An HTTP response.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// HTTP status; 0 if there was no response.
    status: u16,
    /// Response text; without a response, the reason.
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

    pub(super) fn get(&self, tasks: &Tasks, path: &str) -> Result<Answer> {
        tasks.wait(self.send(self.client.get(self.url(path)?)))
    }

    /// `POST path` with a JSON body and its own timeout.
    pub(super) fn post(
        &self,
        tasks: &Tasks,
        path: &str,
        body: &serde_json::Value,
        timeout: Duration,
    ) -> Result<Answer> {
        tasks.wait(self.send(self.client.post(self.url(path)?).json(body).timeout(timeout)))
    }

    /// Appends the path. It must start with `/`, so that only this server can be reached: not `//other` or `@other`.
    fn url(&self, path: &str) -> Result<String> {
        if path.starts_with('/') {
            Ok(format!("{}{path}", self.base))
        } else {
            Err(Fault::usage(format!("the path `{path}` does not begin with `/`")))
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        Ok(match fetch(request).await {
            Ok(answer) => answer,
            // A starting server refuses connections: `ready` must see that, so it is not a fault.
            Err(error) => Answer {
                status: 0,
                body: http::root(&error),
            },
        })
    }
}

async fn fetch(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
    let mut response = request.send().await?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            body.truncate(MAX_BODY);
            break;
        }
    }
    Ok(Answer {
        status,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
