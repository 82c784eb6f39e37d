"""CUDA graphs that TensorRT-LLM captures, by draft length, and the memory that its start takes, physical and as torch sees it.

Builds one `LLM` (PyTorch backend) in this process, with NGram speculation when --max-draft-len is above 0, and sends nothing to it.
With --max-concurrency graphs for draft length 0 are captured as well. One start a process: what one leaves behind must not be
counted to the next. Never next to a serving engine or another user of the GPU, unless --second-copy is given.
"""

import argparse
import os
import time

import profiler_probe as probe

VERSION = 1

# Where the engine behind an `LLM` is, by version; private all of them. The first three need a single process.
ENGINES = ("_executor.model_engine", "_executor.engine.model_engine", "_executor.worker.engine.model_engine")


def options():
    parser = argparse.ArgumentParser(prog="trtllm_graphs", description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--max-batch-size", type=int, default=32)
    parser.add_argument("--max-draft-len", type=int, default=4, help="0: no speculation")
    parser.add_argument("--max-concurrency", type=int, help="speculation is switched off above so many requests")
    parser.add_argument("--max-num-tokens", type=int, default=1024)
    parser.add_argument("--max-seq-len", type=int, default=2048)
    parser.add_argument("--padding", action="store_true", help="round batches up to a captured size")
    parser.add_argument("--random-weights", action="store_true", help="only the configuration of the model is needed")
    parser.add_argument("--second-copy", action="store_true", help="load it even next to a serving engine")
    return parser.parse_args()


def build(trt, given):
    """The `LLM`, and the seconds that it took."""
    arguments = {
        "model": given.model,
        "max_batch_size": given.max_batch_size,
        "max_num_tokens": given.max_num_tokens,
        "max_seq_len": given.max_seq_len,
        "cuda_graph_config": trt.CudaGraphConfig(max_batch_size=given.max_batch_size, enable_padding=given.padding),
    }
    if given.random_weights:
        arguments["load_format"] = "dummy"
        arguments["skip_tokenizer_init"] = True
    if given.max_draft_len > 0:
        arguments["speculative_config"] = trt.NGramDecodingConfig(
            max_draft_len=given.max_draft_len,
            max_concurrency=given.max_concurrency,
            max_matching_ngram_size=2,
        )
        # Before 1.2 NGram does not work with the overlap scheduler.
        arguments["disable_overlap_scheduler"] = True
    begun = time.monotonic()
    return trt.LLM(**arguments), time.monotonic() - begun


def follow(root, path):
    """The attribute at a dotted path; None where one is missing."""
    for name in path.split("."):
        root = getattr(root, name, None)
    return root


def graphs_of(llm):
    """The table of graphs, its attribute path, or None and why it is out of reach."""
    tried = []
    for path in ENGINES:
        engine = follow(llm, path)
        if engine is None:
            tried.append(path)
            continue
        # Up to 1.0: {batch: {draft length: graph}}; later {(batch, draft length, …): graph}.
        for table in ("_cuda_graphs", "cuda_graph_runner.graphs"):
            graphs = follow(engine, table)
            if isinstance(graphs, dict):
                return graphs, "%s.%s" % (path, table), None
            tried.append("%s.%s" % (path, table))
    return None, None, "this version keeps its graphs elsewhere; tried: %s" % ", ".join(tried)


def count(graphs):
    """Batch sizes of the graphs by draft length, or None where the table has another shape."""
    pairs = []
    for key, value in graphs.items():
        if isinstance(value, dict):
            pairs.extend((key, draft) for draft in value)
        elif isinstance(key, tuple) and len(key) >= 2:
            pairs.append(key[:2])
        else:
            return None
    if not all(type(part) is int for pair in pairs for part in pair):
        return None
    by_draft = {}
    for batch, draft in pairs:
        by_draft.setdefault(draft, []).append(batch)
    return {str(draft): sorted(batches) for draft, batches in sorted(by_draft.items())}


def graphs_report(llm):
    """`graphs` with their number, or None and `unknown`: a table that was not found is no table of length 0."""
    graphs, path, why = graphs_of(llm)
    batches = None if graphs is None else count(graphs)
    if batches is None:
        return {"graphs": None, "unknown": {"graphs": why or "the table at `%s` has another shape than known ones" % path}}
    return {
        "graphs": {
            "count": sum(len(sizes) for sizes in batches.values()),
            "by_draft_len": {draft: len(sizes) for draft, sizes in batches.items()},
            "batch_sizes": batches,
            "found_at": path,
        },
        "unknown": {},
    }


def measure(given):
    # Read when the library is imported: without it the engine is in another process, out of reach.
    os.environ["TLLM_WORKER_USE_SINGLE_PROCESS"] = "1"
    torch = probe.torch_module()
    probe.need_cuda(torch)
    torch.cuda.init()
    probe.refuse_beside(torch, given.second_copy)
    hint = "run the probe in a container of TensorRT-LLM"
    trt = probe.needed("tensorrt_llm.llmapi", hint)
    torch.zeros(1, device="cuda")
    before = probe.devices_memory(torch)
    probe.progress("building the engine: batch size up to %d, draft length %d" % (given.max_batch_size, given.max_draft_len))
    llm, seconds = build(trt, given)
    torch.cuda.synchronize()
    after = probe.devices_memory(torch)
    report = {
        "versions": dict(probe.versions(torch), tensorrt_llm=getattr(probe.needed("tensorrt_llm", hint), "__version__", None)),
        "model": given.model,
        "random_weights": given.random_weights,
        "max_batch_size": given.max_batch_size,
        "max_draft_len": given.max_draft_len,
        "max_concurrency": given.max_concurrency,
        "max_num_tokens": given.max_num_tokens,
        "max_seq_len": given.max_seq_len,
        "padding": given.padding,
        "seconds": seconds,
        "before": before,
        "after": after,
    }
    report.update(graphs_report(llm))
    return report


if __name__ == "__main__":
    GIVEN = options()
    probe.run("trtllm_graphs", VERSION, lambda: measure(GIVEN))
