//! The GPUs of this machine.

use rhai::Array;
use rhai::plugin::*;

use crate::fault::Result;
use crate::script::{Caught, to_script};
use crate::telemetry;

/// The GPUs of this machine.
#[export_module]
pub mod gpu {
    /// The GPUs of this machine, as maps of `index`, `id` (the UUID), `name`, `vendor` (`"nvidia"` or `"amd"`), `used` and `total`
    /// (bytes), and `driver` (its version, or `()`). Empty where there are none: `gpu::absent()` says why.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let gpus = gpu::list();
    /// assert(gpus.is_empty() == (gpu::absent() != ()));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn list() -> Caught<Array> {
        let gpus = telemetry::gpus().unwrap_or_default();
        Ok(gpus.iter().map(to_script).collect::<Result<_>>()?)
    }

    /// Why there is no GPU, or `()` where there is one.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let why = gpu::absent();
    /// if why != () { print(`no GPU: ${why}`); }
    /// ```
    #[rhai_fn(volatile)]
    pub fn absent() -> Dynamic {
        telemetry::gpus().map_or_else(|absent| absent.why.into(), |_| Dynamic::UNIT)
    }

    /// One look at every GPU: a map of `devices` (maps of `id`, `name`, `used` and `total`, in bytes), `tenants` (the processes on them:
    /// maps of `pid`, `device`, and `used` in bytes, or `()` where the driver does not tell) and `activity` (maps of `device`, `power_mw` in
    /// milliwatts and `busy_percent`, `()` where the driver does not tell). `total` is what programs can have: without what the driver keeps
    /// for itself. A GPU that MIG divides is listed as its instances.
    ///
    /// # Errors
    ///
    /// `missing` when there is no GPU, or its driver cannot be asked.
    ///
    /// # Example
    ///
    /// ```rhai,needs-gpu
    /// let look = gpu::sample();
    /// assert(look.devices[0].used <= look.devices[0].total);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn sample() -> Caught<Dynamic> {
        Ok(to_script(&telemetry::look()?)?)
    }
}
