//! HTTP clients for the internet and for engines, and host name lookup.
//!
//! The modules that send requests define their meaning.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, RequestBuilder, Response};
use rustls::ClientConfig;
use tokio::task::spawn_blocking;
use url::{Host, Url};

use crate::fault::{Fault, Result};
use crate::tls::{self, Problem};
use crate::world;

pub(crate) const USER_AGENT: &str = concat!("profiler/", env!("CARGO_PKG_VERSION"));

/// A client for the internet. It uses the proxy variables of the environment.
pub fn external() -> ClientBuilder {
    reqwest::Client::builder().user_agent(USER_AGENT)
}

/// A client for engines. It uses no proxy, which would distort timings and could not reach loopback addresses. It
/// follows no redirects, which could lead to an address that the user did not allow.
pub fn direct() -> ClientBuilder {
    external().no_proxy().redirect(Policy::none()).dns_resolver(Resolver)
}

/// Host names from `--allow net=`. The owner of such a name could point it to services of this machine.
static ELSEWHERE: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// From now on, refuses to connect to this host if its name resolves to this machine.
pub fn keep_elsewhere(host: &str) {
    let mut hosts = ELSEWHERE.write().unwrap_or_else(PoisonError::into_inner);
    hosts.insert(host.to_owned());
}

/// The addresses of a host. Blocks.
///
/// # Errors
///
/// If the host has no address, or if [`keep_elsewhere`] was called for it and it resolves to this machine.
pub fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = (host.trim_matches(['[', ']']), port).to_socket_addrs()?.collect();
    let elsewhere = ELSEWHERE.read().unwrap_or_else(PoisonError::into_inner);
    if elsewhere.contains(host) && found.iter().any(|address| is_here(address.ip())) {
        let why = "the name leads to this machine, which `net=` does not allow: give and allow the address instead";
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    if found.is_empty() {
        Err(io::Error::new(ErrorKind::NotFound, "it has no address"))
    } else {
        Ok(found)
    }
}

/// Like [`addresses`], without blocking.
///
/// # Errors
///
/// Fails as [`addresses`] does.
pub async fn lookup(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    spawn_blocking(move || addresses(&host, port)).await?
}

/// Whether an IP address is this machine's own. Connecting to the unspecified address reaches this machine too.
fn is_own(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

/// Whether the host of a URL is this machine itself.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        // The URL parser does not parse the host of a non-web scheme such as `tcp`.
        Some(Host::Domain(name)) => name == "localhost" || name.parse().is_ok_and(is_own),
        Some(Host::Ipv4(ip)) => is_own(ip.into()),
        Some(Host::Ipv6(ip)) => is_own(ip.into()),
        None => false,
    }
}

/// Whether an address belongs to a network interface of this machine, or to something that only this machine reaches,
/// such as the metadata service of a cloud.
fn is_here(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    // Only an address of this machine can be bound.
    is_own(ip) || is_link_local || UdpSocket::bind((ip, 0)).is_ok()
}

struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = lookup(name.as_str().to_owned(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Like [`direct`], for a server that may want an API key. The client must send requests only to that server.
pub fn direct_with(key: Option<&ApiKey>) -> ClientBuilder {
    let headers = key.map(|key| (AUTHORIZATION, key.header.clone()));
    direct().default_headers(HeaderMap::from_iter(headers))
}

/// An API key in the form of the `Authorization` header. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    header: HeaderValue,
    /// The environment variable that holds it.
    variable: String,
}

impl ApiKey {
    /// An API key from this environment variable; `None` if a header cannot contain it.
    pub fn new(key: &str, variable: &str) -> Option<Self> {
        let mut header = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
        header.set_sensitive(true);
        let variable = variable.to_owned();
        header.to_str().is_ok().then_some(Self { header, variable })
    }

    /// The value of the header.
    pub fn header(&self) -> &str {
        self.header.to_str().unwrap_or_default()
    }

    /// The environment variable that holds it.
    pub fn variable(&self) -> &str {
        &self.variable
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

/// The delay in a `Retry-After` header, which has seconds or a date; `None` if it has neither.
pub fn retry_after(value: &str) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    // A date in the past means no delay.
    Some(Duration::try_from(date.duration_since(Timestamp::now())).unwrap_or_default())
}

/// Most bytes of a page of an engine, such as its metrics. With a hundred workers, those of vLLM are a few MiB.
pub const MAX_PAGE: usize = 16 << 20;

/// Reads the beginning of a response's body, at most `most` bytes. Returns it and whether there was more. Replaces
/// invalid UTF-8.
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
/// Fails as [`RequestBuilder::send`] does.
pub async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    match world::current() {
        Some(world) => Ok(world.page(request.build()?).await),
        None => request.send().await,
    }
}

/// Builds a client that verifies every server.
pub fn build(builder: ClientBuilder) -> Result<reqwest::Client> {
    let config = tls::verified()?;
    with_tls(builder, &config)
}

/// Builds a client for engines.
pub fn build_for_engines(builder: ClientBuilder) -> Result<reqwest::Client> {
    let config = tls::to_engines()?;
    with_tls(builder, &config)
}

fn with_tls(builder: ClientBuilder, config: &ClientConfig) -> Result<reqwest::Client> {
    builder
        .tls_backend_preconfigured(config.clone())
        .build()
        .map_err(|error| Fault::internal(format!("cannot create an HTTP client: {}", root(&error))))
}

/// Why a server gave no answer, and the remedy if repeating the request cannot help.
pub fn unanswered(error: &reqwest::Error) -> (String, Option<String>) {
    match Problem::find(error) {
        Some(problem) => (problem.message, Some(problem.remedy)),
        None => (root(error), None),
    }
}

/// The innermost cause of an error, without the URL, which may contain a password.
pub fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if std::ptr::addr_eq(cause, std::ptr::from_ref(error)) {
        return "the request could not be sent".to_owned();
    }
    cause.to_string()
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
    async fn a_name_that_is_allowed_leads_to_no_service_of_this_machine() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!addresses("localhost", port).unwrap().is_empty());
        keep_elsewhere("localhost");
        let client = build(direct()).unwrap();
        let error = client
            .get(format!("http://localhost:{port}/"))
            .send()
            .await
            .unwrap_err();
        assert!(root(&error).contains("leads to this machine"), "{}", root(&error));
        for here in [
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "::1",
            "::ffff:127.0.0.1",
            "fe80::1",
        ] {
            assert!(is_here(here.parse().unwrap()), "{here}");
        }
        for elsewhere in ["192.0.2.1", "8.8.8.8", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!is_here(elsewhere.parse().unwrap()), "{elsewhere}");
        }
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
