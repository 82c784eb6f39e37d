//! The `//!` lines at the top of a script: its description and the program version it requires.

use rhai::Position;

use crate::fault::{Fault, Kind};

/// The lines of a script's description, without `//!`.
pub(crate) fn description(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim_start)
        .skip_while(|line| line.is_empty())
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
}

/// Fails if the script has a line `//! requires: profiler >= X` that this version does not satisfy. Also returns the
/// line's position.
pub(super) fn check_requirement(text: &str) -> Result<(), (Fault, Position)> {
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if !line.is_empty() && !line.starts_with("//!") {
            return Ok(());
        }
        let Some(wanted) = line
            .strip_prefix("//!")
            .and_then(|line| line.trim().strip_prefix("requires:"))
        else {
            continue;
        };
        let at = Position::new(u16::try_from(index + 1).unwrap_or(u16::MAX), 1);
        check(wanted.trim(), env!("CARGO_PKG_VERSION")).map_err(|fault| (fault, at))?;
    }
    Ok(())
}

/// Whether version `mine` satisfies `profiler >= X`.
fn check(wanted: &str, mine: &str) -> Result<(), Fault> {
    let unclear = || {
        Fault::new(Kind::Compile, format!("`requires: {wanted}` is not understood"))
            .hint("write `//! requires: profiler >= 0.1`")
    };
    let least = wanted
        .strip_prefix("profiler")
        .and_then(|rest| rest.trim_start().strip_prefix(">="))
        .ok_or_else(unclear)?;
    let needed = version(least.trim()).ok_or_else(unclear)?;
    if version(mine).is_some_and(|mine| mine < needed) {
        return Err(Fault::new(
            Kind::Compile,
            format!(
                "this script requires profiler {} or newer; this is {mine}",
                least.trim()
            ),
        )
        .hint("install a newer profiler, or use an older version of the script"));
    }
    Ok(())
}

/// Parses `1.2` as `[1, 2, 0]`.
fn version(text: &str) -> Option<[u64; 3]> {
    let mut version = [0; 3];
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > version.len() {
        return None;
    }
    for (slot, part) in version.iter_mut().zip(parts) {
        *slot = part.parse().ok()?;
    }
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::{check, check_requirement, description};

    #[test]
    fn the_description_ends_where_the_script_begins() {
        let lines: Vec<_> = description("\n//! Finds.\n//!\n//! More.\n// note\n//! not this\n").collect();
        assert_eq!(lines, ["Finds.", "", "More."]);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(check("profiler >= 0.1", "0.1.0").is_ok());
        assert!(check("profiler >= 0.9", "0.10.0").is_ok());
        assert!(check("profiler >= 0.10.1", "0.10.0").is_err());
        assert!(check("profiler 3", "0.1.0").is_err());
        assert!(check("profiler >= x", "0.1.0").is_err());
    }

    #[test]
    fn the_requirement_is_found_below_the_description() {
        let (fault, at) = check_requirement("//! Finds.\n//! requires: profiler >= 99\nlet x = 1;").unwrap_err();
        assert!(fault.message.contains("requires profiler 99 or newer"));
        assert_eq!(at.line(), Some(2));
        assert!(check_requirement("let x = 1;\n//! requires: profiler >= 99").is_ok());
    }
}
