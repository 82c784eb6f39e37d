//! Converts one profile of LLM-sizer's vLLM profilers (schema 2 and 3) into a case, from whichever file.
//!
//! Everything is called `gb` there. Values read from the device are GiB on NVIDIA (`nvidia-smi`, divided by
//! 1024) and 10^9 bytes with `rocm-smi`; values of formulas are 10^9 bytes; values of vLLM's log are GiB.
//! Weights and KV are of one rank, while measured values are the sum over all devices; here weights and KV are
//! multiplied by the ranks.

use super::parts::Parts;
use super::units::{GB, GIB, bytes};
use crate::compare::{Case, Unit};
use crate::fault::Result;
use crate::memory::compare::{Facts, implausible};
use crate::memory::{Component, Provenance};

/// The schema's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Schema {
    /// The "peak" is read after the engine has exited.
    #[default]
    Second,
    /// The peak is sampled during the run, and vLLM's log is read.
    Third,
}

/// The program that read the device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reader {
    NvidiaSmi,
    RocmSmi,
    #[default]
    Unknown,
}

/// A profile's values in its own `gb`.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    pub(super) schema: Schema,
    pub(super) reader: Reader,
    pub(super) name: String,
    pub(super) total: Option<f64>,
    pub(super) baseline: Option<f64>,
    pub(super) increase: Option<f64>,
    pub(super) weights: Option<f64>,
    pub(super) kv_used: Option<f64>,
    pub(super) kv_pool: Option<f64>,
    pub(super) graphs: Option<f64>,
    pub(super) activations: Option<f64>,
    pub(super) overhead: Option<f64>,
    /// Confidence of weights, KV and activations, which tells where a value comes from.
    pub(super) confidence: [Option<String>; 3],
    pub(super) ranks: Option<u64>,
    pub(super) facts: Facts,
}

/// Where a value comes from: unit, provenance, method, and whether it is of one rank.
struct Origin {
    unit: f64,
    provenance: Provenance,
    how: &'static str,
    per_rank: bool,
}

impl Profile {
    /// The unit of values read from the device.
    fn measured(&self) -> f64 {
        match (self.reader, self.schema) {
            (Reader::RocmSmi, Schema::Second) => GB,
            _ => GIB,
        }
    }

    /// Converts the profile, and adds notes.
    pub(super) fn case(&self, notes: &mut Vec<String>) -> Result<Case> {
        let unit = self.measured();
        let ranks = self.ranks.unwrap_or(1).max(1);
        let mut parts = Parts::default();
        parts.add(
            Component::OtherTenants,
            bytes(self.baseline, unit),
            Provenance::Measured,
            "in use before the start",
        );
        let mut add = |component, figure: Option<f64>, origin: Origin| {
            let times = if origin.per_rank { ranks as f64 } else { 1.0 };
            let figure = bytes(figure.map(|figure| figure * times), origin.unit);
            parts.add(component, figure, origin.provenance, origin.how);
            figure.map(|figure| figure as f64)
        };
        let weights = add(Component::Weights, self.weights, self.origin_of_weights());
        let pool = add(
            Component::KvPool,
            self.kv_pool.filter(|pool| *pool > 0.0),
            engine_reported("vLLM's log: available KV cache memory"),
        );
        let used = add(Component::KvUsed, self.kv_used, self.origin_of_kv());
        let activations = add(Component::Activations, self.activations, self.origin_of_activations());
        let graphs = add(
            Component::CudaGraphs,
            self.graphs,
            engine_reported("vLLM's log: graph capturing took"),
        );

        let mut case = Case::new(&self.name);
        let measured = |figure: Option<f64>| figure.map(|figure| figure * unit);
        for (name, value) in [
            ("total_measured", measured(self.total)),
            ("baseline", measured(self.baseline)),
            ("net_increase", measured(self.increase)),
            ("model_weights", weights),
            ("kv_cache_pool", pool),
            ("kv_cache_used", used),
            ("graph_capture", graphs),
            ("activations", activations),
            ("framework_overhead", measured(self.overhead)),
        ] {
            case.metric(name, value, Unit::Bytes);
        }
        if let (Some(pool), Some(used)) = (pool, used)
            && used > pool
        {
            notes.push(format!(
                "{}: more KV is said to be in use than the pool holds; it is left out of the breakdown",
                self.name
            ));
        }
        case.facts = Facts {
            tensor_parallel: self.ranks,
            read_after_exit: self.schema == Schema::Second,
            ..self.facts.clone()
        };
        case.breakdown = parts.breakdown(bytes(self.total, unit))?;
        case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
        Ok(case)
    }

