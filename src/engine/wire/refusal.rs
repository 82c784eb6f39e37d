//! Refusals of servers: names of statuses, such as `429 rate limit`, the remedy for each, and the error detail in a
//! body.

use url::Url;

use super::fields::error_of;
use crate::fmt::excerpt;
use crate::http::ApiKey;
use crate::load::{Failure, FailureForm};

/// The remedy if a server requires an API key.
const NO_KEY: &str = "set OPENAI_API_KEY to a key that the server takes, or name the variable that holds one: `--api-key-env NAME`. The key is sent only to an \
     address that the command line names to a shipped script, also when a run is resumed: `--url URL`; else `--allow token` sends it";

/// The remedy for a proxy that compresses streams.
pub const COMPRESSED: &str = "have the server, or the proxy before it, not compress what no one asked it to compress: compressed, tokens come in lumps";

/// How a request authenticates its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// No credentials.
    None,
    /// An API key from this environment variable.
    Key(&'a str),
    /// User name and password in the URL.
    Url,
}

impl<'a> Credentials<'a> {
    /// The credentials of requests with this key to a server.
    pub fn new(key: Option<&'a ApiKey>, base_url: &str) -> Self {
        let has_user = || Url::parse(base_url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some());
        match key {
            Some(key) => Self::Key(key.variable()),
            None if has_user() => Self::Url,
            None => Self::None,
        }
    }
}

/// Status and meaning, such as `429 rate limit`; `None` for a status that means nothing by itself.
pub fn title(status: u16, credentials: Credentials<'_>) -> Option<&'static str> {
    Some(match (status, credentials) {
        (401, Credentials::None) => "401 no key",
        (401, Credentials::Key(_)) => "401 wrong key",
        (401, Credentials::Url) => "401 wrong user name or password",
        (403, Credentials::None) => "403 forbidden",
        (403, _) => "403 not allowed with this key",
        (404, _) => "404 not found",
        (429, _) => "429 rate limit",
        (503, _) => "503: the server is not ready",
        _ => return None,
    })
}

/// The remedy for a status that the server would return again for the same request.
pub fn remedy(status: u16, credentials: Credentials<'_>) -> Option<String> {
    match (status, credentials) {
        (401 | 403, Credentials::None) => Some(NO_KEY.to_owned()),
        (401 | 403, Credentials::Key(variable)) => Some(format!(
            "the server refuses the key in `{variable}`: put one there that it takes, or name another variable: `--api-key-env NAME`"
        )),
        (401 | 403, Credentials::Url) => {
            Some("the server refuses user name and password of the URL: correct them, percent-encoded".to_owned())
        }
        (300..=399, _) => Some("give the address of the server itself: `--url URL`".to_owned()),
        _ => None,
    }
}

/// The remedy for a server that rejects requests for longer than the wait time.
pub fn wait_longer(status: u16) -> &'static str {
    match status {
        429 => "raise the limit of the server or of the key, or wait longer for it: `--wait 10m`",
        _ => "wait longer until it has loaded its model: `--wait 10m`",
    }
}

/// Describes a rejected request: path, status, and the server's message.
pub(crate) fn refusal(failure: &Failure, path: &str, credentials: Credentials<'_>) -> String {
    let FailureForm::Status(status) = failure.form else {
        return short_error_detail(&failure.message);
    };
    let title = title(status, credentials).map_or_else(String::new, |title| format!("{title}: "));
    format!(
        "{title}`{path}` answered with status {status}: {}",
        short_error_detail(&failure.message)
    )
}

/// True if the server requires an API key or rejects the given one.
pub(crate) fn needs_key(failure: &Failure) -> bool {
    matches!(failure.form, FailureForm::Status(401 | 403))
}

/// The error detail in the body of a refusal, without the request that it may echo.
pub(crate) fn error_detail(body: &str) -> String {
    let detail = error_of(body, None);
    // Python servers echo the request in a message of their own format.
    detail.split("'input':").next().unwrap_or_default().to_owned()
}

/// The error detail, shortened to one line.
pub fn short_error_detail(body: &str) -> String {
    excerpt(&error_detail(body))
}
