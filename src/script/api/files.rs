//! Script API of files: permitted files, files of the run's folder, and results of other tools.

use rhai::Map;
use rhai::plugin::*;

use crate::script::inputs::read_workload;
use crate::script::inputs::{WriteMode, read_document, read_results_file, read_text, write_results_file, write_text};
use crate::script::{BoundaryHandle, Caught, host, to_script};

/// Reads files that the command line names to a shipped script (in any parameter) or that `--allow mount=PATH` allows, and writes
/// files into the run's folder.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn text(context: NativeCallContext, path: &str) -> Caught<String> {
        Ok(read_text(&host(&context), path)?)
    }

    /// The lines of a file without line ends, including blank lines.
    ///
    /// # Errors
    ///
    /// As `files::text`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ models: param((), "a file with a model a line") });
    /// let models = if p.models == () { [] } else { files::lines(p.models) };
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn lines(context: NativeCallContext, path: &str) -> Caught<rhai::Array> {
        let text = read_text(&host(&context), path)?;
        Ok(text.lines().map(|line| Dynamic::from(line.to_owned())).collect())
    }

    /// The content of a YAML file: maps, arrays, strings, numbers, booleans, `()`.
    ///
    /// # Errors
    ///
    /// As `files::text`; `usage` with line and column for invalid YAML.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ batch: param((), "a YAML file of configurations") });
    /// let batch = if p.batch == () { #{} } else { files::yaml(p.batch) };
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn yaml(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_document(&host(&context), path, "YAML")?)?)
    }

    /// The content of a JSON file.
    ///
    /// # Errors
    ///
    /// As `files::text`; `usage` with line and column for invalid JSON.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ known: param((), "a JSON file of figures") });
    /// let known = if p.known == () { #{} } else { files::json(p.known) };
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn json(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_document(&host(&context), path, "JSON")?)?)
    }

    /// The lengths of a workload: `#{ name, description, source, input, output }`, each length as `#{ p50, p95 }` in
    /// tokens. It is a shipped one (`chat`, `code`, `rag`, `agent`, `longchat`) or a TOML file with the keys
    /// `description`, `source`, `input` and `output`, where a length is a number or `{ p50 = …, p95 = … }`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name or key; as `files::text` for a file.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let chat = files::workload("chat");
    /// assert(chat.input.p95 > chat.input.p50 && chat.source.contains("Azure"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn workload(context: NativeCallContext, name: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_workload(&host(&context), name)?)?)
    }

    /// Writes a text to `files/NAME` in the run's folder, atomically replacing an existing file. Returns its path, `()`
    /// if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads elsewhere; `io` if it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// files::write("summary.md", "# what was found\n");
    /// ```
    #[rhai_fn(name = "write", return_raw, volatile)]
    pub fn put(context: NativeCallContext, name: &str, text: &str) -> Caught<Dynamic> {
        write_text(&host(&context), name, text, WriteMode::Replace)
    }

    /// Appends a text to `files/NAME` in the run's folder. The first call in each execution of a run truncates the
    /// file, because a resumed script repeats its calls. Returns its path, `()` if the run has no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads elsewhere; `io` if it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// files::append("rows.csv", "model,tokens\n");
    /// files::append("rows.csv", "a,1024\n");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn append(context: NativeCallContext, name: &str, text: &str) -> Caught<Dynamic> {
        write_text(&host(&context), name, text, WriteMode::Append)
    }
}

/// Reads and writes results of other tools.
#[export_module]
pub mod results {
    /// Reads the boundary in a file of another tool: `#{ format, model, axes, points, notes }`.
    ///
    /// `points` is a list of `#{ point, answer }` in the order of the file, for `map.record(point, answer)`. An answer
    /// moves the boundary only if the file says that memory ran out. `notes` lists what is uncertain in the file.
    ///
    /// A file is read only if the command line names it to a shipped script, or if `--allow mount=PATH` allows it. A resumed run replays the earlier result.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` if it does not exist, has no known format, or contains no boundary.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ resume_from: param((), "a file of tgi-profiler to go on from") });
    /// let earlier = if p.resume_from == () { [] } else { read_results(p.resume_from).points };
    /// let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
    /// for row in earlier {
    ///     map.record(row.point, row.answer);
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn read_results(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read_results_file(&host(&context), path)?)?)
    }

    /// Writes a boundary into the run's folder in another tool's format, and returns the path of the file; `()` if the
    /// run has no folder. The only format is `"tgi-profiler"`: `profile_res_<UTC time>.json`, over `input` and
    /// `output`.
    ///
    /// Options: `model` (`""`), `gpus` (`[0]`), `search` (`#{}`), the options of `neighbours::search`, and
    /// `output_tolerance` (0 tokens), which is written as a share of the shortest output. That format has only success
    /// and failure: an inconclusive point is a failure there, with our verdict as `error_type` and its cause as
    /// `error_msg`, by which `read_results` and `profiler show` recognize it. Of a short output only the verdict is
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
    /// export_results(map, "tgi-profiler", #{ model: "Qwen/Qwen3-8B" });
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn export_results(
        context: NativeCallContext,
        map: BoundaryHandle,
        format: &str,
        options: Map,
    ) -> Caught<Dynamic> {
        let path = write_results_file(&host(&context), &map, format, options)?;
        Ok(path.map_or(Dynamic::UNIT, |path| path.display().to_string().into()))
    }
}
