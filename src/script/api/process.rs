//! Native processes by hand.

use rhai::Map;
use rhai::plugin::*;

use crate::runtime::RuntimeKind;
use crate::script::service::Service;
use crate::script::{Caught, host};

/// Native processes by hand. They need the user's `--allow process`: nothing confines them.
#[export_module]
pub mod process {
    /// Starts a program of this machine and gives it as a service. It ends, with everything that it started, with the run at the latest.
    ///
    /// Options: `command` (the program and its arguments); `env` (a map of strings, added to the environment of profiler without the
    /// Hugging Face token); `port` (one that it must have; otherwise `{port}` in `command` and `env` stands for a free one that the kernel
    /// chose); `files` (a map from plain names to texts, which lie in the temporary folder that `{files}` stands for); `token` (true: it needs the Hugging Face token, given with `--allow token`); `stop_grace` (seconds).
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`; `missing` when there is no such program, or the port is taken; `usage` for an option that
    /// does not fit.
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
