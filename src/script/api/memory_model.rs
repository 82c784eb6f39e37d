//! Predicts the memory of points from measured peaks.

use std::sync::Arc;

use rhai::plugin::*;
use rhai::{Array, Map};

use super::boundary::to_point;
use crate::boundary::model::{MemoryModel, Peak, Prior, Sample};
use crate::fault::{Fault, Kind, Result};
use crate::script::memory_model::{Architecture, ModelHandle, SampleOptions};
use crate::script::{Caught, options};

fn sample(given: Dynamic) -> Result<Sample> {
    let kind = given.type_name();
    let given = given.try_cast::<Map>().ok_or_else(|| {
        Fault::usage(format!(
            "a sample is a map with `point` and `peak`, not a value of type `{kind}`"
        ))
    })?;
    let sample: Sample = options::<SampleOptions>(given)?.into();
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

/// Predicts the memory of points from measured peaks.
#[export_module]
pub mod memory_model {
    /// Fits a memory model to points that fitted and their peaks: weights, KV cache per token in flight (in whole
    /// blocks), activations per token of a prefill, and attention scores if they are visible. It is a prediction and
    /// proves nothing.
    ///
    /// `samples` are maps of `point` (any of `input`, `output`, `concurrency`), `peak` in bytes, and optionally
    /// `at_most: true` if the peak is only an upper limit, because memory of an earlier point was still in use.
    /// `architecture` contains what is known in advance, `()` or left out if unknown: `weight_bytes` and
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
    #[rhai_fn(name = "memory_model", return_raw, volatile)]
    pub fn make(samples: Array, architecture: Map) -> Caught<ModelHandle> {
        let samples = samples.into_iter().map(sample).collect::<Result<Vec<_>>>()?;
        let known: Prior = options::<Architecture>(architecture)?.into();
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
        let peak = peak(model, &point)?;
        Ok(Map::from([
            ("bytes".into(), peak.bytes.into()),
            ("low".into(), peak.low.into()),
            ("high".into(), peak.high.into()),
        ]))
    }

    /// Whether a point is expected to take at most `limit` bytes. A prediction: `map.classify` returns what is proven.
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
        let bytes = limit.as_float().or_else(|_| limit.as_int().map(|whole| whole as f64));
        let bytes = bytes
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
}
