//! Familiar flags of other tools (`vllm bench`, guidellm, genai-perf, k6, hyperfine), and their names here.

use std::path::Path;

use clap::error::{ContextKind, ContextValue};

use super::flags;
use crate::script::form::flag_name;
use crate::script::params::settable;
use crate::script::{Main, shipped};

/// The most common scripts, suggested before the others.
const FIRST: [&str; 3] = ["throughput", "adaptive", "slo"];

/// Names in other tools, and the equivalents here: parameters, of which the script's first match is suggested, and
/// options of the program, which begin with `--`. A remark may follow after a semicolon, or
/// stand there alone, where there is no equivalent.
const FOREIGN: &[(&str, &str)] = &[
    (
        "num-prompts max-requests request-count iterations num-requests n-requests",
        "requests repeats",
    ),
    ("rate request-rate rps arrival-rate qps", "rates axis"),
    ("rate-type executor strategy", "axis rates"),
    (
        "max-concurrency vus concurrent batch-size num-concurrent concurrencies threads workers \
         parallelism",
        "concurrency most",
    ),
    (
        "random-input-len input-len input-length isl synthetic-input-tokens-mean prompt-tokens \
         sonnet-input-len prompt-len input-tokens",
        "input",
    ),
    (
        "random-output-len output-len output-length osl output-tokens-mean output-tokens \
         sonnet-output-len max-tokens max-new-tokens",
        "output",
    ),
    (
        "random-prefix-len prefix-len sonnet-prefix-len shared-system-prompt-length system-prompt-len \
         prefix-tokens",
        "shared_prefix",
    ),
    (
        "dataset-path dataset dataset-name data input-file prompt-file input-dataset",
        "prompts workload",
    ),
    ("target base-url endpoint server address host api-base", "url"),
    ("backend service-kind endpoint-type", "engine"),
    ("served-model-name model-names model-id hf-model-id model-path", "model"),
    ("model-name", "label model"),
    ("processor tokenizer-path", "tokenizer"),
    ("api-key token", "api_key_env"),
    (
        "num-warmups warmup-request-count warmup-requests num-iters-warmup warmup-percent warm-up warmup \
         warmups",
        "warmup warm_up",
    ),
    (
        "runs min-runs max-runs num-runs num-iters runs-per-prompt repeat repetitions trials",
        "repeats",
    ),
    (
        "max-seconds max-duration benchmark-duration measurement-interval time-limit timeout-seconds",
        "duration search.max_seconds --max-time",
    ),
    ("duration", "duration --max-time"),
    ("stage stages ramp-up ramp-up-duration rampup", "ramp"),
    ("goodput slos threshold thresholds", "slo"),
    ("ttft max-ttft ttft-ms", "slo.ttft_ms slo"),
    ("tpot max-tpot tpot-ms", "slo.tpot_ms slo"),
    ("tp tp-size tensor-parallel-size", "tensor_parallel"),
    (
        "gpu-memory-utilization mem-fraction-static mem-fraction",
        "memory_fraction",
    ),
    (
        "enable-prefix-caching no-enable-prefix-caching disable-radix-cache",
        "prefix_cache",
    ),
    (
        "enforce-eager disable-cuda-graph",
        "cuda_graphs; with the value `false`",
    ),
    ("mode scenario", "study; `latency`, `throughput` or `both`"),
    ("prompt", "prompt prompts"),
    (
        "disable-log-requests",
        "; leave it out: the engine's log is in the run's folder",
    ),
    (
        "isolate-subprocess",
        "; leave it out: each start is a process or a container of its own",
    ),
    (
        "force-separate-pools",
        "; leave it out: the engine decides which memory its graphs share",
    ),
    (
        "max-model-len context-length ctx-size max-num-seqs max-num-batched-tokens extra-engine-args",
        "engine_args",
    ),
    ("kv-dtype cache-dtype", "kv_cache_dtype"),
    ("gpu gpu-ids devices device cuda-visible-devices", "gpus"),
    ("random-seed", "--seed"),
    ("cluster cluster-options hosts", "cluster"),
    (
        "output-path output-dir result-dir results-dir result-filename artifact-dir save-result summary-export \
         profile-export-file output-file",
        "--out",
    ),
    ("export-json output-format format", "--json"),
    ("no-color no-colour style", "--color"),
    ("show-output debug", "--verbose"),
    ("config config-file params-file", "file --params"),
    ("max-probes", "search.max_probes"),
    ("min-input-length max-input-length", "input"),
    ("min-output-length max-output-length", "output"),
    ("grid-size", "search.grid_size"),
    ("refinement-rounds", "search.refinement_rounds"),
    ("retries-per-point", "search.retries"),
    (
        "output-tolerance-pct",
        "output_tolerance; and a share is written in per cent, such as `5%`",
    ),
    (
        "multimodal dummy-image dummy-image-path",
        "; leave it out: prompts are text here",
    ),
    (
        "temp temperature",
        "; leave it out: answers get their length without it",
    ),
    ("k-neighbors", "search.k_neighbors"),
    ("m-random", "search.m_random"),
    ("distance-scale", "search.distance_scale"),
    ("consistency-radius", "search.consistency_radius"),
    ("redundancy-weight", "search.redundancy_weight"),
    ("max-pair-distance", "search.max_pair_distance"),
    ("min-refinement-dist", "search.min_refinement_dist"),
    ("resume-from-file", "resume_from"),
    (
        "hf-token",
        "hf_token_env; the name of an environment variable, or a file",
    ),
    ("hf-cache-dir", "hf_home"),
    ("volume volumes mount", "mounts"),
    ("publish", "host_port"),
    ("preset", "preset"),
    ("model-params", "model_params"),
    ("num-layers", "num_layers"),
    ("num-heads", "num_heads"),
    ("num-kv-heads", "num_kv_heads"),
    ("head-dim", "head_dim"),
    ("hidden-size", "hidden_size"),
    ("container-name", "container"),
    ("coverage", "search.coverage"),
];

