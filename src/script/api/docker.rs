//! Containers by hand.

use rhai::Map;
use rhai::plugin::*;

use crate::runtime::RuntimeKind;
use crate::script::service::Service;
use crate::script::{Caught, host};

/// Containers by hand. Engines are started by `engines::launch`; this is for everything beside them.
#[export_module]
pub mod docker {
    /// Starts a container and gives it as a service. It ends with the run at the latest.
    ///
    /// Options: `image`; `entrypoint`, `args` (arrays of strings); `env` (a map of strings); `port` (the one inside; it is published on a
    /// free port of 127.0.0.1, see `url`); `mounts` (`#{ host, container, writable }` each); `gpus` (indices or UUIDs); `shm_size`,
    /// `memory_limit` (bytes; there is no swap beyond it); `ulimits` (a map of `memlock` and `stack`, bytes; -1: none); `files` (a map from plain names to texts, which lie in the folder that
    /// `{files}` in `args` and `env` stands for); `stop_grace` (seconds); `cache` (where the image keeps its hub cache) and
    /// `token` (true: it needs the Hugging Face token).
    ///
    /// Mounts need `--allow mount=DIR`. The model cache (`cache`, read-only) is shown only with `--allow image=PREFIX`, the token given only
    /// with `--allow token`: without them the container starts with neither, and a warning says so. `privileged`, `network: "host"`,
    /// `pid`, `ipc`, `devices`, `capabilities`, `security` and the Docker socket are always refused.
    ///
    /// # Errors
    ///
    /// `not_allowed`, before anything starts, naming what the user did not allow; `missing` when there is no Docker daemon, no permission for
    /// its socket, no such image, no GPU or no room on the disk; `usage` for an option that does not fit.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// let server = docker::start(#{ image: "ollama/ollama:0.12.0", port: 11434, memory_limit: 8_000_000_000 });
    /// print(server.url);
    /// server.stop();
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn start(context: NativeCallContext, options: Map) -> Caught<Service> {
        let launch = crate::script::options(options)?;
        Ok(Service::start(&host(&context), RuntimeKind::Docker, &launch)?)
    }
}
