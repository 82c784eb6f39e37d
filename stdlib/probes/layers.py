"""Memory by layer: parameters of each, and what each holds at most while a prompt of M tokens passes through it; and by operation.

Loads the folder in this process, never next to a serving engine or another user of the GPU, unless --second-copy is given. The
figures are those of torch.profiler: every allocation and release during one forward pass, in order, on the model's device. A layer's
`peak` is the most that was held during its turn beyond what was held at its begin; `kept` is what was still held at its end.
Operations, their shapes and the trace are of a second pass, since recording shapes keeps tensors alive. With --output the model also
generates token by token, as a loop of one's own would, before anything is recorded.
"""

import argparse
import os
import re
import tempfile
import time

import profiler_probe as probe

VERSION = 2
SPAN = "profiler-layer:"

# A larger trace would not fit into the document.
TRACE_BYTES = 12 * 1024 * 1024


def options():
    parser = argparse.ArgumentParser(prog="layers", description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--batch", type=int, default=1, help="concurrent sequences")
    parser.add_argument("--dtype", help="type of the weights: bfloat16, float16, float32; without it, as transformers decides")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where the model is put")
    parser.add_argument("--with-cache", action="store_true", help="keep keys and values, as an engine does")
    parser.add_argument("--random-weights", action="store_true", help="only the configuration of the model is needed")
    parser.add_argument("--shapes", action="store_true", help="tell operations apart by the shapes of their inputs")
    parser.add_argument("--trace", action="store_true", help="add a Chrome trace of the pass, as text")
    parser.add_argument("--output", type=int, default=0, help="tokens to generate one by one, each timed")
    parser.add_argument("--second-copy", action="store_true", help="load it even next to a serving engine")
    return parser.parse_args()


def layers_of(torch, model):
    """Names and modules that follow each other and cover the model: blocks of a repeated list, and whatever else there is."""
    found = []

    def walk(prefix, module):
        children = list(module.named_children())
        if not any(isinstance(part, torch.nn.ModuleList) for part in module.modules()):
            found.append((prefix, module))
            return
        for name, child in children:
            path = "%s.%s" % (prefix, name) if prefix else name
            if isinstance(child, torch.nn.ModuleList):
                found.extend(("%s.%s" % (path, index), block) for index, block in enumerate(child))
            else:
                walk(path, child)

    walk("", model)
    return found


def weigh(layers):
    """Parameters and buffers of each layer, bytes. What several share is counted to the first."""
    seen = set()
    rows = []
    for name, module in layers:
        own = [one for one in module.parameters() if id(one) not in seen]
        seen.update(id(one) for one in own)
        shared = any(id(one) in seen for one in module.parameters()) and not own
        buffers = list(module.buffers())
        rows.append(
            {
                "layer": name,
                "type": type(module).__name__,
                "parameters": sum(one.numel() for one in own),
                "parameter_bytes": sum(one.numel() * one.element_size() for one in own),
                "buffer_bytes": sum(one.numel() * one.element_size() for one in buffers),
                "tied": shared,
            }
        )
    return rows


def watch(torch, layers):
    """Makes each layer's turn a span of the profile."""
    spans = {}

    def enter(name):
        def hook(_module, _inputs):
            spans[name] = torch.profiler.record_function(SPAN + name)
            spans[name].__enter__()

        return hook

    def leave(name):
        def hook(_module, _inputs, _output):
            spans.pop(name).__exit__(None, None, None)

        return hook

    for name, module in layers:
        module.register_forward_pre_hook(enter(name))
        module.register_forward_hook(leave(name))


def forward(torch, model, given, **recorded):
    """The profile of one forward pass, after one that warms up."""
    prompt = torch.ones((given.batch, given.tokens), dtype=torch.long, device=given.device)
    with torch.no_grad():
        model(prompt, use_cache=given.with_cache)
        if given.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        with torch.profiler.profile(profile_memory=True, **recorded) as profile:
            output = model(prompt, use_cache=given.with_cache)
            del output
        # Within the profile it would be an operation of its own.
        if given.device == "cuda":
            torch.cuda.synchronize()
    return profile


def of_device(event, device, what):
    """A figure of the model's device; older versions of torch call it `cuda`. None if there is none."""
    names = ("cpu",) if device == "cpu" else ("device", "cuda")
    return next((getattr(event, what % name) for name in names if hasattr(event, what % name)), None)


def operations(profile, given):
    """By operation of torch: calls, its own time on the CPU and on the GPU, the bytes that it allocated itself less what it released,
    and those with the operations that it calls; most bytes of its own first."""
    rows = []
    for one in profile.key_averages(group_by_input_shape=given.shapes):
        if one.key.startswith((SPAN, "[memory]")) or not of_torch(one):
            continue
        row = {"operation": one.key, "calls": one.count, "cpu_us": one.self_cpu_time_total, "device_us": None}
        if given.device != "cpu":
            row["device_us"] = of_device(one, given.device, "self_%s_time_total")
        row["self_bytes"] = of_device(one, given.device, "self_%s_memory_usage")
        row["bytes"] = of_device(one, given.device, "%s_memory_usage")
        if given.shapes:
            row["shapes"] = [list(shape) if isinstance(shape, (list, tuple)) else str(shape) for shape in one.input_shapes or []]
        rows.append(row)
    return sorted(rows, key=lambda row: (-(row["self_bytes"] or 0), -row["cpu_us"]))


def of_torch(event):
    """Whether an event is an operation of torch. Kernels, whose time the operation that launched them has too, and calls of the driver's
    libraries are not."""
    place = getattr(event, "device_type", None)
    return (place is None or "CPU" in str(place)) and not re.match("(cuda|cu|hip)[A-Z]", event.key)


def trace_of(profile):
    """The Chrome trace of a profile as text, and why it is missing."""
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profile.export_chrome_trace(path)
        size = os.path.getsize(path)
        if size > TRACE_BYTES:
            return None, "the trace has %d bytes, and at most %d are handed over; fewer layers make it shorter" % (size, TRACE_BYTES)
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(), None
    finally:
        os.unlink(path)


def generated(torch, model, given):
    """Time to the first token, the rate of those after it, and the size of the cache, of a plain loop over tokens; and why there is
    none."""
    prompt = torch.ones((given.batch, given.tokens), dtype=torch.long, device=given.device)
    cache = None
    marks = []
    sizes = []
    with torch.no_grad():
        # Loads the kernels of both phases.
        answer = model(prompt, use_cache=True)
        if getattr(answer, "past_key_values", None) is None:
            return None, "tokens were not generated one by one: %s returns no cache of keys and values to go on from" % type(model).__name__
        if given.output > 1:
            model(answer.logits[:, -1:].argmax(-1), use_cache=True, past_key_values=answer.past_key_values)
        del answer
        spent = 0.0
        for _ in range(given.output):
            begin = clock(torch, given)
            answer = model(prompt, use_cache=True, past_key_values=cache)
            prompt = answer.logits[:, -1:].argmax(-1)
            cache = answer.past_key_values
            spent += clock(torch, given) - begin
            marks.append(spent)
            sizes.append(cache_bytes(torch, cache))
    later = marks[-1] - marks[0]
    return {
        "output": given.output,
        "ttft_ms": marks[0] * 1000,
        "tpot_ms": later * 1000 / (given.output - 1) if given.output > 1 else None,
        "output_throughput": given.output * given.batch / marks[-1],
        "token_ms": [mark * 1000 for mark in marks],
        "kv_bytes": sizes,
    }, None


def clock(torch, given):
    """Seconds, once the device has done what it was told."""
    if given.device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def cache_bytes(torch, cache):
    """Bytes of the tensors of a cache, whichever class or nesting this version of transformers has; None if it shows none."""
    seen = {}

    def walk(part, depth):
        if torch.is_tensor(part):
            seen[id(part)] = part.numel() * part.element_size()
        elif isinstance(part, dict) and depth < 6:
            for one in part.values():
                walk(one, depth + 1)
        elif isinstance(part, (list, tuple)) and depth < 6:
            for one in part:
                walk(one, depth + 1)
        elif hasattr(part, "__dict__") and depth < 6:
            walk(vars(part), depth + 1)

    walk(cache, 0)
    return sum(seen.values()) if seen else None


def times(event):
    """Begin and end of an event; nanoseconds, in torch before 2.3 microseconds."""
    if hasattr(event, "start_ns"):
        return event.start_ns(), event.start_ns() + event.duration_ns()
    return event.start_us(), event.start_us() + event.duration_us()


def turns(events, device):
    """By layer: the most held during its turn beyond what its begin held, and what its end still held, bytes."""
    changes = []
    spans = []
    for event in events:
        if event.name() == "[memory]":
            if device in str(event.device_type()).lower():
                changes.append((times(event)[0], event.nbytes()))
        elif event.name().startswith(SPAN):
            spans.append((event.name()[len(SPAN) :], *times(event)))
    if not changes:
        raise probe.Stop(3, "torch.profiler reported no memory on the device `%s`" % device, "use a torch that was built with Kineto")
    changes.sort(key=lambda change: change[0])
    found = {}
    for name, begin, end in spans:
        held = peak = 0
        for at, change in changes:
            if begin <= at <= end:
                held += change
                peak = max(peak, held)
        turn = found.setdefault(name, {"calls": 0, "peak": 0, "kept": 0})
        turn["calls"] += 1
        turn["peak"] = max(turn["peak"], peak)
        turn["kept"] += held
    total = most = 0
    for _, change in changes:
        total += change
        most = max(most, total)
    return found, most


def measure(given):
    torch = probe.torch_module()
    if given.device == "cuda":
        probe.need_cuda(torch)
        torch.cuda.init()
    probe.refuse_beside(torch, given.second_copy)
    model = probe.load_model(torch, given.model, given.dtype, given.device, given.random_weights)
    loop = no_loop = None
    if given.output > 0:
        probe.progress("generating %d tokens one by one after %d, %d concurrent" % (given.output, given.tokens, given.batch))
        loop, no_loop = generated(torch, model, given)
    layers = layers_of(torch, model)
    rows = weigh(layers)
    watch(torch, layers)
    probe.progress("one pass of %d tokens, %d concurrent, through %d layers" % (given.tokens, given.batch, len(layers)))
    kinds = torch.profiler.ProfilerActivity
    found, most = turns(forward(torch, model, given, activities=[kinds.CPU]).profiler.kineto_results.events(), given.device)
    devices = probe.devices_memory(torch) if given.device == "cuda" else []
    probe.progress("one more, by operation")
    also = [kinds.CUDA] if given.device == "cuda" else []
    profile = forward(torch, model, given, activities=[kinds.CPU] + also, record_shapes=given.shapes)
    trace, why = trace_of(profile) if given.trace else (None, None)
    for row in rows:
        row.update(found.get(row["layer"], {"calls": 0, "peak": None, "kept": None}))
    return {
        "versions": probe.versions(torch),
        "model": given.model,
        "device": given.device,
        "random_weights": given.random_weights,
        "dtype": str(next(model.parameters()).dtype).replace("torch.", ""),
        "tokens": given.tokens,
        "batch": given.batch,
        "with_cache": given.with_cache,
        "layers": rows,
        "operations": operations(profile, given),
        "generated": loop,
        "trace": trace,
        "unknown": {name: reason for name, reason in (("trace", why), ("generated", no_loop)) if reason},
        "parameters": sum(one.numel() for one in model.parameters()),
        "parameter_bytes": sum(one.numel() * one.element_size() for one in model.parameters()),
        # Beyond the weights, over the whole pass.
        "activation_peak": most,
        "devices": devices,
    }


if __name__ == "__main__":
    GIVEN = options()
    probe.run("layers", VERSION, lambda: measure(GIVEN))
