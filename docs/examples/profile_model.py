"""tgi-profiler's call: `profile_model(ProfilerConfig(...))`, answered by `profiler run neighbours`.

    from profile_model import ProfilerConfig, profile_model

    longest = ProfilerConfig("Qwen/Qwen3-8B", max_input_length=30_000, grid_size=6, output_dir="longest", gpu_ids=[1])
    for one in profile_model(longest):
        print(one["input_length"], one["output_length"], one["success"])

A result is a dict with `input_length`, `output_length`, `success`, `error_type`, `error_msg`, `container_logs` and
`timestamp`. The run's folder, with the same results as a `profile_res_*.json`, lies in `output_dir`. `plot_results(FILE)`
draws such a file. Needs Python 3.10 or later, the program `profiler`, and no package.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import time
import uuid


@dataclasses.dataclass
class ProfilerConfig:
    model_id: str
    min_input_length: int = 128
    max_input_length: int = 8192
    min_output_length: int = 128
    max_output_length: int = 4096
    gpu_ids: list = dataclasses.field(default_factory=lambda: [0])
    port: int | None = None  # of this machine; any free one
    grid_size: int = 8
    refinement_rounds: int = 2
    retries_per_point: int = 8
    output_tolerance_pct: float = 0.05  # a share, as tgi-profiler has it
    hf_token: str | None = None
    hf_cache_dir: str | os.PathLike | None = None
    output_dir: str | os.PathLike = "profiler_results"
    k_neighbors: int = 5
    m_random: int = 3
    distance_scale: float = 1000
    consistency_radius: float = 1000
    redundancy_weight: float = 0.5
    max_pair_distance: float = 1e12
    min_refinement_dist: float = 50
    resume_from_file: str | os.PathLike | None = None
    # Not of tgi-profiler: another engine, and further arguments of `profiler run`.
    engine: str = "tgi"
    arguments: list = dataclasses.field(default_factory=list)

    def __new__(cls, *values, **named):
        if unknown := sorted(named.keys() - cls.__dataclass_fields__.keys()):
            known = ", ".join(cls.__dataclass_fields__)
            raise TypeError(f"no {', '.join(unknown)} here: there are {known}; others of `profiler` go into arguments")
        return super().__new__(cls)


SEARCH = [
    "grid_size", "refinement_rounds", "k_neighbors", "m_random", "distance_scale", "consistency_radius",
    "redundancy_weight", "max_pair_distance", "min_refinement_dist",
]


def profile_model(config, program="profiler"):
    """Runs the search and returns its results. `subprocess.CalledProcessError` if it fails or is stopped early."""
    parent = pathlib.Path(config.output_dir)
    parent.mkdir(parents=True, exist_ok=True)
    # Two searches may begin within one second.
    out = parent / (time.strftime("%Y%m%d_%H%M%S_") + uuid.uuid4().hex[:8])
    options = {
        "engine": config.engine,
        "model": config.model_id,
        "gpus": ",".join(str(gpu) for gpu in config.gpu_ids),
        "input": f"{config.min_input_length}..{config.max_input_length}",
        "output": f"{config.min_output_length}..{config.max_output_length}",
        "output-tolerance": f"{100 * config.output_tolerance_pct:g}%",
        "search.retries": config.retries_per_point,
        "host-port": config.port,
        "hf-home": config.hf_cache_dir,
        "resume-from": config.resume_from_file,
    }
    options.update({"search." + name.replace("_", "-"): getattr(config, name) for name in SEARCH})
    flags = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    environment = dict(os.environ, **({"HF_TOKEN": config.hf_token} if config.hf_token else {}))
    command = [program, "run", "neighbours", *flags, "--out", str(out), *config.arguments]
    # Progress goes to standard error; the answer is in the file.
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
    files = sorted(out.glob("profile_res_*.json"))
    # 1: nothing fits, and the results say so.
    if done.returncode not in (0, 1) or not files:
        raise subprocess.CalledProcessError(done.returncode, command)
    return json.loads(files[-1].read_text())["results"]


def plot_results(file, folder="pictures", program="profiler"):
    """Draws a `profile_res_*.json` of either program into PNG files of a folder, and returns their paths."""
    subprocess.run([program, "report", str(file), "--png", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return sorted(pathlib.Path(folder).glob("*.png"))
