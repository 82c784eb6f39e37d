//! Classifies failures: first by how the process exited, then by the adapter's rules. Scripts and reports see a failure
//! as [`Evidence`]. Parses failed GPU allocations from allocator messages.
//!
//! A failure counts as a lack of memory only if the kernel or a rule says so.
//!
//! Supported allocation messages are PyTorch's `CUDA out of memory. Tried to allocate …` (since 2.1, also with HIP;
//! used by five engines) and ggml's `allocating … on device 0: cudaMalloc failed` and
//! `failed to allocate CUDA0 buffer of size …`.

use super::reason::{Symptoms, in_place, reason};
use crate::boundary::{Cause, Effect, Verdict};
use crate::engine::adapter::{FailureRule, RulePhase, RuleRank};
use crate::fault::{Fault, Result};
use crate::run::Allocation;

/// The classification of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) cause: Option<Cause>,
    /// The matching message or log line.
    pub(crate) line: Option<String>,
    /// The engine's count of input tokens, if the rule's pattern has a group `input`.
    pub(crate) input: Option<u64>,
    /// The sequences for which the engine has room for the state of recurrent layers.
    pub(crate) state_slots: Option<u64>,
    /// The slots that the start would need, if the engine states them: some engines keep a few for themselves.
    pub(crate) slots_needed: Option<u64>,
    /// The remedy, for the user.
    pub(crate) remedy: Option<String>,
}

impl FailureRule {
    /// Rejects invalid rules.
    ///
    /// # Errors
    ///
    /// `usage`.
    pub(crate) fn check(rules: &[Self]) -> Result<()> {
        for (index, rule) in rules.iter().enumerate() {
            let wrong = |why: &str| Fault::usage(format!("`failures()[{index}]` of the adapter: {why}"));
            if rule.verdict == Verdict::Ok {
                return Err(wrong("a failure cannot be `ok`"));
            }
            if rule.verdict == Verdict::Oom && rule.cause == Some(Cause::Host) {
                return Err(wrong("only the kernel says `oom` of the `host`")
                    .hint("use cause `allocator` where the engine itself reports that host memory ran out"));
            }
            if rule.rank == RuleRank::Consequence && (rule.cause.is_some() || rule.verdict != Verdict::Error) {
                return Err(wrong("a rule of rank `consequence` explains nothing")
                    .hint("give it the verdict `error` and no cause, or another rank"));
            }
        }
        Ok(())
    }
}

/// Classifies a failure in `phase`: a kill by the kernel first, then the rules.
pub(crate) fn classify(rules: &[FailureRule], phase: RulePhase, symptoms: Symptoms<'_>) -> Option<Finding> {
    let found = if symptoms.exit.is_some_and(|exit| exit.oom_killed) {
        Finding {
            verdict: Verdict::Oom,
            cause: Some(Cause::Host),
            ..Finding::default()
        }
    } else {
        let (rule, line) = reason(rules, phase, symptoms)?;
        let groups = rule.pattern.captures(in_place(rule, line));
        let number = |name: &str| groups.as_ref()?.name(name)?.as_str().parse().ok();
        Finding {
            verdict: rule.verdict,
            cause: rule.cause.clone(),
            line: Some(line.clone()),
            input: number("input"),
            state_slots: number("state_slots"),
            slots_needed: number("slots_needed"),
            remedy: rule.remedy.clone(),
        }
    };
    Some(match phase {
        RulePhase::Start => found.for_start(),
        RulePhase::Any | RulePhase::Request => found,
    })
}

impl Finding {
    /// The state slots that are left for sequences, if a start with `asked` sequences needs some for the engine itself.
    /// `None` if the engine needs some and `asked` is unknown, or if none is left.
    pub(crate) fn slots_for_sequences(&self, asked: Option<u64>) -> Option<u64> {
        let kept = match self.slots_needed {
            Some(needed) => needed.checked_sub(asked?)?,
            None => 0,
        };
        self.state_slots?.checked_sub(kept).filter(|left| *left > 0)
    }

    /// Maps a finding to a failed start: any lack of memory becomes `start_failed` with the cause `memory`.
    fn for_start(self) -> Self {
        let memory = match self.verdict {
            Verdict::Oom => true,
            Verdict::Refused => {
                let cause = self.cause.as_ref();
                cause.is_none_or(|cause| cause.effect() == Effect::Memory)
            }
            _ => false,
        };
        Self {
            verdict: Verdict::StartFailed,
            cause: if memory { Some(Cause::Memory) } else { self.cause },
            ..self
        }
    }
}

/// Failed allocations in these texts; the last one of each GPU.
pub(crate) fn allocations<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<Allocation> {
    let mut found: Vec<Allocation> = Vec::new();
    for text in texts {
        let Some(new) = torch(text).or_else(|| ggml(text)) else {
            continue;
        };
        match found.iter_mut().find(|old| old.gpu == new.gpu) {
            Some(old) => *old = new,
            None => found.push(new),
        }
    }
    found.sort_by_key(|allocation| allocation.gpu);
    found
}