    fn origin_of_weights(&self) -> Origin {
        match self.confidence(0) {
            confidence if confidence.starts_with("low") => {
                self.share_of_measured("65 % of the increase, whatever the model")
            }
            confidence if confidence.contains("log") => engine_reported("vLLM's log: model loading took"),
            _ => computed("parameters x bytes of the requested dtype"),
        }
    }

    fn origin_of_kv(&self) -> Origin {
        match self.confidence(1) {
            confidence if confidence.starts_with("low") => {
                self.share_of_measured("20 % of the increase, whatever the model")
            }
            confidence if confidence.contains("log") => engine_reported("vLLM's log"),
            _ => computed("2 x layers x hidden size x tokens x bytes: as if every head had keys and values of its own"),
        }
    }

    fn origin_of_activations(&self) -> Origin {
        match (self.confidence(2), self.schema) {
            (confidence, _) if confidence.contains("log") => engine_reported("vLLM's log"),
            (_, Schema::Third) => self.share_of_measured("70 % of what the other parts leave"),
            (confidence, Schema::Second) if confidence.starts_with("low") => {
                self.share_of_measured("12 % of the increase, whatever the model")
            }
            _ => Origin {
                per_rank: false,
                ..computed("batch x tokens x hidden size x 8 x bytes")
            },
        }
    }

    fn confidence(&self, index: usize) -> &str {
        self.confidence[index].as_deref().unwrap_or_default()
    }

    /// A share of a measured value, which is of all devices.
    fn share_of_measured(&self, how: &'static str) -> Origin {
        Origin {
            unit: self.measured(),
            provenance: Provenance::Assumed,
            how,
            per_rank: false,
        }
    }
}

fn engine_reported(how: &'static str) -> Origin {
    Origin {
        unit: GIB,
        provenance: Provenance::EngineReported,
        how,
        per_rank: true,
    }
}

fn computed(how: &'static str) -> Origin {
    Origin {
        unit: GB,
        provenance: Provenance::Computed,
        how,
        per_rank: true,
    }
}

/// Notes on every profile of this kind.
pub(super) fn notes(schema: Schema, reader: Reader, ranks: Option<u64>) -> Vec<String> {
    let mut notes = vec![
        match (reader, schema) {
            (Reader::NvidiaSmi, _) => "what was read from the device is GiB, what follows from a formula is 10^9 bytes; both are called gb",
            (Reader::RocmSmi, Schema::Second) => "all figures are 10^9 bytes",
            (Reader::RocmSmi, Schema::Third) => {
                "what was read from the device is taken as GiB, as amd-smi tells MiB; where it fell back to rocm-smi, it is 10^9 bytes, 7 % less"
            }
            (Reader::Unknown, _) => {
                "what was read from the device is taken as GiB, as on NVIDIA; the file does not say, and with rocm-smi it would be 10^9 bytes, 7 % less"
            }
        }
        .to_owned(),
    ];
    if schema == Schema::Second {
        notes.push(
            "this version reads its peak after the engine has exited: it is no peak, whatever it says".to_owned(),
        );
    }
    if let Some(ranks) = ranks.filter(|ranks| *ranks > 1) {
        notes.push(format!(
            "weights and KV were told for one of {ranks} ranks, beside a total of all devices: they are multiplied by {ranks} here"
        ));
    }
    notes
}
