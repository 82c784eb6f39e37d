//! The requirements in a script's header: versions of the program and of added scripts.

use rhai::Position;

use super::added;
use super::header::{field, lines};
use crate::fault::{Fault, Kind};
use crate::runtime::Permits;

/// Fails if the script requires a version of `profiler` or of an added script that is not there, or if its `allow` is
/// invalid. Also returns the line's position.
pub(super) fn check(text: &str) -> Result<(), (Fault, Position)> {
    for (number, line) in lines(text) {
        let at = Position::new(u16::try_from(number).unwrap_or(u16::MAX), 1);
        let checked = match field(line) {
            Some(("requires", value)) => value
                .split(',')
                .try_for_each(|one| check_requirement(one.trim(), env!("CARGO_PKG_VERSION"))),
            // A path in it need not exist on this machine.
            Some(("allow", value)) if !value.contains("mount=") => Permits::parse([value]).map(drop),
            _ => Ok(()),
        };
        checked.map_err(|fault| (fault, at))?;
    }
    Ok(())
}

/// Checks a requirement: `profiler >= X` against version `mine`, or `NAME` or `NAME >= X` against the added scripts.
fn check_requirement(wanted: &str, mine: &str) -> Result<(), Fault> {
    let unclear = || {
        Fault::new(Kind::Compile, format!("`requires: {wanted}` is not understood"))
            .hint("write `//! requires: profiler >= 0.1`, or the name of something added in place of `profiler`")
    };
    let (name, least) = match wanted.split_once(">=") {
        Some((name, least)) => (name.trim(), Some(least.trim())),
        None => (wanted, None),
    };
    let needed = least.map(|least| version(least).ok_or_else(unclear)).transpose()?;
    if name == "profiler" {
        let needed = needed.ok_or_else(unclear)?;
        if version(mine).is_some_and(|mine| mine < needed) {
            let least = least.unwrap_or_default();
            let message = format!("this script requires profiler {least} or newer; this is {mine}");
            return Err(Fault::new(Kind::Compile, message)
                .hint("install a newer profiler, or use an older version of the script"));
        }
        return Ok(());
    }
    added::check_name(name).map_err(|_| unclear())?;
    let Some(has) = added::version(name) else {
        return Err(Fault::missing(
            format!("this script requires `{name}`, which was not added"),
            format!("`profiler add SOURCE --name {name}`, from where its author shares it"),
        ));
    };
    if needed.is_some() && has.as_deref().and_then(version) < needed {
        let (least, has) = (least.unwrap_or_default(), has.as_deref().unwrap_or("unknown"));
        let message = format!("this script requires {name} {least} or newer; what was added is of version {has}");
        return Err(Fault::missing(message, format!("`profiler update {name}`")));
    }
    Ok(())
}

/// Parses `1.2` as `[1, 2, 0]`.
fn version(text: &str) -> Option<[u64; 3]> {
    let parts: Vec<u64> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let mut version = [0; 3];
    version.get_mut(..parts.len())?.copy_from_slice(&parts);
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::{check, check_requirement};

    #[test]
    fn an_allowance_that_means_nothing_is_refused_at_its_line() {
        let (fault, at) = check("//! Finds.\n//! allow: prot=1").unwrap_err();
        assert_eq!(
            (fault.hint.as_deref(), at.line()),
            (Some("did you mean `port`?"), Some(2))
        );
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(check_requirement("profiler >= 0.1", "0.1.0").is_ok());
        assert!(check_requirement("profiler >= 0.9", "0.10.0").is_ok());
        assert!(check_requirement("profiler >= 0.10.1", "0.10.0").is_err());
        assert!(check_requirement("profiler 3", "0.1.0").is_err());
        assert!(check_requirement("profiler >= x", "0.1.0").is_err());
    }

    #[test]
    fn the_requirement_is_found_below_the_description() {
        let (fault, at) = check("//! Finds.\n//! requires: profiler >= 99\nlet x = 1;").unwrap_err();
        assert!(fault.message.contains("requires profiler 99 or newer"));
        assert_eq!(at.line(), Some(2));
        assert!(check("let x = 1;\n//! requires: profiler >= 99").is_ok());
    }
}
