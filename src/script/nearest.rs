//! Finds the closest known name, for "did you mean" hints.

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
