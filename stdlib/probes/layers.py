"""Memory by layer: parameters of each, and what each holds at most while a prompt of M tokens passes through it; and by operation.

Loads the folder in this process, never next to a serving engine or another user of the GPU, unless --second-copy is given. The
figures are those of torch.profiler: every allocation and release during one forward pass, in order, on the model's device. A layer's
`peak` is the most that was held during its turn beyond what was held at its begin; `kept` is what was still held at its end.
"""

import argparse

import profiler_probe as probe

VERSION = 1
SPAN = "profiler-layer:"


def options():
    parser = argparse.ArgumentParser(prog="layers", description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--batch", type=int, default=1, help="concurrent sequences")
    parser.add_argument("--dtype", help="type of the weights: bfloat16, float16, float32; without it, as transformers decides")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where the model is put")
    parser.add_argument("--with-cache", action="store_true", help="keep keys and values, as an engine does")
    parser.add_argument("--random-weights", action="store_true", help="only the configuration of the model is needed")
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


def forward(torch, model, given):
    """The profile of one forward pass, after one that warms up."""
    prompt = torch.ones((given.batch, given.tokens), dtype=torch.long, device=given.device)
    profiler = torch.profiler
    with torch.no_grad():
        model(prompt, use_cache=given.with_cache)
        if given.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            output = model(prompt, use_cache=given.with_cache)
            del output
    return profile


def operations(profile, device):
    """By operation of torch: its calls, its own time on the CPU, and the bytes that it and those that it calls allocated, less what they released; most first."""
    rows = []
    for one in profile.key_averages():
        if one.key.startswith((SPAN, "[memory]")):
            continue
        # Older versions of torch call a device `cuda` there.
        names = ("cpu_memory_usage",) if device == "cpu" else ("device_memory_usage", "cuda_memory_usage")
        held = next((getattr(one, name) for name in names if hasattr(one, name)), None)
        rows.append({"operation": one.key, "calls": one.count, "cpu_us": one.self_cpu_time_total, "bytes": held})
    return sorted(rows, key=lambda row: (-(row["bytes"] or 0), -row["cpu_us"]))


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
    layers = layers_of(torch, model)
    rows = weigh(layers)
    watch(torch, layers)
    probe.progress("one pass of %d tokens, %d concurrent, through %d layers" % (given.tokens, given.batch, len(layers)))
    profile = forward(torch, model, given)
    found, most = turns(profile.profiler.kineto_results.events(), given.device)
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
        "operations": operations(profile, given.device),
        "parameters": sum(one.numel() for one in model.parameters()),
        "parameter_bytes": sum(one.numel() * one.element_size() for one in model.parameters()),
        # Beyond the weights, over the whole pass.
        "activation_peak": most,
        "devices": probe.devices_memory(torch) if given.device == "cuda" else [],
    }


if __name__ == "__main__":
    GIVEN = options()
    probe.run("layers", VERSION, lambda: measure(GIVEN))
