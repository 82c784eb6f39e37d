//! The `//!` lines at the top of a script: its description, and the fields `requires`, `version`, `author`, `license`,
//! `allow` (the permissions that it needs) and `budgets` (the parameters that a resume may change).

use serde::Serialize;

/// The fields of a script's header. They are claims of the script and grant nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Header {
    /// `//! version: 1.2`
    pub version: Option<String>,
    /// `//! author: Ann Other <ann@example.org>`
    pub author: Option<String>,
    /// `//! license: MIT`
    pub license: Option<String>,
    /// `//! requires: profiler >= 0.1, other >= 1.2`, one entry each.
    pub requires: Vec<String>,
    /// `//! allow: port=8000`, as for `--allow`, one entry each.
    pub allow: Vec<String>,
    /// `//! budgets: minutes, starts`, one parameter each.
    pub budgets: Vec<String>,
}

const FIELDS: [&str; 7] = ["version", "author", "license", "requires", "allow", "budgets", "origin"];

impl Header {
    /// Reads the header of a script. Removes control characters.
    pub fn parse(text: &str) -> Self {
        let mut header = Self::default();
        for (name, value) in lines(text).filter_map(|(_, line)| field(line)) {
            let value = value.replace(char::is_control, "");
            match name {
                "version" => header.version = Some(value),
                "author" => header.author = Some(value),
                "license" => header.license = Some(value),
                "requires" => header.requires.extend(entries(&value)),
                "budgets" => header.budgets.extend(entries(&value)),
                "allow" => header.allow.push(value),
                _ => {}
            }
        }
        header
    }
}

fn entries(list: &str) -> impl Iterator<Item = String> {
    list.split(',').map(|one| one.trim().to_owned())
}

/// The `//!` lines at the top, without `//!`, each with its number.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().map(str::trim_start).enumerate();
    numbered
        .skip_while(|(_, line)| line.is_empty())
        .map_while(|(index, line)| Some((index + 1, line.strip_prefix("//!")?)))
        .map(|(number, line)| (number, line.strip_prefix(' ').unwrap_or(line)))
}

/// Name and value of a line `author: Ann`.
pub(super) fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    FIELDS.contains(&name.trim()).then(|| (name.trim(), value.trim()))
}

/// The lines of a script's description, without `//!` and without the header's fields.
pub(crate) fn description(text: &str) -> impl Iterator<Item = &str> {
    lines(text).map(|(_, line)| line).filter(|line| field(line).is_none())
}

#[cfg(test)]
mod tests {
    use super::{Header, description};

    #[test]
    fn the_description_ends_where_the_script_begins() {
        let text = "\n//! Finds.\n//! author: Ann\x07\n//!\n//! More.\n//! allow: port=1\n// note\n//! not this\n";
        let lines: Vec<_> = description(text).collect();
        assert_eq!(lines, ["Finds.", "", "More."]);
        let header = Header::parse(text);
        assert_eq!(
            (header.author.as_deref(), header.allow),
            (Some("Ann"), vec!["port=1".to_owned()])
        );
    }
}
