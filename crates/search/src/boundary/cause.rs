//! Causes of verdicts: one table of their names, their effects on the boundary, their remedies and their texts in reports.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::Verdict;
use crate::names;

/// The effect of a cause on the boundary, where the verdict alone does not decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A refusal for this cause is a lack of memory.
    Memory,
    /// A configured or positional limit excludes the point: no lack of memory.
    Length,
    /// The point was served, but memory was not tested. Harder points would not test it either, so they are not probed.
    Untested,
    /// The verdict decides: `error` and `start_failed` do not move the boundary.
    None,
}

/// The result of another start with the same limits, after one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStart {
    /// It fails for the same cause.
    Fails,
    /// It may succeed a little later.
    MayPass,
    /// Nothing is known of it.
    Unknown,
}

/// A row of the table.
struct Row {
    /// One sentence: the variant's doc comment.
    meaning: &'static str,
    effect: Effect,
    /// Sentences of reports, by the verdict that the cause explains.
    phrases: &'static [(Verdict, &'static str)],
    /// The remedy for a start that failed for it.
    remedy: Option<&'static str>,
    next_start: NextStart,
}

impl Row {
    const DEFAULT: Self = Self {
        meaning: "",
        effect: Effect::None,
        phrases: &[],
        remedy: None,
        next_start: NextStart::Unknown,
    };
}

