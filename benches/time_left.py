#!/usr/bin/env python3
"""How often the time left that a search says holds the time that it then takes, from the journals of runs.

`benches/time_left.py RUN…` prints a line for each search of these run folders, and one for all. A moment counts from the
third probe on, if at least 30 seconds are to come. With `--least 0.8` it fails if fewer moments hold.
"""
import argparse
import json
import pathlib
import sys

UNCERTAIN = 1.5  # As `src/report/live/progress.rs` shows it: from left / 1.5 to left * 1.5.
FROM_PROBE, LEAST_REST = 3, 30.0


def searches(folder):
    """The searches of a run: for each its moments, `[probes, seconds so far, seconds left as said]`."""
    found, spent = [], 0.0
    for line in (folder / "journal.jsonl").open():
        event = json.loads(line)
        kind = event["event"]
        if kind == "print" and found:
            found[-1] = (event["text"].split(":")[0], found[-1][1])
        elif kind == "boundary":
            found.append((folder.name, []))
            spent = 0.0
        elif kind == "point":
            answer = event["answer"]
            spent += answer.get("spent", answer).get("seconds", 0.0) if isinstance(answer, dict) else 0.0
        elif kind == "progress":
            found[-1][1].append((event["done"], spent, event["seconds_left"]))
    return found


def judged(moments):
    """Of each moment that counts: the rest, and what was said of it."""
    total = moments[-1][1] if moments else 0.0
    rests = [(total - spent, said) for probes, spent, said in moments if probes >= FROM_PROBE]
    return [(rest, said) for rest, said in rests if rest >= LEAST_REST]


def line(name, moments):
    held = [rest for rest, said in moments if said is not None and said / UNCERTAIN <= rest <= said * UNCERTAIN]
    early = [rest for rest, said in moments if said is not None and rest > said * UNCERTAIN]
    late = [rest for rest, said in moments if said is not None and rest < said / UNCERTAIN]
    share = 100.0 * len(held) / len(moments) if moments else 0.0
    print(f"{name:44} {len(moments):5} moments {share:4.0f} % held; said too little {len(early):4}, too much {len(late):4}")
    return len(held)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("runs", nargs="+", type=pathlib.Path)
    options.add_argument("--least", type=float, help="the share of moments that must hold")
    given = options.parse_args()
    every = []
    for run in given.runs:
        for name, moments in searches(run):
            counted = judged(moments)
            if counted:
                line(name, counted)
            every += counted
    held = line("all", every)
    if not every:
        sys.exit("no moment counts: no progress was told, or nothing took 30 seconds")
    if given.least is not None and held < given.least * len(every):
        sys.exit(f"{held} of {len(every)} moments hold, which is less than {given.least:.0%}")


main()
