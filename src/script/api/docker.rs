//! Containers started by a script.

use rhai::Map;
use rhai::plugin::*;

use crate::runtime::RuntimeKind;
use crate::script::service::Service;
use crate::script::{Caught, host};

/// Containers started by a script. Engines are started by `engines::launch`; this is for anything else.
#[export_module]
pub mod docker {
    /// Starts a container and returns it as a service. It is stopped at the end of the run at the latest.
    ///
    /// Options: `image`; `entrypoint`, `args` (arrays of strings); `env` (a map of strings); `port` (inside the
    /// container; published on a free port of 127.0.0.1, see `url`); `mounts` (`#{ host, container, writable }` each);
    /// `gpus` (indices or UUIDs); `shm_size`, `memory_limit` (bytes, without swap); `ulimits` (a map of `memlock` and
    /// `stack` in bytes; -1 means unlimited); `files` (a map from file names to texts; `{files}` in `args` and `env`
    /// stands for their folder); `stop_grace` (seconds); `cache` (the path of the hub cache in the image) and `token`
    /// (true: the Hugging Face token is needed).
    ///
    /// Mounts need `--allow mount=DIR`. The model cache (`cache`, read-only) is mounted only with
    /// `--allow image=PREFIX`, and the token passed only with `--allow token`; otherwise the container starts without
    /// them, and a warning says so. `privileged`, `network: "host"`, `pid`, `ipc`, `devices`, `capabilities`,
    /// `security` and the Docker socket are always refused.
    ///
    /// # Errors
    ///
    /// `not_allowed`, before anything starts, with the permission that is missing; `missing` if there is no Docker
    /// daemon, no permission for its socket, no such image, no GPU or no disk space; `usage` for an invalid option.
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
