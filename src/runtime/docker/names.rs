//! Validates names used in paths of Docker's API. They come from scripts; a name with `/../` would address something
//! else.

use crate::fault::{Fault, Result};

/// A container name or id.
pub(in crate::runtime) fn check_container(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(Fault::usage(format!("`{name}` is not a valid container name")))
}

/// An image reference: `ghcr.io/me/engine:1`, `engine@sha256:…`.
pub(super) fn check_image(image: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ':' | '@');
    let whole = image.starts_with(|c: char| c.is_ascii_alphanumeric()) && image.chars().all(allowed);
    if whole && !image.contains("..") && !image.contains("//") {
        return Ok(());
    }
    Err(Fault::usage(format!("`{image}` is not a valid image reference")))
}

/// Adds the default tag `latest`; without a tag, a pull would fetch every tag.
pub(super) fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_address_another_route() {
        for bad in ["", "../images", "a/b", "a?x=1", "a#b", "-a", "a b", "a%2f"] {
            assert!(check_container(bad).is_err(), "{bad}");
        }
        for bad in ["", "../x", "a/../b", "a?b", "/a", "a//b", "a b"] {
            assert!(check_image(bad).is_err(), "{bad}");
        }
        assert!(check_container("my-engine_1.2").is_ok());
        assert!(check_image("localhost:5000/me/engine:1.2@sha256:abc").is_ok());
    }

    #[test]
    fn the_tag_is_latest_where_none_is_written() {
        assert_eq!(with_tag("localhost:5000/engine"), "localhost:5000/engine:latest");
        assert_eq!(with_tag("engine:1"), "engine:1");
        assert_eq!(with_tag("me/engine@sha256:abc"), "me/engine@sha256:abc");
    }
}
