"""Runs clients of other projects and `engine.load` against the same simulated engine, and prints the table of docs/parity.md.

    python3 -m venv /tmp/parity && /tmp/parity/bin/pip install aiperf guidellm
    python3 benches/parity/parity.py target/release/profiler /tmp/parity/bin MODEL

MODEL is a folder with a tokenizer, for prompts of 256 tokens by these clients. GuideLLM brings torch: both together take 6.5 GB. Each client sends 64
requests of 256 + 64 tokens, 8 at a time, one client after another. Their files are read by `profiler show`, and its figures are checked against each
client's own record of every request.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

program, tools, model = sys.argv[1:]
program, model = os.path.abspath(program), os.path.abspath(model)
port = "8123"
url = f"http://127.0.0.1:{port}"
work = tempfile.mkdtemp()
os.symlink(model, os.path.join(work, "model"))


def run(*words):
    done = subprocess.run(words, cwd=work, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def shown(path):
    """Figures as `profiler show` reads them."""
    document = json.loads(run(program, "show", "--json", path))
    return {figure["name"]: figure["value"] for case in document["cases"] for figure in case["figures"]}


def ours():
    run(program, "run", "throughput", "--url", url, "--engine", "vllm", "--model", "llama", "--input", "256", "--output", "64",
        "--concurrency", "8", "--requests", "64", "--out", "ours")
    load = json.loads(run(program, "show", "--json", "ours"))["loads"][0]["answer"]
    return {
        "request_throughput": load["completed"] / load["duration"],
        "output_throughput": load["completed"] * 64 / load["duration"],
        "mean_ttft_ms": load["ttft_ms"]["mean"],
        "mean_tpot_ms": load["tpot_ms"]["mean"],
        "mean_e2el_ms": load["e2el_ms"]["mean"],
    }, {}


def aiperf(*more):
    folder = "aiperf" + "".join(more)
    run(os.path.join(tools, "aiperf"), "profile", "-m", "llama", "--url", url, "--endpoint-type", "completions", "--streaming", "--concurrency", "8",
        "--request-count", "64", "--synthetic-input-tokens-mean", "256", "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean", "64",
        "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true", "--extra-inputs", "min_tokens:64", "--tokenizer", "./model",
        "--artifact-dir", folder, "--ui", "none", *more)
    with open(os.path.join(work, folder, "profile_export.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line)["metrics"] for line in file]
    values = lambda name: [record[name]["value"] for record in records]
    raw = {"mean_ttft_ms": values("time_to_first_token"), "mean_e2el_ms": values("request_latency"), "mean_tpot_ms": values("inter_token_latency")}
    return shown(os.path.join(folder, "profile_export_aiperf.json")), {name: statistics.mean(each) for name, each in raw.items()}


def guidellm():
    run(os.path.join(tools, "guidellm"), "run", "--backend", f"kind=openai_http,target={url},model=llama,request_format=/v1/completions",
        "--profile", "kind=concurrent,streams=8", "--constraint", "kind=max_requests,count=64", "--tokenizer", "kind=hf_auto,model=./model",
        "--data", "kind=synthetic_text,prompt_tokens=256,output_tokens=64", "--output", "kind=json,path=guidellm.json", "--disable-console")
    with open(os.path.join(work, "guidellm.json"), encoding="utf-8") as file:
        requests = json.load(file)["benchmarks"][0]["requests"]["successful"]
    values = lambda name, scale: [request[name] * scale for request in requests]
    raw = {"mean_ttft_ms": values("time_to_first_token_ms", 1), "mean_e2el_ms": values("request_latency", 1000),
           "mean_tpot_ms": values("inter_token_latency_ms", 1)}
    return shown("guidellm.json"), {name: statistics.mean(each) for name, each in raw.items()}


engine = subprocess.Popen(
    [program, "sim", "--profile", "llama-8b-24gb-vllm", "--port", port, "--time-scale", "1", "--model", "llama", "--tokenizer", "model/tokenizer.json"],
    cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    for _ in range(600):
        try:
            urllib.request.urlopen(url + "/health").close()
            break
        except OSError:
            engine.poll() is None or sys.exit("the simulated engine ended")
            time.sleep(0.2)
    clients = {
        "`throughput`": ours(),
        "AIPerf": aiperf(),
        "AIPerf, `--use-server-token-count`": aiperf("--use-server-token-count"),
        "GuideLLM": guidellm(),
    }
finally:
    engine.terminate()

rows = ["request_throughput", "output_throughput", "mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"]
cell = lambda figures, name: f"{figures[name]:.2f}" if figures.get(name) is not None else ""
print("| | " + " | ".join(clients) + " |")
print("|---|" + "---|" * len(clients))
for name in rows:
    print(f"| `{name}` | " + " | ".join(cell(figures, name) for figures, _ in clients.values()) + " |")
for name in rows[2:]:
    print(f"| `{name}`, from its requests | " + " | ".join(cell(raw, name) for _, raw in clients.values()) + " |")
