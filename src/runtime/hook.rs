//! Hook that lets probes query a serving engine from inside its process: a `sitecustomize.py` prepended to
//! PYTHONPATH. See stdlib/probes/README.md.

use super::Launch;

const HOOK: &str = include_str!("../../stdlib/probes/hook/sitecustomize.py");
/// Part of the socket names of the engine's processes.
const NAME_VARIABLE: &str = "PROFILER_IN_PROCESS";
const PYTHONPATH: &str = "PYTHONPATH";

/// Adds the hook to the launch, if requested. `inherited` is the PYTHONPATH the engine would have had; `name` is the
/// server's name.
///
/// Applied after the permission check: this PYTHONPATH is our own.
pub(super) fn add_hook(launch: &Launch, inherited: Option<String>, name: &str) -> Launch {
    let mut launch = launch.clone();
    if !launch.in_process {
        return launch;
    }
    let path = match launch
        .env
        .get(PYTHONPATH)
        .cloned()
        .or(inherited)
        .filter(|path| !path.is_empty())
    {
        Some(path) => format!("{{files}}:{path}"),
        None => "{files}".to_owned(),
    };
    launch.files.insert("sitecustomize.py".to_owned(), HOOK.to_owned());
    launch.env.insert(PYTHONPATH.to_owned(), path);
    // Native engines of several runs share one socket name space.
    launch
        .env
        .insert(NAME_VARIABLE.to_owned(), format!("{}-{name}", std::process::id()));
    launch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_existing_path_comes_after_the_hook() {
        let mut launch = Launch::default();
        assert_eq!(
            add_hook(&launch, Some("/image".into()), "engine-1"),
            launch,
            "not requested"
        );
        launch.in_process = true;
        let path = |launch: &Launch, inherited: Option<&str>| {
            add_hook(launch, inherited.map(Into::into), "x").env[PYTHONPATH].clone()
        };
        assert_eq!(path(&launch, None), "{files}");
        assert_eq!(path(&launch, Some("/image")), "{files}:/image");
        launch.env.insert(PYTHONPATH.into(), "/own".into());
        assert_eq!(path(&launch, Some("/image")), "{files}:/own");
        assert!(
            add_hook(&launch, None, "engine-1")
                .files
                .contains_key("sitecustomize.py")
        );
    }
}
