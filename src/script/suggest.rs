//! Hints at the name that was probably meant.

use std::fmt::Display;

use crate::fault::Fault;

/// The known name closest to `name`, if it is close enough to be a likely typo.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Any two names of one or two letters are a typo apart.
    let allowed = match name.chars().count() {
        0..=2 => 0,
        length => (length / 3).max(1),
    };
    let lower = name.to_lowercase();
    known
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The fault with the known name closest to `name` as its hint, or `otherwise` if none is close.
pub(crate) fn suggest<'a>(
    fault: Fault,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl Into<String>,
) -> Fault {
    did_you_mean(fault, nearest(name, known), otherwise)
}

/// The fault with `near` as its hint, or `otherwise`.
pub(super) fn did_you_mean(fault: Fault, near: Option<impl Display>, otherwise: impl Into<String>) -> Fault {
    match near {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault.hint(otherwise),
    }
}

/// `` `a`, `b` ``.
pub(super) fn quoted(names: impl IntoIterator<Item = impl Display>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typos_are_recognised_and_other_names_are_not() {
        let known = ["max_probes", "max_starts", "seed"];
        assert_eq!(nearest("max_prbes", known), Some("max_probes"));
        assert_eq!(nearest("sede", known), Some("seed"));
        assert_eq!(nearest("Seed", known), Some("seed"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("z", ["E"]), None);
    }
}