fn torch(text: &str) -> Option<Allocation> {
    let (_, text) = text.split_once("out of memory. Tried to allocate ")?;
    let (_, gpu) = text.split_once("GPU ")?;
    Some(Allocation {
        gpu: leading(gpu)?,
        tried: size(text)?,
        total: after(text, "total capacity of "),
        free: after(text, "of which "),
        process: after(text, "this process has "),
        allowed: before(text, " allowed"),
        allocated: before(text, " is allocated by PyTorch"),
        reserved: before(text, " is reserved by PyTorch"),
    })
}

fn ggml(text: &str) -> Option<Allocation> {
    if let Some((head, reason)) = text.split_once(" on device ") {
        let tried = head.split_once("allocating ").and_then(|(_, tried)| size(tried));
        return Some(Allocation {
            gpu: leading(reason).filter(|_| reason.contains("alloc failed"))?,
            tried: tried?,
            ..Allocation::default()
        });
    }
    let (device, bytes) = text
        .split_once("failed to allocate ")?
        .1
        .split_once(" buffer of size ")?;
    Some(Allocation {
        gpu: leading(device.trim_start_matches(|c: char| c.is_ascii_alphabetic()))?,
        tried: leading(bytes)?,
        ..Allocation::default()
    })
}

/// Parses the integer at the start of a text.
fn leading(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn after(text: &str, words: &str) -> Option<u64> {
    size(text.split_once(words)?.1)
}

fn before(text: &str, words: &str) -> Option<u64> {
    let head = text.split_once(words)?.0;
    let (rest, unit) = head.rsplit_once(' ')?;
    let number = rest.rsplit(' ').next()?;
    bytes(number, unit)
}

/// Parses the size at the start of a text: `1.50 GiB`, `512 bytes`.
fn size(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    bytes(words.next()?, words.next()?.trim_end_matches(['.', ',', ';']))
}

fn bytes(number: &str, unit: &str) -> Option<u64> {
    let scale = match unit {
        "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| *number >= 0.0)?;
    Some((number * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Exit;

    fn rules() -> Vec<FailureRule> {
        let rule = |pattern: &str, verdict, cause: Option<&str>, phase| FailureRule {
            phase,
            ..FailureRule::new(pattern, verdict, cause)
        };
        vec![
            rule("CUDA out of memory", Verdict::Oom, Some("cuda"), RulePhase::Any),
            rule(
                "No available memory",
                Verdict::Refused,
                Some("kv_cache"),
                RulePhase::Start,
            ),
            rule(
                "maximum context length",
                Verdict::Refused,
                Some("length_limit"),
                RulePhase::Any,
            ),
        ]
    }

    fn classify(
        phase: RulePhase,
        exit: Option<Exit>,
        messages: &[&str],
        log: &[&str],
    ) -> Option<(Verdict, Option<Cause>)> {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (messages, log) = (own(messages), own(log));
        let symptoms = Symptoms {
            exit: exit.as_ref(),
            messages: &messages,
            log: &log,
        };
        super::classify(&rules(), phase, symptoms).map(|found| (found.verdict, found.cause))
    }

    #[test]
    fn slots_that_the_engine_keeps_are_no_sequences() {
        let slots = |state_slots, slots_needed| Finding {
            state_slots,
            slots_needed,
            ..Finding::default()
        };
        assert_eq!(slots(Some(300), Some(513)).slots_for_sequences(Some(512)), Some(299));
        assert_eq!(slots(Some(191), None).slots_for_sequences(None), Some(191));
        for (state_slots, slots_needed, asked) in [
            (None, None, Some(512)),
            (Some(300), Some(513), None),
            (Some(300), Some(513), Some(1024)),
            (Some(300), Some(513), Some(1)),
            (Some(0), None, Some(512)),
        ] {
            assert_eq!(slots(state_slots, slots_needed).slots_for_sequences(asked), None);
        }
    }

    #[test]
    fn the_table() {
        use RulePhase::{Request, Start};
        let killed = |oom_killed| {
            Some(Exit {
                code: Some(137),
                oom_killed,
                ..Exit::default()
            })
        };
        let some = |verdict, cause: &str| Some((verdict, Some(cause.into())));
        let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB";
        // phase, exit, messages, log, answer
        let table = [
            (Request, killed(true), &[][..], &[oom][..], some(Verdict::Oom, "host")),
            (Request, killed(false), &[][..], &[oom][..], some(Verdict::Oom, "cuda")),
            (Request, killed(false), &[][..], &["Killed"][..], None),
            (Request, None, &[oom][..], &[][..], some(Verdict::Oom, "cuda")),
            (
                Request,
                None,
                &["maximum context length is 8"][..],
                &[][..],
                some(Verdict::Refused, "length_limit"),
            ),
            (Request, None, &["No available memory"][..], &[][..], None),
            (
                Start,
                killed(true),
                &[][..],
                &[][..],
                some(Verdict::StartFailed, "memory"),
            ),
            (
                Start,
                None,
                &[][..],
                &["No available memory for the cache"][..],
                some(Verdict::StartFailed, "memory"),
            ),
            (
                Start,
                None,
                &[][..],
                &["maximum context length"][..],
                some(Verdict::StartFailed, "length_limit"),
            ),
            (Start, killed(false), &[][..], &["Traceback"][..], None),
        ];
        for (row, (phase, exit, messages, log, answer)) in table.into_iter().enumerate() {
            assert_eq!(classify(phase, exit, messages, log), answer, "row {row}");
        }
    }

    #[test]
    fn for_one_line_the_first_rule_decides_and_for_lines_the_last() {
        let cause = |log: &[&str]| classify(RulePhase::Request, None, &[], log).unwrap().1.unwrap();
        let (oom, length) = ("CUDA out of memory", "maximum context length");
        assert_eq!(cause(&[&format!("{length}, {oom}")]), Cause::Cuda);
        assert_eq!(cause(&[length, oom]), Cause::Cuda);
        assert_eq!(cause(&[oom, length]), Cause::LengthLimit);
    }

    #[test]
    fn a_rule_cannot_claim_a_host_oom_kill() {
        let rule = FailureRule::new("Killed", Verdict::Oom, Some("host"));
        assert!(FailureRule::check(&[rule]).unwrap_err().message.contains("kernel"));
    }

    #[test]
    fn a_consequence_cannot_give_a_cause() {
        let rule = |verdict, cause| FailureRule {
            rank: RuleRank::Consequence,
            ..FailureRule::new("See above", verdict, cause)
        };
        for wrong in [rule(Verdict::Error, Some("port")), rule(Verdict::Oom, None)] {
            assert!(
                FailureRule::check(&[wrong])
                    .unwrap_err()
                    .message
                    .contains("consequence")
            );
        }
        FailureRule::check(&[rule(Verdict::Error, None)]).unwrap();
    }

    #[test]
    fn an_unless_line_cancels_itself_and_earlier_matches() {
        let rule = FailureRule {
            unless: Some("retrying".to_owned().try_into().unwrap()),
            ..FailureRule::new("allocation failed", Verdict::Oom, Some("cuda"))
        };
        let found = |log: &[&str]| {
            let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
            let symptoms = Symptoms {
                log: &log,
                ..Symptoms::default()
            };
            super::classify(std::slice::from_ref(&rule), RulePhase::Request, symptoms).and_then(|found| found.line)
        };
        assert_eq!(found(&["allocation failed 1", "allocation failed, retrying"]), None);
        assert_eq!(
            found(&["allocation failed 1", "retrying", "allocation failed 2"]).as_deref(),
            Some("allocation failed 2")
        );
    }
}

#[cfg(test)]
mod allocation_tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn found(texts: &[&str]) -> Vec<Allocation> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        allocations(&texts)
    }

    #[test]
    fn torch_reports_the_memory_of_the_gpu() {
        let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 1 has a total capacity of 2.00 GiB of \
                    which 512 bytes is free. Including non-PyTorch memory, this process has 1.50 GiB memory in use. 1.25 GiB allowed; Of the \
                    allocated memory 1.00 GiB is allocated by PyTorch, and 3.00 KiB is reserved by PyTorch but unallocated. If reserved";
        let expected = Allocation {
            gpu: 1,
            tried: 768 * MIB,
            total: Some(2048 * MIB),
            free: Some(512),
            process: Some(1536 * MIB),
            allowed: Some(1280 * MIB),
            allocated: Some(1024 * MIB),
            reserved: Some(3072),
        };
        assert_eq!(found(&[text]), [expected]);
    }

    #[test]
    fn ggml_reports_the_requested_size() {
        let log = [
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 30.50 MiB on device 2: cudaMalloc failed: out of memory",
            "alloc_tensor_range: failed to allocate CUDA2 buffer of size 31981568",
        ];
        let of = |log: &[&str]| found(log).iter().map(|one| (one.gpu, one.tried)).collect::<Vec<_>>();
        assert_eq!(of(&log[..1]), [(2, 31_981_568)]);
        assert_eq!(of(&log), [(2, 31_981_568)]);
        assert_eq!(of(&["failed to allocate CPU buffer of size 12"]), [], "no GPU");
    }

    #[test]
    fn each_gpu_has_its_last_failure() {
        let oom = |gpu: u64, tried: &str| {
            format!(
                "HIP out of memory. Tried to allocate {tried}. GPU {gpu} has a total capacity of 1.00 GiB of which 0 bytes is free."
            )
        };
        let texts = [oom(1, "1.00 MiB"), oom(0, "2.00 MiB"), oom(1, "3.00 MiB")];
        let found = allocations(&texts);
        let figures: Vec<_> = found.iter().map(|one| (one.gpu, one.tried / MIB, one.free)).collect();
        assert_eq!(figures, [(0, 2, Some(0)), (1, 3, Some(0))]);
    }

    #[test]
    fn other_messages_are_ignored() {
        for text in [
            "CUDA error: out of memory",
            "out of memory. Tried to allocate x",
            "GPU 0",
            "allocating 3 MiB on device 0: ok",
        ] {
            assert_eq!(found(&[text]), [], "{text}");
        }
    }
}
