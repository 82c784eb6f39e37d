//! The server that an adapter's `ready(engine)` checks.

use std::time::Duration;

use rhai::Map;
use rhai::plugin::*;

use crate::fault::Fault;
use crate::script::ready_server::{REQUEST_TIMEOUT, Server};
use crate::script::{Caught, from_script, host, to_script};

/// The server that an adapter's `ready(engine)` checks.
#[export_module]
pub mod server {
    /// Sends a GET request to the engine's server, and returns `#{ status, body }`: the HTTP status (0 without a
    /// response; `body` is then the reason) and the text. The timeout is five seconds.
    ///
    /// # Errors
    ///
    /// `usage` if the path does not start with `/`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.get("/health").status == 200
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn get(context: NativeCallContext, engine: &mut Server, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&engine.get(&host(&context).tasks, path)?)?)
    }

    /// Sends a map as JSON to a path of the engine's server, and returns `#{ status, body }` like `get`.
    ///
    /// # Errors
    ///
    /// `usage` if the path does not start with `/`, or the map has no JSON form.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.post("/api/show", #{ model: "tiny" }).status == 200
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn post(context: NativeCallContext, engine: &mut Server, path: &str, body: Map) -> Caught<Dynamic> {
        send(&context, engine, path, body, REQUEST_TIMEOUT)
    }

    /// Like `post`, with a timeout in seconds (an int or a float): for a server that responds only when a model is
    /// loaded.
    ///
    /// # Errors
    ///
    /// `usage` if the path does not start with `/`, the map has no JSON form, or `seconds` is not a valid number of
    /// seconds.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.post("/api/generate", #{ model: "tiny" }, engine.options.start_timeout).status == 200
    /// }
    /// ```
    #[rhai_fn(name = "post", return_raw, volatile, pure)]
    pub fn post_within(
        context: NativeCallContext,
        engine: &mut Server,
        path: &str,
        body: Map,
        seconds: Dynamic,
    ) -> Caught<Dynamic> {
        let number = seconds
            .as_float()
            .or_else(|_| seconds.as_int().map(|seconds| seconds as f64));
        let timeout = number
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| Fault::usage(format!("`{seconds}` is not a valid number of seconds")))?;
        send(&context, engine, path, body, timeout)
    }

    /// The argument of `launch(options)`; for an attached engine, with `runtime` `attach` and without `limits`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// fn ready(engine) {
    ///     engine.post("/api/show", #{ model: engine.options.model }).status == 200
    /// }
    /// ```
    #[rhai_fn(get = "options", pure)]
    pub fn options(engine: &mut Server) -> Dynamic {
        engine.options.clone()
    }
}

fn send(context: &NativeCallContext, engine: &Server, path: &str, body: Map, timeout: Duration) -> Caught<Dynamic> {
    let body = from_script(&Dynamic::from(body))?;
    Ok(to_script(&engine.post(&host(context).tasks, path, &body, timeout)?)?)
}