/// Commands and options of other tools that are not those of a script, and what does it here.
const OF_COMMANDS: &[(&str, &str)] = &[
    (
        "visualize plot",
        "`profiler report FILE --png FOLDER` draws files of other tools",
    ),
    (
        "--calc-weights --calc-kv --calc-activations --calc-overhead --calc-total",
        "give all figures of a calculator as one: `--with weights=13.5,kv=0.4,activations=0.9,overhead=0.6`, in GB",
    ),
    ("-p", "a port of this machine is `--host-port 8080`"),
    (
        "-e",
        "export it: `HF_TOKEN` is passed on; other variables are `--env.NAME VALUE`",
    ),
];

/// The answer to a command or option that this program does not have: a script's name, or a word of another tool.
pub(super) fn of_command(unknown: &clap::Error) -> Option<String> {
    let word = |kind| match unknown.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let command = word(ContextKind::InvalidSubcommand);
    if let Some(script) = command.filter(|name| shipped::scripts().any(|script| script == *name)) {
        return Some(format!("it is a script: `profiler run {script}`"));
    }
    let word = command.or_else(|| word(ContextKind::InvalidArg))?;
    let row = OF_COMMANDS
        .iter()
        .find(|(foreign, _)| foreign.split(' ').any(|one| one == word));
    Some(row?.1.to_owned())
}

/// The flag here that corresponds to `name` of another tool. `has` says whether the script has a parameter. If it has
/// none, names a shipped script that does.
pub(super) fn hint(name: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let row = FOREIGN
        .iter()
        .find(|(foreign, _)| foreign.split(' ').any(|one| one == name.replace('_', "-")));
    let (own, remark) = row?.1.split_once("; ").unwrap_or((row?.1, ""));
    if own.is_empty() {
        return Some(remark.to_owned());
    }
    let remark = if remark.is_empty() {
        String::new()
    } else {
        format!(", {remark}")
    };
    let own = own.split(' ');
    let flag = |own: &str| format!("--{}", flag_name(own.trim_start_matches("--")));
    if let Some(own) = own
        .clone()
        .find(|own| own.starts_with("--") || has(own) || own.split_once('.').is_some_and(|(map, _)| has(map)))
    {
        return Some(format!("here it is `{}`{remark}", flag(own)));
    }
    let first = own.clone().next()?;
    let script = FIRST
        .into_iter()
        .chain(shipped::scripts())
        .find(|script| declares(script, first))?;
    Some(format!(
        "`profiler run {script}` has that, as `{}`{remark}",
        flag(first)
    ))
}

fn declares(script: &str, name: &str) -> bool {
    let name = name.split('.').next().unwrap_or(name);
    let path = Path::new(script);
    let declared = Main::open(path).ok().and_then(|main| flags::declared(path, &main).ok());
    declared.is_some_and(|declared| settable(&declared).iter().any(|one| one.name == name))
}
