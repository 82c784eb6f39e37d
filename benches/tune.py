#!/usr/bin/env python3
"""How good `profiler run tune` is on engines whose best setting is known.

usage: PROFILER_SURFACES=FOLDER benches/tune.py FIRST LAST [--class NAME] [--scale 10] [--profiler PATH] [--out FOLDER]
       PROFILER_SURFACES=FOLDER benches/tune.py FIRST LAST --tables [--null] [--draws N] [--starts N] [--without PART]
       PROFILER_SURFACES=FOLDER benches/tune.py FIRST LAST --baselines [--draws N]
       benches/tune.py FIRST LAST --simulated [--starts N] [--without PART]

FOLDER has engines with drawn response surfaces: `surface_engine.py SEED`, which serves over HTTP with vLLM's flags, its
adapter `adapter.rhai`, and `surface_truth.py SEED WORKLOAD`, which computes the goodput of all 240 settings. Each seed is
one run; the table has its answer, the goodput of the recommended setting as a share of the best, that of the defaults,
the starts before the confirmation and those that confirm, and the mean error of the fit.

With `--tables` no engine is started: `benches/tune.rhai` answers each start from a table of what the surface's own step
loop does at each level, with its noise of starts, minutes and windows; with `--null`, every setting does what the defaults
do. `--simulated` draws step times of the simulated engine instead. `--without PART` leaves a part of `tune` out: simulation
(no setting changes a forecast), race (every start is measured to its end) or confirmation; `all` compares them. `--baselines` has random search, Optuna's TPE, coordinate descent and successive halving of
`optuna_baseline.py` (needs Optuna), after 8, 12 and 24 starts."""
import argparse
import json
import os
import shutil
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
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

def table(folder, seed, cls, path):
    """What each setting does at each level: the rows of `benches/tune.rhai`."""
    sys.path.insert(0, str(folder))
    from surface_core import GRID, Core, Surface, closed_loop, grid, p95, settings
    from surface_truth import Truth

    class Table(Truth):
        def _run(self, key, s, level, seed):
            if key not in self.runs:
                core = Core(self.surface, s, seed, quiet=True, blocks=key[-1], seqs=key[-2], table=self.table(s), factor=1.0)
                got = closed_loop(core, level, self.workload, seed)
                deadly = {share: core.deadly_steps(share) for share in GRID["gpu_memory_utilization"]}
                self.runs[key] = {"ttft": p95(got["ttft"]), "tpot": p95(got["tpot"]), "rate": got["tokens"] / got["seconds"], "seconds": core.t,
                                  "peak": core.peak_blocks, "deadly": deadly, "steps": core.steps, "mean": fmean(got["tpot"])}
            return self.runs[key]

        def level(self, s, level):
            row = super().level(s, level)
            blocks, slower = self.surface.memory(s)[2] // s["block_size"], self.surface.factor(s)
            runs = [self.closed(s, level, seed, blocks) for seed in range(1, self.seeds + 1)]
            row["windows"] = [[run["rate"] / slower, 1e3 * run["ttft"] * slower, 1e3 * run["tpot"] * slower, run["seconds"] * slower,
                               run["deadly"][s["gpu_memory_utilization"]], run["steps"], 1e3 * run["mean"] * slower] for run in runs]
            return row

    surface = Surface(seed, cls)
    truth, rows = Table(surface, WORKLOAD), []
    for s in grid():
        s["max_model_len"] = WORKLOAD["max_model_len"]
        setting = {"memory_fraction" if name == "gpu_memory_utilization" else name: s[name] for name in GRID if s[name] != USUAL[name]}
        found = truth.setting(s)
        levels = {row["level"]: row["windows"] for row in found["levels"]}
        if not setting:  # the calibration goes down to one request, and up
            levels.update({level: truth.level(s, level)["windows"] for level in (1, 2, 4, 2 * max(levels)) if level not in levels and level <= 256})
        _, gib, held = surface.memory(s)
        rows.append({"setting": setting, "status": found["status"], "goodput": found["goodput"], "held": held, "gib": gib,
                     "start": surface.start_seconds(s), "levels": sorted(levels.items())})
    limits = {name.replace("_p95", ""): value for name, value in surface.limits.items()}
    path.write_text(json.dumps({"seed": seed, "class": surface.cls, "limits": limits, "noise_start": surface.noise_start, "noise_minute": surface.noise_minute,
                                "drift": surface.drift, "hazard": surface.oom_hazard, "device": surface.device, "rows": rows}))


