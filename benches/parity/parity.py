"""Runs load clients of other projects and `throughput` against one simulated engine, and writes the tables of docs/parity.md.

    python3.12 benches/parity/parity.py target/release/profiler MODEL TOOLS [docs/parity.md]

MODEL is a folder with a tokenizer, for prompts of 256 tokens. TOOLS is a folder for the clients: each is installed there once, from PyPI, in an environment
of its own (Python 3.12 or newer; 7 GB, as GuideLLM needs torch; vLLM's bench is unpacked from its wheel, vllm_bench.py). Each client sends 64 requests of
256 + 64 tokens, 8 at a time, then 16 one at a time, one client after another. `profiler show` reads their files, and its figures are checked against each
client's own record of every request. Without a page, the tables are printed.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile

PACKAGES = {
    "aiperf": ["aiperf==0.13.0"],
    "guidellm": ["guidellm==0.8.1"],
    "inference-perf": ["inference-perf==0.7.0"],
    # As vllm_bench.py needs them.
    "vllm": ["aiohttp", "numpy", "tqdm", "transformers", "pybase64", "regex", "pillow", "pandas", "datasets"],
}
VLLM = "0.33.0"
# A first token within this time did not wait for another request's prefill (a step of 256 tokens takes 48.5 ms).
ALONE_MS = 35

program, model, tools, *page = [os.path.abspath(word) for word in sys.argv[1:]]
port = "8123"
url = f"http://127.0.0.1:{port}"
work = pathlib.Path(tempfile.mkdtemp())
(work / "model").symlink_to(model)


def run(*words, where=work):
    done = subprocess.run(words, cwd=where, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def tool(name, command):
    """The path of a client's command, which is installed first if it is missing."""
    folder = pathlib.Path(tools) / name
    # Left only by a whole installation.
    mark = folder / "installed"
    if not mark.exists():
        print(f"installing {name}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        run(folder / "bin" / "pip", "install", "-q", *PACKAGES[name])
        mark.touch()
    return folder / "bin" / command


def vllm_sources():
    """The folder with `vllm/benchmarks` of the wheel."""
    python = tool("vllm", "python")
    folder = python.parent.parent / f"wheel-{VLLM}"
    mark = folder / "vllm" / "__init__.py"
    if not mark.exists():
        with tempfile.TemporaryDirectory() as download:
            run(python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", download, f"vllm=={VLLM}")
            with zipfile.ZipFile(next(pathlib.Path(download).glob("*.whl"))) as wheel:
                wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("vllm/benchmarks/")])
        mark.touch()
    return python, folder


def shown(path):
    """Figures as `profiler show` reads them."""
    document = json.loads(run(program, "show", "--json", path))
    return {figure["name"]: figure["value"] for case in document["cases"] for figure in case["figures"]}


def load(path):
    return json.loads((work / path).read_text())


def detailed(path):
    """Each request in vLLM's format: TTFT and E2E latency in milliseconds, output tokens."""
    file = load(path)
    return [(1000 * ttft, 1000 * (ttft + sum(itl)), tokens) for ttft, itl, tokens in zip(file["ttfts"], file["itls"], file["output_lens"])]


def ours(streams, requests):
    out = f"ours-{streams}"
    run(program, "run", "throughput", "--url", url, "--engine", "vllm", "--model", "llama", "--input", "256", "--output", "64",
        "--concurrency", str(streams), "--requests", str(requests), "--out", out)
    answer = json.loads(run(program, "show", "--json", out))["loads"][0]["answer"]
    figures = {f"mean_{name}": answer[name]["mean"] for name in ("ttft_ms", "tpot_ms", "e2el_ms")}
    return figures | {name: answer[name] for name in ("request_throughput", "output_throughput")}, detailed(f"{out}/loads/1.json")


def vllm(streams, requests):
    python, sources = vllm_sources()
    name = f"vllm-{streams}.json"
    run(python, pathlib.Path(__file__).with_name("vllm_bench.py").absolute(), sources, "--backend", "openai", "--base-url", url, "--endpoint",
        "/v1/completions", "--model", "llama", "--tokenizer", "./model", "--dataset-name", "random", "--random-input-len", "256",
        "--random-output-len", "64", "--num-prompts", str(requests), "--max-concurrency", str(streams), "--ignore-eos", "--save-result",
        "--save-detailed", "--result-filename", name)
    return shown(name), detailed(name)


def aiperf(streams, requests, *more):
    folder = f"aiperf-{streams}{''.join(more)}"
    run(tool("aiperf", "aiperf"), "profile", "-m", "llama", "--url", url, "--endpoint-type", "completions", "--streaming", "--concurrency", str(streams),
        "--request-count", str(requests), "--synthetic-input-tokens-mean", "256", "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean", "64",
        "--output-tokens-stddev", "0", "--extra-inputs", "ignore_eos:true", "--extra-inputs", "min_tokens:64", "--tokenizer", "./model",
        "--artifact-dir", folder, "--ui", "none", *more)
    lines = (work / folder / "profile_export.jsonl").read_text().splitlines()
    records = [json.loads(line)["metrics"] for line in lines]
    names = ("time_to_first_token", "request_latency", "output_sequence_length")
    return shown(f"{folder}/profile_export_aiperf.json"), [tuple(record[name]["value"] for name in names) for record in records]


