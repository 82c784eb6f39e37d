//! Script API of memory: breakdowns by component, fitted models, and estimates without starting anything.

use std::sync::Arc;

use rhai::plugin::*;
use rhai::{Array, Map};
use serde::Deserialize;
use serde_json::{Value, json};

use super::boundary::{number, to_point};
use super::files::journaled;
use crate::boundary::memory_model::{MemoryModel, Peak, PeakSample, Prior};
use crate::fault::{Fault, Kind, Result};
use crate::memory::{BaselineMemory, Breakdown, Component, EstimateRequest, Footprint, ModelFiles, Part};
use crate::prompt::Hub;
use crate::run::{Event, Operation};
use crate::script::convert::{deserialize_as, to_map};
use crate::script::host::{EngineHandle, ModelHandle};
use crate::script::{Caught, Host, begin_call, from_script, options, to_script, type_of};
use crate::{engine, memory as models, prompt, report};

/// Memory by component, as a result of the run.
#[export_module]
pub mod breakdown {
    /// Shows and records how the memory of an engine is used, and returns it as
    /// `#{ finding, all, per_gpu, overhead, details }`, where `finding` says in one sentence what uses the memory.
    /// `memory::breakdown` of `std/memory` determines the parts; this function makes them add up.
    ///
    /// `given` is `#{ devices, weights, one_gpu, details }`. `devices` are `#{ device, total, parts }`: an id, or `()`
    /// if there is only one; the bytes in use; and the parts `#{ component, bytes, provenance, source, within }`. A
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
    /// let found = breakdown::note("mine", #{ devices: [#{ device: "gpu0", total: 100, parts: parts }] });
    /// assert(found.all.parts[1].component == "unexplained" && found.all.parts[1].bytes == 40);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn note(context: NativeCallContext, name: &str, given: Map) -> Caught<Dynamic> {
        Ok(to_script(&record_breakdown(&context, name, given, None)?)?)
    }

    /// Keeps a preliminary breakdown, as `show_so_far` does for a result; `missing` in it names the measurements still to
    /// be made.
    ///
    /// # Errors
    ///
    /// As `breakdown::note`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let parts = [#{ component: "weights", bytes: 60, provenance: "measured", source: "by hand" }];
    /// let given = #{ devices: [#{ device: "gpu0", total: 100, parts: parts }] };
    /// breakdown::note_so_far("mine", given, "2 of 3 repeats");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn note_so_far(context: NativeCallContext, name: &str, given: Map, missing: &str) -> Caught<()> {
        record_breakdown(&context, name, given, Some(missing.to_owned()))?;
        Ok(())
    }
}

/// Memory models and estimates.
#[export_module]
pub mod memory {
    /// Fits a memory model to points that fitted and their peaks: weights, KV cache per token in flight (in whole
    /// blocks), activations per token of a prefill, and attention scores if they are visible. It is a prediction and
    /// proves nothing.
    ///
    /// `samples` are maps of `point` (any of `input`, `output`, `concurrency`), `peak` in bytes, and optionally
    /// `at_most: true` if the peak is only an upper limit, because memory of an earlier point was still in use.
    /// `architecture` contains known figures of the model, `()` or left out if unknown: `weight_bytes` and
    /// `kv_bytes_per_token` (as in `estimate`), which are lower limits, and `block`, the tokens of a KV cache block.
    ///
    /// # Errors
    ///
    /// `missing` if no model can be fitted: fewer than four samples, peaks that do not grow (an engine that allocates
    /// its memory in advance), or peaks that do not follow such a model. `usage` for an invalid sample, or another
    /// axis.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let samples = [[128, 128], [128, 4096], [4096, 128], [4096, 4096], [8192, 128], [128, 8192]]
    ///     .map(|at| #{ point: #{ input: at[0], output: at[1] }, peak: 2e9 + 100000.0 * (at[0] + at[1]) });
    /// let model = memory_model(samples, #{});
    /// let peak = model.predict(#{ input: 20000, output: 10000 });
    /// assert(peak.low < 5e9 && peak.high > 5e9 && peak.high - peak.low < 1e8);
    /// try {
    ///     memory_model(samples.extract(0, 2), #{});
    /// } catch (e) {
    ///     assert(e.kind == "missing");
    /// }
    /// ```
    #[rhai_fn(name = "memory_model", return_raw)]
    pub fn make(samples: Array, architecture: Map) -> Caught<ModelHandle> {
        let mut architecture = architecture;
        let samples = samples.into_iter().map(sample).collect::<Result<Vec<_>>>()?;
        architecture.retain(|_, value| !value.is_unit());
        let known: Prior = options(architecture)?;
        let minima = [known.weights, known.kv_bytes_per_token, known.block - 1.0];
        if !minima.iter().all(|value| value.is_finite() && *value >= 0.0) {
            return Err(Fault::usage(
                "`weight_bytes` and `kv_bytes_per_token` must be at least 0, and `block` at least 1",
            )
            .into());
        }
        let model = MemoryModel::fit(&samples, &known);
        Ok(ModelHandle(Arc::new(model.map_err(|error| {
            Fault::new(Kind::Missing, error.to_string()).hint("search without a model; the boundary's proofs need none")
        })?)))
    }

