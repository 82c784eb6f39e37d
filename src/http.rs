//! HTTP clients: installs the TLS provider once, and keeps proxies away from engines.
//!
//! Requests and their meaning belong to the modules that send them.

use std::fmt;
use std::sync::Once;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, RequestBuilder, Response};

use crate::fault::{Fault, Result};
use crate::world;

pub(crate) const USER_AGENT: &str = concat!("profiler/", env!("CARGO_PKG_VERSION"));

/// A client for the internet. It honours the proxy variables of the environment.
pub fn external() -> ClientBuilder {
    // reqwest is built without a TLS provider and panics if none is installed. One installed earlier works too.
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().user_agent(USER_AGENT)
}

/// A client for engines. It uses no proxy, which would distort timings and cannot reach loopback addresses. It follows no
/// redirect, which could lead to an address that the user did not allow.
pub fn direct() -> ClientBuilder {
    external().no_proxy().redirect(Policy::none())
}

/// The same for one server that wants an API key. All its requests go to that server.
pub fn direct_with(key: Option<&ApiKey>) -> ClientBuilder {
    let headers = key.map(|key| (AUTHORIZATION, key.0.clone()));
    direct().default_headers(HeaderMap::from_iter(headers))
}

/// An API key as the header `Authorization` carries it. Shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(HeaderValue);

impl ApiKey {
    /// `None` if a header cannot carry the key.
    #[must_use]
    pub fn new(key: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
        value.set_sensitive(true);
        value.to_str().is_ok().then_some(Self(value))
    }

    /// The value of the header.
    #[must_use]
    pub fn header(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

/// Most bytes of a page of an engine, such as its metrics. Those of vLLM with a hundred workers are a few MiB.
pub const MAX_PAGE: usize = 16 << 20;

/// The beginning of a response's body, at most `most` bytes, and whether there was more. Invalid UTF-8 is replaced.
///
/// # Errors
///
/// If the body cannot be read.
pub async fn text(mut response: reqwest::Response, most: usize) -> reqwest::Result<(String, bool)> {
    let mut body = Vec::new();
    while body.len() <= most
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    let cut = body.len() > most;
    body.truncate(most);
    Ok((String::from_utf8_lossy(&body).into_owned(), cut))
}

/// Sends a request to an engine.
///
/// # Errors
///
/// As [`RequestBuilder::send`].
pub async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    match world::current() {
        Some(world) => Ok(world.page(request.build()?).await),
        None => request.send().await,
    }
}

/// Builds the client.
pub fn build(builder: ClientBuilder) -> Result<reqwest::Client> {
    builder.build().map_err(|error| {
        Fault::missing(
            format!("cannot create an HTTP client: {}", root(&error)),
            "install the system's CA certificates (package `ca-certificates`)",
        )
    })
}

/// The innermost cause of an error, without the URL, which may contain a password.
#[must_use]
pub fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if std::ptr::addr_eq(cause, std::ptr::from_ref(error)) {
        return kind(error).to_owned();
    }
    cause.to_string()
}

fn kind(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "timed out"
    } else if error.is_connect() {
        "cannot connect"
    } else if error.is_redirect() {
        "too many redirects"
    } else if error.is_body() || error.is_decode() {
        "the response is incomplete or cannot be decoded"
    } else {
        "the request could not be sent"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_error_names_its_cause_and_not_the_url() {
        let client = build(direct()).unwrap();
        let error = client.get("http://user:secret@127.0.0.1:1/").send().await.unwrap_err();
        let text = root(&error);
        assert!(text.contains("refused"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[tokio::test]
    async fn a_redirect_of_an_engine_is_not_followed() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let answer = "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let answer = build(direct()).unwrap().get(url).send().await.unwrap();
        assert_eq!(answer.status(), 302);
        server.await.unwrap();
    }
}