def in_model_time(args, folder, seeds, keep):
    """The runs of `benches/tune.rhai` on these seeds."""
    missing = [] if args.simulated else [seed for seed in seeds if not table_path(keep, seed, args.cls).exists()]
    if missing:
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(table, *zip(*((folder, seed, args.cls, table_path(keep, seed, args.cls)) for seed in missing))))
    place = keep / "script"
    shutil.rmtree(place, ignore_errors=True)
    here = Path(__file__).resolve().parent
    shutil.copytree(here.parent / "stdlib" / "tune", place / "tune")
    shutil.copy(here.parent / "stdlib" / "tune.rhai", place)
    shutil.copy(here / "tune.rhai", place / "bench.rhai")
    for path in place.rglob("*.rhai"):
        beside = "./" if path.parent.name == "tune" else "./tune/"
        path.write_text(path.read_text().replace('import "std/tune/', f'import "{beside}').replace('import "std/tune"', 'import "./tune"'))
    jobs = [seeds[at::2] for at in range(2)]
    running = []
    for number, job in enumerate(job for job in jobs if job):
        out = keep / f"model-{number}"
        shutil.rmtree(out, ignore_errors=True)
        sets = {"draws": args.draws, "without": args.without, "starts": args.starts, "is_null": json.dumps(args.null), "salt": args.salt}
        sets["simulated" if args.simulated else "tables"] = json.dumps(job if args.simulated else [str(table_path(keep, seed, args.cls)) for seed in job])
        command = [args.profiler, "run", place / "bench.rhai", "--json", "--out", out, "--allow", f"mount={keep}"]
        command += [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(keep / f"model-{number}.log", "w"), text=True))
    runs = []
    for number, job in enumerate(running):
        answer = job.communicate()[0]
        if job.returncode != 0:
            raise SystemExit(f"a run failed: see {keep}/model-{number}.log")
        runs += json.loads(answer)["result"]["runs"]
    return sorted(runs, key=lambda run: run["seed"])


def ablation(args, folder, seeds, keep):
    """A line for `tune` as it is, and for each part left out."""
    print("| left out | of the best, mean | lowest | below the defaults | starts, median | " + ("false wins |" if args.null else "winners named |"))
    print("|---|---:|---:|---:|---:|---:|")
    for part in ["", "simulation", "race", "confirmation"]:
        args.without = part
        runs = in_model_time(args, folder, seeds, keep)
        shares = [(run["goodput"] / run["best"], run["goodput"] < run["usual"] - 1e-9) for run in runs if run["best"] and not args.null]
        cells = [f"{fmean(share for share, _ in shares):.1%}", f"{min(shares)[0]:.1%}", f"{sum(below for _, below in shares)} of {len(shares)}"] if shares else ["-"] * 3
        wins = sum(run["answer"] == "winner" for run in runs)
        print(f"| {part or 'nothing'} | " + " | ".join(cells) + f" | {median(run['starts'] for run in runs)} | {wins} of {len(runs)} |", flush=True)


def table_path(keep, seed, cls):
    return keep / f"table-{seed}{cls or ''}.json"


