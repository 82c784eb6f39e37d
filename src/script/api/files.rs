//! Files: those that the user named, and those that a run leaves.

use rhai::plugin::*;

use crate::script::files::{Way, parsed, read, write};
use crate::script::{Caught, host, to_script};

/// Files that the user named on the command line, in any parameter, or that lie in a folder of `--allow mount=DIR`; and those that a run leaves.
#[export_module]
pub mod files {
    /// The text of a file, up to 4 MiB. A resumed run gets what it got before.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file that the user did not name; `usage` where there is none, or it is not text; `limit` for a larger one.
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

    /// The lines of a file without their ends, blank ones too.
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

    /// What a file of YAML holds: maps, arrays, strings, numbers, booleans, `()`.
    ///
    /// # Errors
    ///
    /// As `files::text`; `usage` with line and column for what is no YAML.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ batch: param((), "a YAML file of configurations") });
    /// let batch = if p.batch == () { #{} } else { files::yaml(p.batch) };
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn yaml(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&parsed(&host(&context), path, "YAML")?)?)
    }

    /// What a file of JSON holds.
    ///
    /// # Errors
    ///
    /// As `files::text`; `usage` with line and column for what is no JSON.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ known: param((), "a JSON file of figures") });
    /// let known = if p.known == () { #{} } else { files::json(p.known) };
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn json(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&parsed(&host(&context), path, "JSON")?)?)
    }

    /// Writes a text into the run's folder as `files/NAME`, in the place of what was written there; gives its path, `()` where the run leaves no folder. A
    /// reader sees all of before or all of now.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads elsewhere; `io` when it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// files::write("summary.md", "# what was found\n");
    /// ```
    #[rhai_fn(name = "write", return_raw, volatile)]
    pub fn put(context: NativeCallContext, name: &str, text: &str) -> Caught<Dynamic> {
        write(&host(&context), name, text, Way::Replace)
    }

    /// Adds a text to the end of `files/NAME` in the run's folder, which begins anew in each life of a run: a resumed script says again what it said.
    /// Gives its path, `()` where the run leaves no folder.
    ///
    /// # Errors
    ///
    /// `usage` for a name that leads elsewhere; `io` when it cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// files::append("rows.csv", "model,tokens\n");
    /// files::append("rows.csv", "a,1024\n");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn append(context: NativeCallContext, name: &str, text: &str) -> Caught<Dynamic> {
        write(&host(&context), name, text, Way::Append)
    }
}