def guidellm(streams, requests):
    name = f"guidellm-{streams}.json"
    run(tool("guidellm", "guidellm"), "run", "--backend", f"kind=openai_http,target={url},model=llama,request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={streams}", "--constraint", f"kind=max_requests,count={requests}", "--tokenizer",
        "kind=hf_auto,model=./model", "--data", "kind=synthetic_text,prompt_tokens=256,output_tokens=64", "--output", f"kind=json,path={name}",
        "--disable-console")
    records = load(name)["benchmarks"][0]["requests"]["successful"]
    return shown(name), [(each["time_to_first_token_ms"], 1000 * each["request_latency"], each["output_tokens"]) for each in records]


def inference_perf(streams, requests, server_count=False):
    folder = f"inference-perf-{streams}-{server_count}"
    length = lambda tokens: {"type": "fixed", "min": tokens, "max": tokens, "mean": tokens, "std_dev": 0, "total_count": requests}
    # JSON is YAML.
    (work / f"{folder}.yaml").write_text(json.dumps({
        "api": {"type": "completion", "streaming": True},
        "data": {"type": "random", "input_distribution": length(256), "output_distribution": length(64)},
        "load": {"type": "concurrent", "num_workers": 1, "stages": [{"num_requests": requests, "concurrency_level": streams}]},
        "server": {"type": "vllm", "model_name": "llama", "base_url": url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": "./model"},
        "report": {"request_lifecycle": {"per_request": True, "use_server_output_tokens": server_count, "per_request_fields": {
            "request": False, "response": False, "response_chunks": False, "computed_metrics": True}}},
        "storage": {"local_storage": {"path": folder}},
    }))
    run(tool("inference-perf", "inference-perf"), "--config_file", f"{folder}.yaml")
    records = [each["computed_metrics"] for each in load(f"{folder}/per_request_lifecycle_metrics.json")]
    # `output_tokens` is its own count of the text, with either setting.
    tokens = lambda each: None if server_count else each["output_tokens"]
    return shown(f"{folder}/summary_lifecycle_metrics.json"), [
        (1000 * each["time_to_first_token"], 1000 * each["request_latency"], tokens(each)) for each in records]


CLIENTS = {
    "`throughput`": ours,
    "`vllm bench serve`": vllm,
    "AIPerf": aiperf,
    "AIPerf, the server's count": lambda *load: aiperf(*load, "--use-server-token-count"),
    "GuideLLM": guidellm,
    "inference-perf": inference_perf,
    "inference-perf, the server's count": lambda *load: inference_perf(*load, True),
}


def table(streams, measured):
    rows = [("", list(measured)), None]
    cell = lambda value: "" if value is None else f"{value:.2f}"
    for name in ("request_throughput", "output_throughput", "mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"):
        rows.append((f"`{name}`", [cell(figures.get(name)) for figures, _ in measured.values()]))
    means = {
        "`mean_ttft_ms`, from its requests": lambda ttft, e2el, tokens: ttft,
        "`mean_tpot_ms`, from its requests": lambda ttft, e2el, tokens: None if tokens is None else (e2el - ttft) / max(tokens - 1, 1),
        "`mean_e2el_ms`, from its requests": lambda ttft, e2el, tokens: e2el,
    }
    for name, of in means.items():
        values = [[of(*request) for request in requests] for _, requests in measured.values()]
        rows.append((name, [cell(None if None in each else statistics.mean(each)) for each in values]))
    if streams > 1:
        share = lambda requests: statistics.mean(ttft < ALONE_MS for ttft, _, _ in requests)
        rows.append((f"of {streams}, those with a first token within {ALONE_MS} ms", [f"{streams * share(requests):.1f}" for _, requests in measured.values()]))
    lines = [f"| {row[0]} | " + " | ".join(row[1]) + " |" if row else "|---" * (len(measured) + 1) + "|" for row in rows]
    return "\n".join(lines)


def tables():
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
        for title, streams, requests in (("eight", 8, 64), ("one", 1, 16)):
            measured = {}
            for name, client in CLIENTS.items():
                print(f"{title}: {name}", file=sys.stderr)
                measured[name] = client(streams, requests)
            yield title, table(streams, measured)
    finally:
        engine.terminate()
        engine.wait()


for name in PACKAGES:
    tool(name, "python")
vllm_sources()
for title, text in tables():
    if not page:
        print(text + "\n", flush=True)
        continue
    # Between two lines of the page.
    begin, end = f"<!-- {title} -->\n", f"<!-- end of {title} -->"
    path = pathlib.Path(page[0])
    before, _, rest = path.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        sys.exit(f"{path} lacks the lines `{begin.strip()}` and `{end}`; the table:\n\n{text}")
    path.write_text(f"{before}{begin}\n{text}\n\n{end}{after}")
shutil.rmtree(work)
