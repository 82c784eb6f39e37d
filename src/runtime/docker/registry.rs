//! The sizes of an image's layers, as its registry tells them before a pull. Asked without a login; where the
//! registry gives no answer, the daemon's own progress has to do.

use std::time::Duration;

use reqwest::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::{Client, StatusCode, redirect};
use serde::Deserialize;
use url::Url;

use crate::fault::Result;
use crate::{http, outside};

/// The registry of names without one.
const DEFAULT: &str = "docker.io";
/// Names of a registry that counts anonymous questions as pulls, so it is not asked.
const DOCKER_HUB: [&str; 3] = [DEFAULT, "index.docker.io", "registry-1.docker.io"];
/// Maximum time for all answers together.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Larger than any list of layers.
const MAX_BYTES: usize = 4 << 20;

const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// An image in a registry.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    host: &'a str,
    path: String,
    /// Tag or digest.
    version: &'a str,
}

impl<'a> Name<'a> {
    fn of(reference: &'a str) -> Self {
        let (name, version) = match reference.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (reference, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let (host, path) = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path.to_owned()),
            Some(_) => (DEFAULT, name.to_owned()),
            None => (DEFAULT, format!("library/{name}")),
        };
        Self {
            host,
            path,
            version: version.or(tag).unwrap_or("latest"),
        }
    }

    /// The address of a manifest; `None` if the registry is not to be asked. Daemons speak plain HTTP with a registry
    /// of their own machine.
    fn manifest(&self, version: &str) -> Option<Url> {
        if DOCKER_HUB.contains(&self.host) {
            return None;
        }
        let host = self.host;
        let https = Url::parse(&format!("https://{host}/v2/{}/manifests/{version}", self.path)).ok()?;
        if !http::is_loopback(&https) {
            return Some(https);
        }
        Url::parse(&https.as_str().replacen("https", "http", 1)).ok()
    }
}

/// The host of an image's registry.
pub(super) fn host(reference: &str) -> &str {
    Name::of(reference).host
}

