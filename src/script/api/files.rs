//! Script API of files: permitted files, files of the run's folder, results of other tools, and workloads (the lengths
//! of typical requests). The journal keeps each answer, and a resumed run replays it.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rhai::plugin::*;
use rhai::{Dynamic, Map};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compare::export::TgiProfiler;
use crate::compare::{self, import};
use crate::fault::{Fault, Kind, Result};
use crate::outside;
use crate::run::{Operation, hide};
use crate::script::suggest::{nearest, quoted};
use crate::script::{BoundaryHandle, Caught, Host, begin_call, shipped, to_script};

/// Longest text that a script can read, in bytes: it is stored in the journal.
const MAX_TEXT: usize = 4 << 20;

/// Deepest nesting of brackets in a document. The time of the YAML parser grows with the square of the depth.
const MAX_DEPTH: usize = 128;

/// Reads a permitted file. A resume replays the text even if the file has changed.
fn read_text(host: &Host, path: &str) -> Result<String> {
    let text = journaled(host, Operation::File, json!({ "path": path }), || {
        let text = host.permits.read_file(Path::new(path), "file")?;
        if text.len() > MAX_TEXT {
            return Err(
                Fault::new(Kind::Limit, format!("`{path}` has {} MiB", text.len() >> 20))
                    .hint("scripts read up to 4 MiB; traces and prompts are given to `engine.load` by their names"),
            );
        }
        Ok(text.into())
    })?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

/// The answer in the journal for this operation and these arguments; otherwise the result of `work`, which the journal
/// then keeps.
pub(super) fn journaled(
    host: &Host,
    operation: fn(Value) -> Operation,
    args: Value,
    work: impl FnOnce() -> Result<Value>,
) -> Result<Value> {
    match host.run.replay(operation(Value::Null).kind(), &args) {
        Some(answer) => Ok(answer),
        None => host.run.finish(args, operation(work()?)),
    }
}

/// Reads and parses a `YAML` or `JSON` file.
fn read_document(host: &Host, path: &str, format: &str) -> Result<Value> {
    let text = read_text(host, path)?;
    if depth(&text) > MAX_DEPTH {
        return Err(Fault::new(
            Kind::Limit,
            format!("`{path}` has brackets in more than {MAX_DEPTH} levels"),
        )
        .hint("write it with fewer levels"));
    }
    let value = match format {
        "YAML" => yaml_serde::from_str(&text).map_err(|error| error.to_string()),
        _ => outside::json(text.as_bytes()).map_err(|error| error.to_string()),
    };
    value.map_err(|error| Fault::usage(format!("`{path}` is not valid {format}: {error}")))
}

/// The deepest nesting of brackets in a text.
fn depth(text: &str) -> usize {
    let step = |(now, most): (usize, usize), byte: u8| match byte {
        b'[' | b'{' => (now + 1, most.max(now + 1)),
        b']' | b'}' => (now.saturating_sub(1), most),
        _ => (now, most),
    };
    text.bytes().fold((0, 0), step).1
}

/// Writes a text without secrets to a file outside of the run's folder, whose real path was checked.
fn write_output(file: &Path, text: &str) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let elsewhere = |fault: Fault| fault.hint("choose another place with `--output`");
    std::fs::create_dir_all(folder).map_err(|error| elsewhere(Fault::io(folder, &error)))?;
    // A container with write access could have replaced a folder by a link in the meantime.
    if !folder.canonicalize().is_ok_and(|now| now == folder) {
        let what = format!("`{}` was replaced while it was written to", folder.display());
        return Err(Fault::new(Kind::Io, what));
    }
    let replaced = || -> std::io::Result<()> {
        // A new file has the usual mode, a replaced one keeps its own.
        let usual = Permissions::from_mode(0o666);
        let mut named = tempfile::Builder::new();
        let mut new = named.prefix(".profiler-").permissions(usual).tempfile_in(folder)?;
        new.write_all(hide(text).as_bytes())?;
        if let Ok(old) = file.metadata() {
            new.as_file().set_permissions(old.permissions())?;
        }
        new.as_file().sync_all()?;
        new.persist(file).map_err(|failed| failed.error)?;
        Ok(())
    };
    replaced().map_err(|error| elsewhere(Fault::io(file, &error)))
}

/// The path of a written file; `()` in a run without a folder.
fn written(path: Option<PathBuf>) -> Dynamic {
    path.map_or(Dynamic::UNIT, |path| path.display().to_string().into())
}