    /// The expected peak at a point: `#{ bytes, low, high }`. A measurement lies between `low` and `high` in 95 % of
    /// cases, if memory continues to follow the samples. `bytes` never decreases as a point grows.
    ///
    /// # Errors
    ///
    /// `usage` for a point with an axis other than `input`, `output` and `concurrency`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let samples = [1000, 2000, 3000, 4000, 5000].map(|tokens| #{ point: #{ input: tokens }, peak: 1e9 + 1e5 * tokens });
    /// let peak = memory_model(samples, #{}).predict(#{ input: 9000 });
    /// assert(peak.low < peak.bytes && peak.bytes < peak.high);
    /// ```
    #[rhai_fn(name = "predict", return_raw, pure)]
    pub fn predict_memory(model: &mut ModelHandle, point: Map) -> Caught<Map> {
        Ok(to_map(&peak(model, &point)?)?)
    }

    /// True if a point is expected to take at most `limit` bytes. A prediction: `map.classify` returns what is proven.
    ///
    /// # Errors
    ///
    /// `usage` for a point with an axis other than `input`, `output` and `concurrency`, and for a limit that is not a
    /// number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let samples = [1000, 2000, 3000, 4000, 5000].map(|tokens| #{ point: #{ input: tokens }, peak: 1e9 + 1e5 * tokens });
    /// let model = memory_model(samples, #{});
    /// assert(model.fits(#{ input: 9000 }, 2e9) && !model.fits(#{ input: 11000 }, 2e9));
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn fits(model: &mut ModelHandle, point: Map, limit: Dynamic) -> Caught<bool> {
        let bytes = number(&limit)
            .map_err(|kind| Fault::usage(format!("a memory limit must be bytes, not a value of type `{kind}`")))?;
        Ok(peak(model, &point)?.bytes <= bytes)
    }

    /// The model's parameters: `#{ form, base_bytes, bytes_per_token_held, bytes_per_token_of_input,
    /// bytes_per_token_of_input_squared, deviation, samples }`. `form` is `"sum"` if activations are kept during
    /// decode, or `"phases"` if the peak is the larger one of prefill and decode; `deviation` is the standard deviation
    /// of the samples from the model, in bytes; `samples` is their number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let samples = [1000, 2000, 3000, 4000, 5000].map(|tokens| #{ point: #{ input: tokens }, peak: 1e9 + 1e5 * tokens });
    /// let parts = memory_model(samples, #{}).parts();
    /// assert(parts.samples == 5 && parts.base_bytes > 0.9e9 && parts.base_bytes < 1.1e9);
    /// ```
    #[rhai_fn(pure)]
    pub fn parts(model: &mut ModelHandle) -> Map {
        let model = &model.0;
        let [base, held, input, squared] = model.coefficients();
        Map::from([
            ("form".into(), model.form().name().into()),
            ("base_bytes".into(), base.into()),
            ("bytes_per_token_held".into(), held.into()),
            ("bytes_per_token_of_input".into(), input.into()),
            ("bytes_per_token_of_input_squared".into(), squared.into()),
            ("deviation".into(), model.deviation().into()),
            (
                "samples".into(),
                i64::try_from(model.samples()).unwrap_or(i64::MAX).into(),
            ),
        ])
    }