/// Defines [`Cause`] and its table: doc comment, variant, name, and the columns that differ from [`Row::DEFAULT`].
macro_rules! causes {
    ($($(#[doc = $meaning:literal])+ $variant:ident $name:literal { $($column:ident: $value:expr),* })*) => {
        /// The cause of a verdict. In JSON and scripts it is its name, and every string is a cause.
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
        #[serde(from = "String")]
        pub enum Cause {
            $($(#[doc = $meaning])+ $variant,)*
            /// A cause of somebody's own adapter or script. Never a name of the table: [`Cause::from`] sees to that.
            Other(Box<str>),
        }

        names!(Cause { $($variant $name,)* } or Other);

        impl Cause {
            #[expect(clippy::needless_update, reason = "a row may name every column")]
            fn row(&self) -> Row {
                match self {
                    $(Self::$variant => Row {
                        meaning: concat!($($meaning),+),
                        $($column: $value,)*
                        ..Row::DEFAULT
                    },)*
                    Self::Other(_) => Row::DEFAULT,
                }
            }
        }
    };
}

causes! {
    /// An allocation on a GPU failed.
    Cuda "cuda" { phrases: &[(Verdict::Oom, "the engine ran out of GPU memory")] }
    /// The kernel killed the engine, because memory of the host ran out.
    Host "host" { phrases: &[(Verdict::Oom, "the kernel killed the engine because host memory ran out")] }
    /// Another allocation of the engine failed, as in memory of the host.
    Allocator "allocator" { phrases: &[(Verdict::Oom, "an allocation of the engine failed")] }
    /// The engine declined for lack of memory, or did not start for it.
    Memory "memory" {
        effect: Effect::Memory,
        next_start: NextStart::Fails,
        remedy: Some("raise `--memory-fraction`, or take a smaller model, or serve shorter or fewer requests"),
        phrases: &[
            (Verdict::Refused, "the engine refused it for lack of memory"),
            (Verdict::StartFailed, "the engine did not start with these limits for lack of memory")
        ]
    }
    /// The KV cache has no room for it.
    KvCache "kv_cache" {
        effect: Effect::Memory,
        phrases: &[(Verdict::Refused, "the engine had no room for it in its KV cache")]
    }
    /// It exceeds a length that was configured, or the model's positions: no lack of memory.
    LengthLimit "length_limit" {
        effect: Effect::Length,
        next_start: NextStart::Fails,
        phrases: &[(Verdict::Refused, "a length limit refused it (not for lack of memory)")]
    }
    /// The server refuses requests of this size each time, in words that no rule knows: whether for lack of memory is not
    /// known.
    UnknownLimit "unknown_limit" {
        effect: Effect::Length,
        phrases: &[(Verdict::Refused, "the server refuses requests of this size; why is not known")]
    }
    /// This program cannot hold so many requests of that length, or has too few open files for them: it sent none.
    ClientLimit "client_limit" {
        effect: Effect::Untested,
        phrases: &[(Verdict::Refused, "profiler itself cannot send so much (not for lack of memory of the engine)")]
    }
    /// Early requests ended before late ones were admitted: memory was not tested.
    NotResident "not_resident" {
        effect: Effect::Untested,
        phrases: &[(Verdict::Error, "early requests ended before late ones were admitted")]
    }
    /// The engine admits no more requests at the same time.
    Admission "admission" {}
    /// The engine turned requests away for now.
    Overloaded "overloaded" {}
    /// The text ended before the requested length.
    EndOfText "end_of_text" {}
    /// The engine cut the output off, and no limit that it reports explains it.
    Clipped "clipped" {}
    /// The engine counted another number of input tokens than requested.
    InputCount "input_count" {}
    /// The engine reported no token counts.
    NoCounts "no_counts" {}
    /// The stream ended without a finish reason.
    NoFinish "no_finish" {}
    /// The stream broke.
    Broken "broken" {}
    /// There was no connection to the server.
    Unreachable "unreachable" {}
    /// The answer does not have the form of its protocol.
    Malformed "malformed" {}
    /// The server answered with an HTTP status that no rule explains.
    Status "status" {}
    /// The engine reported an error that no rule explains.
    Engine "engine" {}
    /// There was no answer in time.
    Deadline "deadline" {}
    /// No request of a load completed.
    Load "load" {}
    /// A token of the prompt is not in the model's vocabulary.
    Vocabulary "vocabulary" {}
    /// The server does not take a field of the request.
    Request "request" {}
    /// The engine ended by itself, for an unknown reason.
    Died "died" { phrases: &[(Verdict::Error, "the engine died")] }
    /// The engine's process is alive, but no longer serves.
    Dead "dead" {}
    /// Somebody else ended the engine.
    Stopped "stopped" { next_start: NextStart::MayPass }
    /// The engine reached the memory limit that this program had set.
    MemoryLimit "memory_limit" {}
    /// The engine exited before it was ready.
    Exited "exited" {}
    /// The engine was not ready in time.
    Timeout "timeout" {
        remedy: Some("see where it was, and give it longer with `start_timeout`, in seconds")
    }
    /// The engine waited in vain for a process of its own.
    Stalled "stalled" {}
    /// A part of the engine is not installed.
    Module "module" {
        remedy: Some(
            "a part of the engine is not installed where it runs: install it there, or name another `program` or `image`"
        )
    }
    /// This version of the engine does not take an option.
    Flag "flag" {
        remedy: Some(
            "this version of the engine does not take this option: see `engine_args`, or use the version that the adapter is made for"
        )
    }
    /// A file does not exist where the engine runs.
    File "file" {
        remedy: Some("give a path that exists where the engine runs; in a container, only mounted folders do")
    }
    /// A disk that the engine writes to is full.
    Disk "disk" { remedy: Some("free space where the engine writes, such as its cache of models") }
    /// The engine cannot read the model, or does not know its architecture.
    Model "model" {
        remedy: Some("check `model`: the engine cannot read it, or is too old for its architecture")
    }
    /// The model needs a licence to be accepted, or a token.
    Gated "gated" {
        remedy: Some(
            "accept the model's licence on its page of the hub, set HF_TOKEN, and add `--allow token`; or choose another `model`"
        )
    }
    /// The engine finds no GPU that it can use.
    Gpu "gpu" { remedy: Some("see what `profiler doctor` says of GPU and driver") }
    /// Another process holds the GPU for itself.
    GpuBusy "gpu_busy" {
        remedy: Some("wait until the GPU is free, or choose another one with `gpus`"),
        next_start: NextStart::MayPass
    }
    /// Another process changed the GPU's free memory during the start.
    ForeignTenant "foreign_tenant" {
        remedy: Some("end the other process on the GPU, or choose another one with `gpus`"),
        next_start: NextStart::MayPass
    }
    /// Something else listens on the port.
    Port "port" {
        remedy: Some("end what listens on that port, or choose another one with `port`"),
        next_start: NextStart::MayPass
    }
    /// Shared memory (`/dev/shm`) is too small.
    Shm "shm" { remedy: Some("give it more shared memory with `shm_size`, in bytes") }
}

impl Cause {
    /// One sentence for authors of adapters; empty for a cause that is not in the table.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        self.row().meaning.trim()
    }

    /// The effect on the boundary.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.row().effect
    }

    /// The sentence of reports for this verdict and cause, if it says more than the verdict alone.
    #[must_use]
    pub fn phrase(&self, verdict: Verdict) -> Option<&'static str> {
        let mut phrases = self.row().phrases.iter();
        phrases.find_map(|(explained, phrase)| (*explained == verdict).then_some(*phrase))
    }

    /// The remedy for a start that failed for this cause.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        self.row().remedy
    }

    /// The result of another start with the same limits, after one that failed for this cause.
    #[must_use]
    pub fn next_start(&self) -> NextStart {
        self.row().next_start
    }
}

impl From<String> for Cause {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn every_known_cause_is_read_as_itself() {
        for cause in Cause::ALL {
            assert!(
                !matches!(cause, Cause::Other(_)) && !cause.meaning().is_empty(),
                "{cause}"
            );
            assert_eq!(json!(cause), json!(cause.name()));
            assert_eq!(from_value::<Cause>(json!(cause)).unwrap(), *cause);
        }
    }

    proptest! {
        #[test]
        fn every_string_is_a_cause_of_that_name(name in "[ A-Za-z_]{0,8}|\\PC{0,12}") {
            let cause: Cause = from_value(json!(name)).unwrap();
            prop_assert_eq!(cause.name(), name.as_str());
            prop_assert_eq!(json!(cause), json!(name));
        }
    }
}
