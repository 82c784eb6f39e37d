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

/// Functions that people expect under another name, and what does it here.
const GUESSES: [(&str, &str); 12] = [
    ("start_container", "`docker::start(#{ image: … })` starts a container"),
    ("start_process", "`process::start(#{ command: … })` starts a process"),
    (
        "start_engine",
        "`engines::describe(name, #{ … })` describes an engine; `engine.start()`, or its first probe, starts it",
    ),
    ("send_prompt", "`engine.send(prompt)` sends a text or token ids"),
    ("send_request", "`engine.send(prompt)` sends a text or token ids"),
    (
        "make_prompt",
        "`prompt::tokens(n, #{ … })` makes a prompt of exactly n tokens",
    ),
    (
        "sample_memory",
        "`gpu::sample()` reads the memory of all GPUs, `engine.memory()` that of an engine",
    ),
    (
        "get_memory",
        "`gpu::sample()` reads the memory of all GPUs, `engine.memory()` that of an engine",
    ),
    (
        "refine_boundary",
        "`map.refine(n)` gives the points to probe next; `steps::refine_for` of `std/search/steps` probes them",
    ),
    (
        "record_point",
        "`map.record(point, answer)` records the answer of a point; `record(name, value)` records a value of the run",
    ),
    (
        "run_load",
        "`engine.load(#{ concurrency: … })` sends requests over time",
    ),
    ("wait", "`sleep(seconds)` waits"),
];

/// The function that does what one of this name is expected to do.
pub(crate) fn guessed(name: &str) -> Option<&'static str> {
    GUESSES
        .iter()
        .find(|(guess, _)| *guess == name)
        .map(|(_, answer)| *answer)
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
