//! What a script says and keeps while it runs.

use rhai::plugin::*;

use crate::fault::Fault;
use crate::run::Event;
use crate::script::{Caught, from_script, host};

/// What a script says and keeps while it runs.
#[export_module]
pub mod record {
    /// Keeps a value under a name in the run's journal: numbers, strings, booleans, `()`, arrays and maps of them.
    ///
    /// # Errors
    ///
    /// `usage` when the name is empty, or the value holds a function, a handle or a number that is not finite; `io` when
    /// the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// record("tokens_per_second", #{ input: 512, value: 1834.5 });
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn record(context: NativeCallContext, name: &str, value: Dynamic) -> Caught<()> {
        let host = host(&context);
        if name.is_empty() {
            return Err(Fault::usage("`record` needs a name").into());
        }
        let value = from_script(&value).map_err(|fault| fault.while_doing(format!("record `{name}`")))?;
        let name = name.to_owned();
        Ok(host.run.note(Event::Record { name, value })?)
    }

    /// Tells the reader of the run something, as `print` does.
    ///
    /// # Errors
    ///
    /// `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// note("the second pass begins");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn note(context: NativeCallContext, text: &str) -> Caught<()> {
        let text = text.to_owned();
        Ok(host(&context).run.note(Event::Print { text })?)
    }

    /// Shows a result as text of your own, and gives it back: as a script's last expression, people see the text and `--json` has
    /// the value.
    ///
    /// # Errors
    ///
    /// `usage` when the value holds a function, a handle or a number that is not finite; `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(show([1, 2, 4], "1, 2 and 4 at once fit") == [1, 2, 4]);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn show(context: NativeCallContext, value: Dynamic, text: &str) -> Caught<Dynamic> {
        let kept = from_script(&value).map_err(|fault| fault.while_doing("show a result"))?;
        let text = text.to_owned();
        host(&context).run.note(Event::Shown { value: kept, text })?;
        Ok(value)
    }

    /// Warns the reader of the results; the same text is kept once. Warnings are part of `result.json` and of every report.
    ///
    /// # Errors
    ///
    /// `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// warn("the first request was slow and is left out");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn warn(context: NativeCallContext, text: &str) -> Caught<()> {
        Ok(host(&context).run.warn(text)?)
    }
}
