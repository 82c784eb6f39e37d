//! The server that an adapter's `ready(engine)` looks at.

use std::time::Duration;

use rhai::Map;
use rhai::plugin::*;

use crate::fault::Fault;
use crate::script::asking::{PATIENCE, Server};
use crate::script::{Caught, from_script, host, to_script};

/// The server that an adapter's `ready(engine)` looks at.
#[export_module]
pub mod server {
    /// Asks the engine's server for a path, as an adapter's `ready` does, and gives `#{ status, body }`: the HTTP status (0
    /// when there was no answer, the reason then being the body) and the text. It waits at most five seconds.
    ///
    /// # Errors
    ///
    /// `usage` when the path does not begin with `/`.
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

    /// Sends a map as JSON to a path of the engine's server, and gives `#{ status, body }` as `get` does.
    ///
    /// # Errors
    ///
    /// `usage` when the path does not begin with `/`, or the map has no JSON form.
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
        send(&context, engine, path, body, PATIENCE)
    }

    /// The same, and it may take so many seconds (an int or a float): for a server whose answer comes when a model is loaded.
    ///
    /// # Errors
    ///
    /// `usage` when the path does not begin with `/`, the map has no JSON form, or `seconds` is no number of seconds.
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
        let patience = number
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| Fault::usage(format!("`{seconds}` is no number of seconds")))?;
        send(&context, engine, path, body, patience)
    }

    /// What `launch(options)` got; of an engine that was attached to, with `runtime` `attach` and without `limits`.
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

fn send(context: &NativeCallContext, engine: &Server, path: &str, body: Map, patience: Duration) -> Caught<Dynamic> {
    let body = from_script(&Dynamic::from(body))?;
    Ok(to_script(&engine.post(&host(context).tasks, path, &body, patience)?)?)
}