def baselines(args, folder, seeds, keep):
    """Shares of the best that usual searches reach, one row each."""
    sys.path.insert(0, str(folder))
    import optuna
    import optuna_baseline as searches
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    methods = {"random": searches.by_chance, "Optuna's TPE": searches.tpe, "coordinate descent": searches.coordinates, "successive halving": searches.halving}
    print("| search | 8 starts | 12 | 24 |\n|---|---:|---:|---:|")
    for name, method in methods.items():
        shares = {starts: [] for starts in (8, 12, 24)}
        for seed in seeds:
            goodput, _ = truth(folder, seed, args.cls, keep)
            found = json.loads((keep / f"truth-{seed}{args.cls or ''}.json").read_text())
            for draw in range(args.draws if max(goodput.values()) else 0):
                for most in shares if name == "successive halving" else [24]:
                    oracle = searches.Oracle(found, f"{seed} {draw} {most}")
                    method(oracle, most, random.Random(f"{name} {seed} {draw}"))
                    for starts in [most] if name == "successive halving" else shares:
                        shares[starts].append(oracle.log[starts - 1][0])
        print(f"| {name} | " + " | ".join(f"{fmean(all):.1%}" for all in shares.values()) + " |", flush=True)


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
    parser.add_argument("--tables", action="store_true", help="in model time, each start answered from a table")
    parser.add_argument("--simulated", action="store_true", help="in model time, on drawn step times of the simulated engine")
    parser.add_argument("--baselines", action="store_true", help="what usual searches reach")
    parser.add_argument("--null", action="store_true", help="every setting does what the defaults do")
    parser.add_argument("--without", default="", choices=["simulation", "race", "confirmation", "all"], help="leave a part of tune out; all: a line with each part left out")
    parser.add_argument("--draws", type=int, default=1, help="runs of each seed in model time")
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--salt", type=int, default=0, help="another number draws other noise")
    args = parser.parse_args()
    if args.without not in ("", "all") and not (args.tables or args.simulated):
        parser.error("--without needs --tables or --simulated")
    keep = args.out
    keep.mkdir(parents=True, exist_ok=True)
    seeds = list(range(args.first, args.last + 1))
    folder = None if args.simulated else Path(os.environ["PROFILER_SURFACES"]).resolve()
    if args.baselines:
        return baselines(args, folder, seeds, keep)
    if args.without == "all":
        return ablation(args, folder, seeds, keep)
    print("| seed | answer | of the best | defaults | starts | fit errs by | surrogate led |\n|---|---|---:|---:|---:|---:|---|")
    if args.tables or args.simulated:
        found = [(f"{run['seed']} {run['class']}", run["goodput"], run["usual"], run["best"], run, run["confirming"], run["led"]) for run in in_model_time(args, folder, seeds, keep)]
    else:
        (keep / "adapter.rhai").write_text((folder / "adapter.rhai").read_text() + TABLE)
        found = over_http(args, folder, seeds, keep)
    seen = []
    for name, mine, usual, best, run, confirming, led in found:
        if args.null:
            best = usual = mine = 1.0
        shares = [mine / best, usual / best] if best else [None, None]
        seen.append((*shares, run["starts"], led, run["answer"]))
        cells = ["-" if share is None else f"{share:.1%}" for share in shares]
        print(f"| {name} | {run['answer']} | {cells[0]} | {cells[1]} | {run['starts']} + {confirming} | {run['fit']:.1%} | {'yes' if led else 'no'} |", flush=True)
    feasible = [one for one in seen if one[0] is not None]
    if args.null:
        print(f"\nwinners where nothing is better: {sum(one[4] == 'winner' for one in seen)} of {len(seen)}")
    elif feasible:
        print(f"\nmean {fmean(one[0] for one in feasible):.1%} of the best (defaults {fmean(one[1] for one in feasible):.1%}), lowest {min(one[0] for one in feasible):.1%}; "
              f"within 3 % of the best in {sum(one[0] >= 0.97 for one in feasible)} of {len(feasible)}, below the defaults in {sum(one[0] < one[1] - 1e-9 for one in feasible)}; "
              f"median {median(one[2] for one in seen)} starts; surrogate led {sum(one[3] for one in seen)} of {len(seen)}")
    impossible = [one for one in seen if one[0] is None]
    if impossible:
        print(f"nothing feasible: said in {sum(one[4] == 'none' for one in impossible)} of {len(impossible)}, within {max(one[2] for one in impossible)} starts")


def over_http(args, folder, seeds, keep):
    """The runs against engines that serve, one after the other."""
    for seed in seeds:
        goodput, limits = truth(folder, seed, args.cls, keep)
        found = tune(args, folder, seed, limits, keep)
        if found is None:
            print(f"| {seed} | failed, see run-{seed}.log | | | | | |", flush=True)
            continue
        chosen = {**USUAL, **{"gpu_memory_utilization" if name == "memory_fraction" else name: value for name, value in found["winner"].items()}}
        mine, usual = goodput[tuple(chosen.values())], goodput[tuple(USUAL.values())]
        yield seed, mine, usual, max(goodput.values()), found, (found["confirmed"] or {"starts": 0})["starts"], found["surrogate"]


if __name__ == "__main__":
    main()
