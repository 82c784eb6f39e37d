//! What lets probes ask a serving engine from within: a `sitecustomize.py` in front of its PYTHONPATH. See stdlib/probes/README.md.

use super::Launch;

const HOOK: &str = include_str!("../../stdlib/probes/hook/sitecustomize.py");
/// Names the engine in the sockets of its processes.
const MARK: &str = "PROFILER_IN_PROCESS";
const PATH: &str = "PYTHONPATH";

/// The launch with the hook, where it asks for it. `inherited` is the PYTHONPATH that it would have had; `name` the server's name.
///
/// Done after the launch was held against what the user allowed: this PYTHONPATH is ours.
pub(super) fn hooked(launch: &Launch, inherited: Option<String>, name: &str) -> Launch {
    let mut launch = launch.clone();
    if !launch.in_process {
        return launch;
    }
    let path = match launch
        .env
        .get(PATH)
        .cloned()
        .or(inherited)
        .filter(|path| !path.is_empty())
    {
        Some(path) => format!("{{files}}:{path}"),
        None => "{files}".to_owned(),
    };
    launch.files.insert("sitecustomize.py".to_owned(), HOOK.to_owned());
    launch.env.insert(PATH.to_owned(), path);
    // Native engines of several hosts share one name space of sockets.
    launch
        .env
        .insert(MARK.to_owned(), format!("{}-{name}", std::process::id()));
    launch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_that_was_there_comes_after_the_hook() {
        let mut launch = Launch::default();
        assert_eq!(
            hooked(&launch, Some("/image".into()), "engine-1"),
            launch,
            "not asked for"
        );
        launch.in_process = true;
        let path =
            |launch: &Launch, inherited: Option<&str>| hooked(launch, inherited.map(Into::into), "x").env[PATH].clone();
        assert_eq!(path(&launch, None), "{files}");
        assert_eq!(path(&launch, Some("/image")), "{files}:/image");
        launch.env.insert(PATH.into(), "/own".into());
        assert_eq!(path(&launch, Some("/image")), "{files}:/own");
        assert!(hooked(&launch, None, "engine-1").files.contains_key("sitecustomize.py"));
    }
}
