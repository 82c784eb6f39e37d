//! The address of a server as people write it, and where its API key is.

use url::Url;

use crate::fault::{Fault, Result};

/// The environment variable that holds the API key of a server, unless the user names another one.
pub(super) const API_KEY: &str = "OPENAI_API_KEY";

/// Paths that people copy along with the address of a server.
const ROUTES: [&str; 4] = ["/chat/completions", "/completions", "/models", "/v1"];

/// The base URL of a server. Accepts addresses with or without `http://`, and with or without `/v1`, which is dropped.
///
/// # Errors
///
/// `usage` if it is not an address.
pub fn server_url(text: &str) -> Result<Url> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    // Text that does not parse may still contain a password, so it is not shown.
    let mut url = Url::parse(&whole).map_err(|error| {
        Fault::usage(format!("`url` is not a valid URL: {error}")).hint("write `http://127.0.0.1:8000`")
    })?;
    let mut path = url.path().trim_end_matches('/').to_owned();
    for route in ROUTES {
        path = path.strip_suffix(route).unwrap_or(&path).to_owned();
    }
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}
