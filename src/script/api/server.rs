//! The server that an adapter's `ready(engine)` looks at.

use rhai::Map;
use rhai::plugin::*;

use crate::script::asking::Server;
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
        let body = from_script(&Dynamic::from(body))?;
        Ok(to_script(&engine.post(&host(&context).tasks, path, &body)?)?)
    }
}