/// Digests and compressed sizes of an image's layers; `None` if the registry does not tell them.
pub(super) async fn layer_sizes(reference: &str) -> Option<Vec<(String, u64)>> {
    let name = Name::of(reference);
    tokio::time::timeout(TIMEOUT, sizes(&name)).await.ok()?.ok()?
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Part>,
    /// Manifests for several platforms.
    #[serde(default)]
    manifests: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    digest: String,
    #[serde(default)]
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

impl Platform {
    /// Whether it is this machine's.
    fn is_here(&self) -> bool {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        self.os == "linux" && self.architecture == architecture
    }
}

async fn sizes(name: &Name<'_>) -> Result<Option<Vec<(String, u64)>>> {
    let client = http::build(http::external().redirect(redirect::Policy::none()))?;
    let mut token = None;
    let Some(mut manifest) = fetch(&client, name, name.version, &mut token).await else {
        return Ok(None);
    };
    let is_here = |part: &&Part| part.platform.as_ref().is_some_and(Platform::is_here);
    if let Some(digest) = manifest.manifests.iter().find(is_here).map(|part| part.digest.clone()) {
        let Some(own) = fetch(&client, name, &digest, &mut token).await else {
            return Ok(None);
        };
        manifest = own;
    }
    let layers = manifest.layers.into_iter().map(|layer| (layer.digest, layer.size));
    let layers: Vec<(String, u64)> = layers.collect();
    Ok((!layers.is_empty()).then_some(layers))
}

/// Fetches a manifest, with an anonymous token if the registry wants one.
async fn fetch(client: &Client, name: &Name<'_>, version: &str, token: &mut Option<String>) -> Option<Manifest> {
    let url = name.manifest(version)?;
    let ask = |token: &Option<String>| {
        let request = client.get(url.clone()).header(ACCEPT, MANIFESTS);
        match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    };
    let mut response = ask(token).send().await.ok()?;
    if response.status() == StatusCode::UNAUTHORIZED && token.is_none() {
        let challenge = response.headers().get(WWW_AUTHENTICATE)?.to_str().ok()?;
        let realm = token_url(challenge, &url)?;
        *token = Some(anonymous_token(client, realm).await?);
        response = ask(token).send().await.ok()?;
    }
    if !response.status().is_success() {
        return None;
    }
    let (text, cut) = http::text(response, MAX_BYTES).await.ok()?;
    if cut {
        return None;
    }
    outside::page(text.as_bytes()).ok()
}

/// The address that gives a token, from the header `WWW-Authenticate: Bearer realm="…",service="…",scope="…"`. A
/// registry elsewhere cannot name a service of this machine.
fn token_url(challenge: &str, registry: &Url) -> Option<Url> {
    let values = challenge.strip_prefix("Bearer ")?;
    let value = |name: &str| {
        let (_, rest) = values.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let mut url = Url::parse(&value("realm")?).ok()?;
    let is_own = http::is_loopback(registry) && http::is_loopback(&url);
    if !is_own && (url.scheme() != "https" || http::is_loopback(&url)) {
        return None;
    }
    for name in ["service", "scope"] {
        if let Some(value) = value(name) {
            url.query_pairs_mut().append_pair(name, &value);
        }
    }
    Some(url)
}

async fn anonymous_token(client: &Client, url: Url) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let response = client.get(url).send().await.ok()?;
    let (text, _) = http::text(response, MAX_BYTES).await.ok()?;
    let answer: Answer = outside::page(text.as_bytes()).ok()?;
    answer.token.or(answer.access_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_the_daemon_reads_them() {
        for (reference, host, path, version) in [
            ("engine:1", "docker.io", "library/engine", "1"),
            ("vllm/vllm-openai:v0.24.0", "docker.io", "vllm/vllm-openai", "v0.24.0"),
            ("ghcr.io/me/engine", "ghcr.io", "me/engine", "latest"),
            ("localhost:5000/engine:1", "localhost:5000", "engine", "1"),
            ("nvcr.io/a/b:1@sha256:ab", "nvcr.io", "a/b", "sha256:ab"),
        ] {
            let path = path.to_owned();
            assert_eq!(Name::of(reference), Name { host, path, version }, "{reference}");
        }
        let url = |reference: &'static str| Name::of(reference).manifest("1").map(|url| url.to_string());
        for (reference, expected) in [
            ("engine", None),
            ("vllm/vllm-openai", None),
            ("docker.io/library/engine", None),
            ("index.docker.io/library/engine", None),
            ("registry-1.docker.io/library/engine", None),
            ("ghcr.io/me/engine", Some("https://ghcr.io/v2/me/engine/manifests/1")),
            (
                "127.0.0.1:5000/engine",
                Some("http://127.0.0.1:5000/v2/engine/manifests/1"),
            ),
        ] {
            assert_eq!(url(reference).as_deref(), expected, "{reference}");
        }
    }

    #[test]
    fn a_registry_elsewhere_cannot_name_a_service_of_this_machine() {
        let ask = |realm: &str, registry: &str| {
            let challenge = format!(r#"Bearer realm="{realm}",service="s",scope="repository:a/b:pull""#);
            token_url(&challenge, &Url::parse(registry).unwrap()).map(|url| url.to_string())
        };
        let expected = "https://auth.example/token?service=s&scope=repository%3Aa%2Fb%3Apull";
        assert_eq!(
            ask("https://auth.example/token", "https://r.example").as_deref(),
            Some(expected)
        );
        assert_eq!(ask("http://auth.example/token", "https://r.example"), None);
        assert_eq!(ask("https://127.0.0.1/token", "https://r.example"), None);
        assert!(ask("http://127.0.0.1:5001/token", "http://127.0.0.1:5000").is_some());
    }
}