/// Reads the boundary from another tool's file that the user permitted. A resume replays it even if the file has
/// changed.
fn read_results_file(host: &Host, path: &str) -> Result<Value> {
    journaled(host, Operation::Results, json!({ "path": path }), || {
        let real = host.permits.check_file(Path::new(path), "resume_from")?;
        let subject = import::read(&real)?;
        let Some(boundary) = &subject.boundary else {
            return Err(Fault::usage(format!(
                "`{path}` contains {}, but no points that fit or fail",
                subject.holds
            ))
            .hint("give a file of tgi-profiler"));
        };
        let points = boundary.points.iter();
        let points: Vec<Value> = points
            .map(|(point, answer)| json!({ "point": point, "answer": answer }))
            .collect();
        Ok(json!({
            "format": subject.format,
            "model": subject.model,
            "gpus": subject.gpus,
            "axes": boundary.described["axes"],
            "points": points,
            "notes": subject.notes,
        }))
    })
}

/// Reads what was measured of serving from a run's folder, or from another tool's file, that the user permitted. A
/// resume replays it even if it has changed.
fn read_serving(host: &Host, path: &str) -> Result<Value> {
    journaled(host, Operation::Results, json!({ "serving": path }), || {
        let real = host.permits.check_file(Path::new(path), "runs")?;
        let input = compare::open(&real)?;
        Ok(json!({
            "engine": input.engine,
            "model": input.model,
            "simulated": input.simulated,
            "unfinished": input.unfinished,
            "points": input.serving,
        }))
    })
}

/// A workload file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    /// One line that describes it.
    description: String,
    /// The source of the numbers.
    source: String,
    input: Lengths,
    output: Lengths,
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(from = "WrittenLengths")]
struct Lengths {
    p50: u64,
    p95: u64,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a length is a number, or `{ p50 = …, p95 = … }`"
)]
enum WrittenLengths {
    Fixed(u64),
    Percentiles { p50: u64, p95: u64 },
}

impl From<WrittenLengths> for Lengths {
    fn from(written: WrittenLengths) -> Self {
        match written {
            WrittenLengths::Fixed(tokens) => Self {
                p50: tokens,
                p95: tokens,
            },
            WrittenLengths::Percentiles { p50, p95 } => Self { p50, p95 },
        }
    }
}

fn read_workload(host: &Host, name: &str) -> Result<Value> {
    let text = match shipped::workload(name) {
        Some(text) => text.into_owned(),
        None if name.contains(['/', '.']) => read_text(host, name)?,
        None => return Err(unknown_workload(name)),
    };
    let mut workload = json!(parse_workload(name, &text)?);
    workload["name"] = name.into();
    Ok(workload)
}

fn parse_workload(name: &str, text: &str) -> Result<Workload> {
    let fault = |what: &str| {
        Fault::usage(format!("the workload `{name}` is not valid: {}", what.trim())).hint(
            "it has `description`, `source`, `input` and `output`; a length is a number, or `{ p50 = …, p95 = … }`",
        )
    };
    let workload: Workload = toml::from_str(text).map_err(|error| fault(error.message()))?;
    for (what, lengths) in [("input", workload.input), ("output", workload.output)] {
        if lengths.p50 == 0 || lengths.p95 < lengths.p50 {
            return Err(fault(&format!("`{what}` is at least 1 token, and p95 is at least p50")));
        }
    }
    Ok(workload)
}

fn unknown_workload(name: &str) -> Fault {
    let names = quoted(shipped::workloads());
    let known = format!("the workloads are {names}; or name a TOML file of your own");
    Fault::usage(format!("there is no workload `{name}`")).hint(match nearest(name, shipped::workloads()) {
        Some(near) => format!("did you mean `{near}`? {known}"),
        None => known,
    })
}

/// Reads files that the command line passes to a shipped script (in any parameter) or that `--allow mount=PATH` allows,
/// and writes files into the run's folder.
#[export_module]
pub mod files {
    /// The text of a file, up to 4 MiB. A resumed run replays the earlier text.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file that the user did not permit; `usage` if it does not exist or is not text; `limit` if
    /// it is larger.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ notes: param((), "a file to quote") });
    /// let text = if p.notes == () { "" } else { files::text(p.notes) };
    /// ```
    #[rhai_fn(return_raw)]
    pub fn text(context: NativeCallContext, path: &str) -> Caught<String> {
        Ok(read_text(&begin_call(&context), path)?)
    }

    /// The lines of a file without line ends, including blank lines.
    ///
    /// # Errors
    ///
    /// The errors of `files::text`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ models: param((), "a file with a model a line") });
    /// let models = if p.models == () { [] } else { files::lines(p.models) };
    /// ```
    #[rhai_fn(return_raw)]
    pub fn lines(context: NativeCallContext, path: &str) -> Caught<rhai::Array> {
        let text = read_text(&begin_call(&context), path)?;
        Ok(text.lines().map(|line| Dynamic::from(line.to_owned())).collect())
    }

