"""Logs a run of profiler to Weights & Biases: its metrics, its tables and its page.

    pip install wandb
    profiler run throughput --engine sim --concurrency 1,8 --out sweep
    WANDB_MODE=offline python wandb_log.py sweep --project limits

Offline runs lie in `wandb/`; `wandb sync wandb/offline-run-*` uploads them. A load is one step, so that W&B draws each
metric over concurrency or request rate; memory over time and requests are tables.
"""

import argparse
import csv
import json
import pathlib
import subprocess

import wandb


def numbers(row):
    """The cells of a CSV row that are numbers."""
    found = {}
    for name, cell in row.items():
        try:
            found[name] = float(cell)
        except (TypeError, ValueError):
            continue
    return found


def sheet(program, run, name):
    """A table of the run as `profiler show --csv=NAME` prints it; empty if the run has none."""
    shown = subprocess.run([program, "show", run, f"--csv={name}"], capture_output=True, text=True)
    return list(csv.DictReader(shown.stdout.splitlines())) if shown.returncode == 0 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="the folder of a run")
    parser.add_argument("--project", default="profiler")
    parser.add_argument("--program", default="profiler", help="the program profiler")
    asked = parser.parse_args()
    folder = pathlib.Path(asked.run)
    manifest = json.loads((folder / "manifest.json").read_text())
    config = dict(manifest.get("parameters") or {}, script=manifest["script"]["name"], simulated=manifest["simulated"])
    with wandb.init(project=asked.project, name=manifest["run"], config=config) as run:
        for step, load in enumerate(sheet(asked.program, asked.run, "loads")):
            run.log(numbers(load), step=step)
        for name in ["points", "loads", "experiments", "breakdowns"]:
            rows = sheet(asked.program, asked.run, name)
            if rows:
                columns = list(rows[0])
                run.log({f"tables/{name}": wandb.Table(columns=columns, data=[[row[column] for column in columns] for row in rows])})
        for file in sorted(folder.glob("memory/*.csv")) + sorted(folder.glob("tables/*.csv")):
            with file.open(newline="") as text:
                columns, *rows = list(csv.reader(text)) or [[]]
            if rows:
                run.log({f"{file.parent.name}/{file.stem}": wandb.Table(columns=columns, data=rows)})
        page = folder / "report.html"
        if page.exists():
            run.log({"report": wandb.Html(page.read_text(), inject=False)})


if __name__ == "__main__":
    main()
