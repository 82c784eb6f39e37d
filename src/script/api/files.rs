//! Files that the user permitted, and files of the run's folder.

use rhai::plugin::*;

use crate::script::files::{WriteMode, parse, read, write};
use crate::script::{Caught, host, to_script};

/// Reads files that are named on the command line (in any parameter) or in a folder of `--allow mount=DIR`, and writes
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
        Ok(read(&host(&context), path)?)
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
        let text = read(&host(&context), path)?;
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
        Ok(to_script(&parse(&host(&context), path, "YAML")?)?)
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
        Ok(to_script(&parse(&host(&context), path, "JSON")?)?)
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
        write(&host(&context), name, text, WriteMode::Replace)
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
        write(&host(&context), name, text, WriteMode::Append)
    }
}
