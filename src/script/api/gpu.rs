//! The GPUs of this machine.

use rhai::Array;
use rhai::plugin::*;

use crate::fault::Result;
use crate::script::{Caught, to_script};
use crate::telemetry;

/// The GPUs of this machine.
#[export_module]
pub mod gpu {
    /// The GPUs of this machine, as maps of `index`, `id` (the UUID), `name`, `vendor` (`"nvidia"` or `"amd"`), `used`
    /// and `total` (bytes), and `driver` (its version, or `()`). Empty if there are none: `gpu::absent()` returns the
    /// reason.
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

    /// Why there is no GPU, or `()` if there is one.
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

    /// One sample of every GPU: a map of `devices` (maps of `id`, `name`, `used` and `total`, in bytes), `tenants`
    /// (processes on them: maps of `pid`, `device`, and `used` in bytes, or `()` if the driver does not report it) and
    /// `activity` (maps of `device`, `power_mw` in milliwatts and `busy_percent`, `()` if the driver does not report
    /// it). `total` is what programs can use, without what the driver reserves. A GPU that is divided by MIG is listed
    /// as its instances.
    ///
    /// # Errors
    ///
    /// `missing` if there is no GPU, or its driver does not respond.
    ///
    /// # Example
    ///
    /// ```rhai,needs-gpu
    /// let look = gpu::sample();
    /// assert(look.devices[0].used <= look.devices[0].total);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn sample() -> Caught<Dynamic> {
        Ok(to_script(&telemetry::read_gpus()?)?)
    }
}
