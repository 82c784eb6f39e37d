//! Memory by component: checks a script's findings and makes them add up.

use rhai::Map;
use rhai::plugin::*;
use serde::Deserialize;
use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::memory::{BaselineMemory, Breakdown, Component, Footprint, Part};
use crate::run::Event;
use crate::script::{Caught, host, options, to_script};

/// Memory by component.
#[export_module]
pub mod memory {
    /// Shows and records how the memory of an engine is used, and returns it as `#{ all, per_gpu, overhead, details }`.
    /// `memory::breakdown` of `std/memory` determines the parts; this makes them add up.
    ///
    /// `given` is `#{ devices, weights, one_gpu, details }`. `devices` are `#{ device, total, parts }`: an id, or `()`
    /// if there is only one; the physical bytes; and the parts `#{ component, bytes, provenance, source, within }`. A
    /// component is one of `weights`, `kv_pool`, `kv_used`, `activations`, `cuda_graphs`, `runtime_context`,
    /// `other_tenants`; a provenance one of `measured`, `engine_reported`, `computed`, `assumed`; `source` describes
    /// how the value was obtained; `within` names the component that contains a part, which is then not added. The
    /// difference between the total and the parts becomes `unexplained`; it is negative if the parts exceed the total.
    /// The overhead of tensor parallelism follows from `one_gpu`, the same engine's breakdown on one GPU
    /// (`#{ total, parts }`), or else from `weights`, the part of one copy of the weights; `()` if neither is given.
    /// `details` is shown and recorded with it.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown component or provenance, or a part that is duplicate, negative, or larger than its
    /// container.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let parts = [#{ component: "weights", bytes: 60, provenance: "measured", source: "by hand" }];
    /// let found = note_breakdown("mine", #{ devices: [#{ device: "gpu0", total: 100, parts: parts }] });
    /// assert(found.all.parts[1].component == "unexplained" && found.all.parts[1].bytes == 40);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn note_breakdown(context: NativeCallContext, name: &str, given: Map) -> Caught<Dynamic> {
        let given: Given = options(given)?;
        let devices = given.devices.into_iter().map(GivenDevice::breakdown);
        let one_gpu = given.one_gpu.map(GivenDevice::breakdown).transpose()?;
        let alone = match (&one_gpu, &given.weights) {
            (Some(one), _) => Some(BaselineMemory::OneGpu(one)),
            (None, weights) => weights.as_ref().map(BaselineMemory::Weights),
        };
        let footprint = Footprint::new(devices.collect::<Result<_, Fault>>()?, alone, given.details)?;
        let value = serde_json::to_value(&footprint).map_err(|error| Fault::internal(error.to_string()))?;
        let name = name.to_owned();
        host(&context).run.note(Event::Breakdown { name, value })?;
        Ok(to_script(&footprint)?)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    devices: Vec<GivenDevice>,
    #[serde(default)]
    weights: Option<Part>,
    #[serde(default)]
    one_gpu: Option<GivenDevice>,
    #[serde(default)]
    details: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenDevice {
    #[serde(default)]
    device: Option<String>,
    total: u64,
    parts: Vec<Part>,
}

impl GivenDevice {
    /// An existing breakdown may be passed in again: `unexplained` is recomputed.
    fn breakdown(self) -> Result<Breakdown, Fault> {
        let parts = self.parts.into_iter();
        let known = parts.filter(|part| part.component != Component::Unexplained);
        Breakdown::new(self.device, self.total, known.collect())
    }
}
