//! Native processes started by a script.

use rhai::Map;
use rhai::plugin::*;

use crate::runtime::RuntimeKind;
use crate::script::service::Service;
use crate::script::{Caught, host};

/// Native processes started by a script. They are not confined, so they need `--allow process`.
#[export_module]
pub mod process {
    /// Starts a program on this machine and returns it as a service. It is stopped, with all its children, at the end
    /// of the run at the latest.
    ///
    /// Options: `command` (the program and its arguments); `env` (a map of strings, added to the environment of
    /// profiler without the Hugging Face token); `port` (a fixed one; otherwise `{port}` in `command` and `env` stands
    /// for a free port); `files` (a map from file names to texts; `{files}` stands for their temporary folder); `token`
    /// (true: the Hugging Face token is needed, passed with `--allow token`); `stop_grace` (seconds).
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`; `missing` if there is no such program, or the port is taken; `usage`
    /// for an invalid option.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let once = process::start(#{ command: ["echo", "hello"] });
    /// once.wait();
    /// assert(once.logs() == ["hello"]);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn start(context: NativeCallContext, options: Map) -> Caught<Service> {
        let launch = crate::script::options(options)?;
        Ok(Service::start(&host(&context), RuntimeKind::Process, &launch)?)
    }
}
