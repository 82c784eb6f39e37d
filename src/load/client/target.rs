//! The target of a load: its resolved address and the request head that all requests share.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use url::Url;

use crate::fault::{Fault, Kind, Result};
use crate::http::{ApiKey, USER_AGENT, addresses};

#[derive(Clone)]
pub(super) struct Target {
    /// In the order in which to try them.
    pub(super) addresses: Vec<SocketAddr>,
    /// For `https`.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    host: String,
    port: u16,
    /// Host and port for messages; never contains a password.
    pub(super) name: String,
    /// Why no connection can be opened.
    pub(super) unusable: Option<String>,
    // The request head except for the content length.
    head: String,
}

impl Target {
    /// Parses a URL. It has no addresses before [`resolve`](Self::resolve).
    pub(super) fn parse(url: &str, key: Option<&ApiKey>) -> Result<Self> {
        let url = Url::parse(url)
            .map_err(|error| Fault::usage(format!("invalid engine URL: {error}")).hint("give `http://HOST:PORT`"))?;
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(Fault::usage("the engine URL has no host").hint("give `http://HOST:PORT`"));
        };
        let tls = match url.scheme() {
            "http" => None,
            "https" => Some((tls()?, server_name(host)?)),
            other => {
                return Err(Fault::usage(format!("the engine URL begins with `{other}:`"))
                    .hint("give `http://HOST:PORT`, or https"));
            }
        };
        Ok(Self {
            addresses: Vec::new(),
            tls,
            head: head(&url, host, key),
            host: host.to_owned(),
            port,
            name: format!("{host}:{port}"),
            unusable: None,
        })
    }

    /// Looks the host's addresses up. Blocks.
    pub(super) fn resolve(&mut self) -> Result<()> {
        let unresolved = |why: String| {
            Fault::new(Kind::Http, format!("`{}` has no address: {why}", self.name)).hint("check the engine's URL")
        };
        self.addresses = addresses(&self.host, self.port).map_err(|error| unresolved(error.to_string()))?;
        Ok(())
    }

    pub(super) fn request(&self, body: &Bytes) -> Vec<u8> {
        let length = format!("content-length: {}\r\n\r\n", body.len());
        [self.head.as_bytes(), length.as_bytes(), body].concat()
    }
}

fn head(url: &Url, host: &str, key: Option<&ApiKey>) -> String {
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
    let basic = || authorization(url);
    let authorization = key.map(|key| key.header().to_owned()).or_else(basic);
    let authorization = authorization.map_or_else(String::new, |value| format!("authorization: {value}\r\n"));
    format!(
        "POST {}{query} HTTP/1.1\r\nhost: {host}{port}\r\nuser-agent: {USER_AGENT}\r\n{authorization}\
         content-type: application/json\r\naccept: text/event-stream, application/x-ndjson, application/json\r\n",
        url.path()
    )
}

/// Basic authentication (RFC 7617) if the URL contains a user name or a password.
fn authorization(url: &Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

fn tls() -> Result<Arc<ClientConfig>> {
    let tls_fault = |error: rustls::Error| {
        Fault::missing(
            format!("TLS cannot be used: {error}"),
            "install the system's CA certificates (package `ca-certificates`)",
        )
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls_fault)?
        .with_platform_verifier()
        .map_err(tls_fault)?
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn server_name(host: &str) -> Result<ServerName<'static>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| Fault::usage(format!("invalid host name `{host}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(url: &str) -> String {
        let target = Target::parse(url, None).unwrap();
        String::from_utf8(target.request(&Bytes::from_static(b"{}"))).unwrap()
    }

    #[test]
    fn request_has_head_and_body() {
        let text = sent("http://127.0.0.1:8000/v1/completions?a=b");
        assert!(
            text.starts_with("POST /v1/completions?a=b HTTP/1.1\r\nhost: 127.0.0.1:8000\r\n"),
            "{text}"
        );
        assert!(text.ends_with("content-length: 2\r\n\r\n{}"), "{text}");
        assert!(!text.contains("authorization"), "{text}");
        assert!(sent("http://[::1]:80/x").contains("\r\nhost: [::1]\r\n"));
    }

    #[test]
    fn credentials_are_sent_only_in_the_head() {
        let url = "http://Aladdin:open%20sesame@127.0.0.1:1/";
        assert!(sent(url).contains("\r\nauthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"));
        assert_eq!(Target::parse(url, None).unwrap().name, "127.0.0.1:1");
        assert!(sent("http://u@127.0.0.1:1/").contains("Basic dTo=\r\n"));
    }

    #[test]
    fn invalid_url_error_contains_no_secrets() {
        let fault = |url: &str| Target::parse(url, None).err().unwrap();
        assert!(fault("ftp://u:secret@host/").message.contains("`ftp:`"));
        assert!(!fault("http://u:secret@").message.contains("secret"));
        assert!(fault("https://a b/").hint.is_some());
    }
}
