//! `profiler plan RUN…`: another name of `profiler run plan --runs RUN,…`. The script decides everything.

use std::ffi::OsString;

use serde_json::Value;

use super::flags::command_at;

/// Arguments, for the help and completions alone: [`as_run`] replaces the command.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Runs, or files of other tools, that measured the engine; then parameters and options, as `profiler plan --help`
    /// lists them
    #[arg(
        value_name = "RUN… --PARAMETER VALUE",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// The command line with `plan RUN… --FLAG …` as the run of the script; any other as it is.
pub(super) fn as_run(mut words: Vec<OsString>) -> Vec<OsString> {
    let at = command_at(&words);
    if words.get(at).is_none_or(|command| command != "plan") {
        return words;
    }
    let rest = words.split_off(at + 1);
    let is_flag = |word: &OsString| word.to_string_lossy().starts_with('-');
    let named = rest.iter().position(is_flag).unwrap_or(rest.len());
    words[at] = "run".into();
    words.push("plan".into());
    if named > 0 {
        let runs: Vec<Value> = rest[..named].iter().map(|run| run.to_string_lossy().into()).collect();
        words.extend(["--runs".into(), Value::from(runs).to_string().into()]);
    }
    words.extend(rest.into_iter().skip(named));
    words
}
