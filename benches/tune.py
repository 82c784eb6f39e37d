#!/usr/bin/env python3
"""How good `profiler run tune` is on engines whose best setting is known.

usage: PROFILER_SURFACES=FOLDER benches/tune.py FIRST LAST [--class NAME] [--scale 10] [--profiler PATH] [--out FOLDER]

FOLDER has engines with drawn response surfaces: `surface_engine.py SEED`, which serves over HTTP with vLLM's flags, its
adapter `adapter.rhai`, and `surface_truth.py SEED WORKLOAD`, which computes the goodput of all 240 settings. Each seed is
one run; the table has its answer, the goodput of the recommended setting as a share of the best, that of the defaults,
the starts before the confirmation and those that confirm, and the mean error of the fit."""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import fmean, median

USUAL = {"max_num_seqs": 256, "max_num_batched_tokens": 2048, "gpu_memory_utilization": 0.9, "kv_cache_dtype": "auto", "chunked_prefill": True}
WORKLOAD = {"input": [256, 768], "output": [64, 192], "max_model_len": 960,
            "levels": [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]}
# The grid of the surfaces, with the defaults that their log does not tell.
TABLE = """
fn tunable() {
    let usual = #{ max_num_seqs: 256, max_num_batched_tokens: 2048, memory_fraction: 0.9 };
    let table = vllm::tunable().filter(|entry| !entry.values.is_empty());
    table.map(|entry| if entry.name in usual { entry + #{ usual: usual[entry.name] } } else { entry })
}
"""


def truth(folder, seed, cls, keep):
    """The goodput of each setting, and the limits; computed once."""
    path = keep / f"truth-{seed}{cls or ''}.json"
    if not path.exists():
        workload = keep / "workload.json"
        workload.write_text(json.dumps(WORKLOAD))
        words = [folder / "surface_truth.py", str(seed), workload, "--out", path, "--csv", os.devnull] + (["--class", cls] if cls else [])
        subprocess.run(words, check=True, capture_output=True)
    found = json.loads(path.read_text())
    return {tuple(row["settings"].values()): row["goodput"] for row in found["rows"]}, found["limits"]


def tune(args, folder, seed, limits, keep):
    """The result of one run."""
    place = keep / f"run-{seed}{args.cls or ''}"
    shutil.rmtree(place, ignore_errors=True)
    words = [f"--time-scale={args.scale}"] + ([f"--class={args.cls}"] if args.cls else [])
    slo = {"ttft_ms": limits["ttft_p95_ms"] / args.scale, "tpot_ms": limits["tpot_p95_ms"] / args.scale}
    sets = {"engine": "./adapter.rhai", "runtime": "process", "program": str(folder / "surface_engine.py"), "model": f"surface-{seed}",
            "engine_args": json.dumps(words), "input": '{"uniform":[256,768]}', "output": '{"uniform":[64,192]}', "slo": json.dumps(slo),
            "hold": 600 // args.scale}
    command = [args.profiler, "run", "tune", "--json", "--out", place, "--allow", "process"]
    for name, value in sets.items():
        command += ["--set", f"{name}={value}"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=keep)
    (keep / f"run-{seed}.log").write_text(ended.stderr)
    try:
        return json.loads(ended.stdout)["result"]
    except (ValueError, KeyError):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--class", dest="cls", help="another class than the seed's own, such as default_best")
    parser.add_argument("--scale", type=int, default=10, help="seconds of model time in a second")
    parser.add_argument("--profiler", default="profiler")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "tune-bench")
    args = parser.parse_args()
    folder = Path(os.environ["PROFILER_SURFACES"]).resolve()
    keep = args.out
    keep.mkdir(parents=True, exist_ok=True)
    (keep / "adapter.rhai").write_text((folder / "adapter.rhai").read_text() + TABLE)
    seen = []
    print("| seed | answer | of the best | defaults | starts | fit errs by | surrogate led |\n|---|---|---|---|---|---|---|")
    for seed in range(args.first, args.last + 1):
        goodput, limits = truth(folder, seed, args.cls, keep)
        found = tune(args, folder, seed, limits, keep)
        if found is None:
            print(f"| {seed} | failed, see run-{seed}.log | | | | | |", flush=True)
            continue
        chosen = {**USUAL, **{"gpu_memory_utilization" if name == "memory_fraction" else name: value for name, value in found["winner"].items()}}
        best, usual, mine = max(goodput.values()), goodput[tuple(USUAL.values())], goodput[tuple(chosen.values())]
        confirmed = (found["confirmed"] or {"starts": 0})["starts"]
        shares = [mine / best, usual / best] if best else [None, None]
        seen.append((*shares, found["starts"], found["surrogate"], found["answer"] == "none"))
        cells = ["-" if share is None else f"{share:.1%}" for share in shares]
        print(f"| {seed} | {found['answer']} | {cells[0]} | {cells[1]} | {found['starts']} + {confirmed} | {found['fit']:.1%} | {'yes' if found['surrogate'] else 'no'} |", flush=True)
    feasible = [one for one in seen if one[0] is not None]
    if feasible:
        print(f"\nmean {fmean(one[0] for one in feasible):.1%} of the best (defaults {fmean(one[1] for one in feasible):.1%}), lowest {min(one[0] for one in feasible):.1%}; "
              f"below the defaults in {sum(one[0] < one[1] - 1e-9 for one in feasible)} of {len(feasible)}; median {median(one[2] for one in seen)} starts; "
              f"surrogate led {sum(one[3] for one in seen)} of {len(seen)}")
    impossible = [one for one in seen if one[0] is None]
    if impossible:
        print(f"nothing feasible: said in {sum(one[4] for one in impossible)} of {len(impossible)}, within {max(one[2] for one in impossible)} starts")


if __name__ == "__main__":
    main()
