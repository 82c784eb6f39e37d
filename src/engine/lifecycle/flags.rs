//! Command-line flags for production.

use super::engine::Engine;
use crate::fault::{Fault, Result};
use crate::run::Limits;
use crate::runtime::RuntimeKind;

/// Production command-line flags for these limits, or for those of the running engine.
pub fn flags(engine: &Engine, limits: Option<Limits>) -> Result<Vec<String>> {
    let running = engine.lock().running.as_ref().and_then(|running| running.limits);
    let limits = limits
        .or(running)
        .or(engine.options.limits.map(Into::into))
        .ok_or_else(|| Fault::usage("flags need limits").hint("give `#{ input, output, concurrency }`"))?;
    production_flags(engine, limits, true)
}

/// Production command-line flags for these limits. `concurrency`: whether to limit the number of concurrent requests.
pub fn production_flags(engine: &Engine, limits: Limits, concurrency: bool) -> Result<Vec<String>> {
    let mut flags = engine.adapter.flags(&limits, concurrency)?;
    // The operator of an attached engine already knows how it was started.
    if engine.runtime != RuntimeKind::Attach {
        flags.extend(engine.adapter.settings(&engine.adapter_options(Some(limits)))?);
    }
    Ok(flags)
}