    /// The content of a YAML file: maps, arrays, strings, numbers, booleans, `()`.
    ///
    /// # Errors
    ///
    /// The errors of `files::text`; `usage` with line and column for invalid YAML.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ batch: param((), "a YAML file of configurations") });
    /// let batch = if p.batch == () { #{} } else { files::yaml(p.batch) };
    /// ```
    #[rhai_fn(return_raw)]
    pub fn yaml(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_document(&begin_call(&context), path, "YAML")?)?)
    }

    /// The content of a JSON file.
    ///
    /// # Errors
    ///
    /// The errors of `files::text`; `usage` with line and column for invalid JSON.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ known: param((), "a JSON file of figures") });
    /// let known = if p.known == () { #{} } else { files::json(p.known) };
    /// ```
    #[rhai_fn(return_raw)]
    pub fn json(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_document(&begin_call(&context), path, "JSON")?)?)
    }

    /// The lengths of a workload: `#{ name, description, source, input, output }`, each length as `#{ p50, p95 }` in
    /// tokens. It is a shipped one (`chat`, `code`, `rag`, `agent`, `longchat`) or a TOML file with the keys
    /// `description`, `source`, `input` and `output`, where a length is a number or `{ p50 = …, p95 = … }`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name or key; for a file, those of `files::text`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let chat = files::workload("chat");
    /// assert(chat.input.p95 > chat.input.p50 && chat.source.contains("Azure"));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn workload(context: NativeCallContext, name: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_workload(&begin_call(&context), name)?)?)
    }

    /// Writes a text to `files/NAME` in the run's folder, atomically replacing an existing file. Returns its path, `()`
    /// if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads out of the folder; `io` if it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// files::write("summary.md", "# what was found\n");
    /// ```
    #[rhai_fn(name = "write", return_raw)]
    pub fn put(context: NativeCallContext, name: &str, text: &str) -> Caught<Dynamic> {
        Ok(written(begin_call(&context).run.write_file(name, text)?))
    }

    /// Writes a text to a file outside of the run's folder, atomically replacing an existing one; missing folders are
    /// made, and links are followed. The file is one that the command line names as `output` of a shipped script, or
    /// lies in a folder that `--allow mount=PATH` allows. Returns its real path. A dry run writes nothing.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` for a path that is no name of a file; `io` if it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ output: param((), "a file to write") });
    /// if p.output != () { files::save(p.output, "{}"); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn save(context: NativeCallContext, path: &str, text: &str) -> Caught<String> {
        let host = begin_call(&context);
        let file = host.permits.check_output(path)?;
        if !host.settings.dry_run {
            write_output(&file, text)?;
        }
        Ok(file.display().to_string())
    }

    /// Checks that `files::save` may and can write this file, and returns its real path, which `files::save` takes too:
    /// before a long measurement, and in a dry run. A resumed run gets the path of its first execution, whatever the
    /// current folder.
    ///
    /// # Errors
    ///
    /// The errors of `files::save`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ output: param((), "a file to write") });
    /// if p.output != () { files::check_save(p.output); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn check_save(context: NativeCallContext, path: &str) -> Caught<String> {
        let host = begin_call(&context);
        let absolute = journaled(&host, Operation::File, json!({ "output": path }), || {
            let absolute = std::path::absolute(path).map_err(|error| Fault::usage(format!("`{path}`: {error}")))?;
            // A name that ends with a slash is that of a folder.
            let end = if path.ends_with('/') { "/" } else { "" };
            Ok(format!("{}{end}", absolute.display().to_string().trim_end_matches('/')).into())
        })?;
        let file = host
            .permits
            .check_named_output(path, absolute.as_str().unwrap_or(path))?;
        Ok(file.display().to_string())
    }

    /// Appends a text to `files/NAME` in the run's folder. The first call in each execution of a run truncates the
    /// file, because a resumed script repeats its calls. Returns its path, `()` if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads out of the folder; `io` if it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// files::append("rows.csv", "model,tokens\n");
    /// files::append("rows.csv", "a,1024\n");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn append(context: NativeCallContext, name: &str, text: &str) -> Caught<Dynamic> {
        Ok(written(begin_call(&context).run.append_file(name, text)?))
    }

    /// Reads the loads of a run's folder, or of a file of another tool, as points between users and GPUs: `#{ engine, model,
    /// simulated, unfinished, points }`, `unfinished` says how a run ended early.
    ///
    /// A point is `#{ engine, settings, launch, input, output, workload, level, concurrency, figures, gpus, per_user, per_gpu,
    /// cost, origin, role, command }`: lengths in tokens, `concurrency` `()` for a request rate, `per_user` and `per_gpu`
    /// output tokens/s, `cost` $ per million output tokens, `origin` `measured`, `simulated` or `forecast`, `command` what
    /// measures it again. `figures` has `request_throughput`, `mean_e2el_ms`, `p95_ttft_ms` and the like, as far as they
    /// were measured.
    ///
    /// The command line must name it, as for `files::results`.
    ///
    /// # Errors
    ///
    /// `not_allowed` if the user did not permit it; `usage` if it is neither.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ runs: param([], "runs to read") });
    /// let points = p.runs.reduce(|all, run| all + files::serving(run).points, []);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn serving(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_serving(&begin_call(&context), path)?)?)
    }

    /// Reads the boundary in a file of another tool: `#{ format, model, gpus, axes, points, notes }`; `gpus` is `()` if the
    /// file names none.
    ///
    /// `points` is a list of `#{ point, answer }` in the order of the file, for `map.record(point, answer)`. An answer
    /// moves the boundary only if the file says that memory ran out. `notes` lists what is uncertain in the file.
    ///
    /// A file is read only if the command line passes it to a shipped script, or if `--allow mount=PATH` allows it. A
    /// resumed run replays the earlier result.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` if it does not exist, has no known format, or contains no boundary.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ resume_from: param((), "a file of tgi-profiler to go on from") });
    /// let earlier = if p.resume_from == () { [] } else { files::results(p.resume_from).points };
    /// let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
    /// for row in earlier {
    ///     map.record(row.point, row.answer);
    /// }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn results(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_results_file(&begin_call(&context), path)?)?)
    }

    /// Writes a boundary into the run's folder in another tool's format, and returns the path of the file; `()` if the
    /// run has no folder. The only format is `"tgi-profiler"`: `profile_res_<UTC time>.json`, over `input` and
    /// `output`.
    ///
    /// Options: `model` (`""`), `gpus` (`[0]`), `search` (`#{}`), the options of `neighbours::search`, and
    /// `output_tolerance` (0): tokens, written as a share of the shortest output, or a share such as `"5%"`. That format has only success
    /// and failure. An inconclusive point is written as a failure, with our verdict as `error_type` and its cause and
    /// message as `error_msg`, so that `files::results` and `profiler show` recognize it. Each point has the time at
    /// which it was recorded; one from such a file keeps the time and the words of that file. For a short output only the verdict is
    /// kept, not what it proves.
    ///
    /// # Errors
    ///
    /// `usage` for another format, or a boundary over other axes; `io` if the file cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
    /// map.record(#{ input: 1000, output: 500 }, "ok");
    /// files::write_results(map, "tgi-profiler", #{ model: "Qwen/Qwen3-8B" });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn write_results(
        context: NativeCallContext,
        map: BoundaryHandle,
        format: &str,
        options: Map,
    ) -> Caught<Dynamic> {
        if format != "tgi-profiler" {
            let fault = Fault::usage(format!("results cannot be written as `{format}`"));
            return Err(fault.hint("the only format is `tgi-profiler`").into());
        }
        let host = begin_call(&context);
        let options = crate::script::options::<TgiProfiler>(options)?;
        let times = map.times(&host);
        let document = options.document(&map.lock(), &times)?;
        Ok(written(host.run.export("profile_res", &document)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_workload_is_valid() {
        assert!(shipped::workloads().count() >= 5);
        for name in shipped::workloads() {
            parse_workload(name, &shipped::workload(name).unwrap()).unwrap();
        }
    }

    #[test]
    fn a_length_is_a_number_or_two_percentiles_and_nothing_else() {
        let text = |input: &str| format!("description = \"a\"\nsource = \"b\"\noutput = 5\ninput = {input}");
        let fixed = parse_workload("x", &text("10")).unwrap();
        assert_eq!(fixed.input, Lengths { p50: 10, p95: 10 });
        let both = parse_workload("x", &text("{ p50 = 10, p95 = 30 }")).unwrap();
        assert_eq!(both.input, Lengths { p50: 10, p95: 30 });
        assert_eq!(both.output, Lengths { p50: 5, p95: 5 });
        for wrong in ["{ p50 = 30, p95 = 10 }", "0", "{ p50 = 1, p99 = 3 }", "10\nrate = 3"] {
            parse_workload("x", &text(wrong)).unwrap_err();
        }
    }
}