    /// Estimates the memory that a model needs, from its architecture, as a map; all sizes in bytes. `model` is a
    /// folder with `config.json` below the script's folder or one permitted with `--allow mount=DIR`, or a model of the
    /// Hugging Face hub. At most the headers of the weights are read. A resumed run replays the earlier result.
    ///
    /// Options: `input` (2048) and `output` (256), tokens of each sequence; `concurrency` (1), concurrent sequences;
    /// `dtype`, `quantization` and `kv_cache_dtype`, instead of the model's own; `tensor_parallel` (1), ranks that
    /// share each layer; `prefill_chunk`, tokens of one full prefill step (default: all input of one sequence);
    /// `gpu_memory`, bytes of each GPU, and `memory_fraction` (0.9), the share of it that may be used; `offline`
    /// (false), whether to use only local files: a folder, or the hub's cache.
    ///
    /// The result has `family`, `parameters`, `positions`, `weight_bytes`, `dtype`, `quantization`, `kv_cache_dtype`,
    /// `kv_bytes_per_token` (for a sequence shorter than every window), `kv_bytes_per_token_per_rank`,
    /// `state_bytes_per_sequence` (recurrent layers), `layers` (maps of `count`, `kv_bytes_per_token`, `window`,
    /// `state_bytes`), `total` and `ranks` (breakdowns: maps of `device`, `total` and `parts`, which are maps of
    /// `component`, `bytes`, `provenance`, `source`), `fits` (`()` without `gpu_memory`; otherwise a map of `budget`,
    /// `kv_bytes` (left for the KV cache), `tokens` (that it holds), `sequences` (concurrent, of that length),
    /// `longest` (single sequence) and `fits`), `notes` (what the numbers do not include) and `question` (the
    /// arguments).
    ///
    /// # Errors
    ///
    /// `usage` for an unknown model family or quantization, or heads that the ranks cannot share; `missing` if there is
    /// no such model, or the hub does not provide it; `not_allowed` for a folder elsewhere.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     let needed = estimate("./my-model", #{ input: 8192, concurrency: 16, gpu_memory: 80 * 1024 * 1024 * 1024 });
    ///     print(`${needed.kv_bytes_per_token} bytes a token, ${needed.fits.sequences} sequences at once`);
    /// } catch (e) {
    ///     assert(e.kind == "missing");
    /// }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn estimate(context: NativeCallContext, model: &str, options: Map) -> Caught<Dynamic> {
        let model = engine::Architecture::Model(model.to_owned());
        Ok(to_script(&estimated(&begin_call(&context), &model, options)?)?)
    }

    /// Estimates the model of an engine, with the same options: the folder or hub model in its options; for an attached
    /// engine the model that it reports, unless its folder is given; for the simulated engine the model of its profile.
    ///
    /// # Errors
    ///
    /// Those for a model by name; `missing` also if no model is given.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let needed = estimate(engine, #{ input: 512, output: 64, offline: true });
    /// assert(needed.kv_bytes_per_token == 131072);
    /// ```
    #[rhai_fn(name = "estimate", return_raw)]
    pub fn estimate_of_engine(context: NativeCallContext, engine: &mut EngineHandle, options: Map) -> Caught<Dynamic> {
        let model = crate::engine::architecture(engine.0.first())?;
        Ok(to_script(&estimated(&begin_call(&context), &model, options)?)?)
    }
}

/// Records a breakdown, and returns it in the journal's form.
fn record_breakdown(context: &NativeCallContext, name: &str, given: Map, missing: Option<String>) -> Result<Value> {
    let given: Given = options(given)?;
    let devices = given.devices.into_iter().map(GivenDevice::breakdown);
    let one_gpu = given.one_gpu.map(GivenDevice::breakdown).transpose()?;
    let alone = match (&one_gpu, &given.weights) {
        (Some(one), _) => Some(BaselineMemory::OneGpu(one)),
        (None, weights) => weights.as_ref().map(BaselineMemory::Weights),
    };
    let footprint = Footprint::new(devices.collect::<Result<_, Fault>>()?, alone, given.details)?;
    let mut value = serde_json::to_value(&footprint).map_err(Fault::internal)?;
    value["finding"] = report::breakdown_finding(&footprint).into();
    let (name, kept) = (name.to_owned(), value.clone());
    begin_call(context).run.note(Event::Breakdown {
        name,
        value: kept,
        missing,
    })?;
    Ok(value)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    devices: Vec<GivenDevice>,
    weights: Option<Part>,
    one_gpu: Option<GivenDevice>,
    #[serde(default)]
    details: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenDevice {
    device: Option<String>,
    total: u64,
    parts: Vec<Part>,
}

impl GivenDevice {
    /// An existing breakdown may be passed in again: `unexplained` is recomputed.
    fn breakdown(self) -> Result<Breakdown, Fault> {
        let known = self
            .parts
            .into_iter()
            .filter(|part| part.component != Component::Unexplained);
        Breakdown::new(self.device, self.total, known.collect())
    }
}

fn sample(given: Dynamic) -> Result<PeakSample> {
    if !given.is_map() {
        let kind = type_of(&given);
        return Err(Fault::usage(format!(
            "a sample is a map with `point` and `peak`, not a value of type `{kind}`"
        )));
    }
    let sample: PeakSample = deserialize_as("key", from_script(&given)?)?;
    if !(sample.peak.is_finite() && sample.peak >= 0.0) {
        return Err(Fault::usage(format!("`peak` must be bytes, not {}", sample.peak)));
    }
    Ok(sample)
}

fn peak(model: &ModelHandle, point: &Map) -> Result<Peak> {
    let point = to_point(point)?;
    model.0.predict(&point).ok_or_else(|| {
        Fault::usage(format!("memory is not modelled at `{point}`"))
            .hint("points have `input`, `output` and `concurrency`, and no other axis")
    })
}

/// Estimates, or replays the journal: on a resume the answer must not depend on whether the hub is reachable. A missing
/// model is recorded as well.
fn estimated(host: &Host, model: &engine::Architecture, mut given: Map) -> Result<Value> {
    let offline = match given.remove("offline").map(|value| value.as_bool()) {
        None => false,
        Some(value) => value.map_err(|_| Fault::usage("option `offline` must be true or false"))?,
    };
    let question: EstimateRequest = options(given)?;
    let mut args = json!({ "question": question });
    match model {
        engine::Architecture::Config(config) => args["config"] = config.clone(),
        engine::Architecture::Model(name) => args["model"] = json!(name),
    }
    if offline {
        args["offline"] = json!(true);
    }
    let compute = || {
        let known = match model {
            engine::Architecture::Config(config) => ModelFiles {
                config: config.clone(),
                ..ModelFiles::default()
            },
            engine::Architecture::Model(name) => read_model(host, name, offline)?,
        };
        models::estimate(&known, &question)
    };
    let mut answer = journaled(host, Operation::Estimate, args, || match compute() {
        Ok(estimate) => Ok(json!({ "estimate": estimate })),
        Err(fault) if fault.kind == Kind::Missing => Ok(json!({ "missing": fault.message, "hint": fault.hint })),
        Err(fault) => Err(fault),
    })?;
    let Some(missing) = answer["missing"].as_str() else {
        return Ok(answer["estimate"].take());
    };
    let fault = Fault::new(Kind::Missing, missing);
    Err(match answer["hint"].as_str() {
        Some(hint) => fault.hint(hint),
        None => fault,
    })
}

/// Reads the files of a model.
fn read_model(host: &Host, model: &str, offline: bool) -> Result<ModelFiles> {
    let model = host.permits.check_model(model, &host.settings.root())?;
    host.tasks.wait(async {
        let mut hub = Hub::from_env()?;
        hub.offline |= offline;
        prompt::read_model(&model, &hub).await
    })
}
