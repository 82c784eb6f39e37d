"""What the shipped probes share; not a probe itself.

A probe prints one JSON document on standard output and nothing else there, progress goes to standard error. Figures are
bytes unless a name says otherwise; what could not be found out is null, and `unknown` says why. Exit status: 0 done, 2 wrong
arguments, 3 something needed is missing (the document is then `{"error": …, "hint": …}`), 4 refused, so as not to disturb.
"""

import importlib
import json
import os
import platform
import sys

SCHEMA = "profiler-probe/1"

# Memory of others on a device below which it counts as free, as for a start of an engine.
FOREIGN = 256 * 1024 * 1024


class Stop(Exception):
    """The probe cannot go on: an exit status, what is wrong, and the remedy."""

    def __init__(self, status, error, hint):
        super().__init__(error)
        self.status = status
        self.hint = hint


def progress(text):
    """Tells people how far it is."""
    print(text, file=sys.stderr, flush=True)


def run(name, version, measure):
    """Calls `measure()`, which gives a map, prints the document and exits.

    Whatever else writes to standard output while it measures, a library's greeting say, goes to standard error.
    """
    document = {"schema": SCHEMA, "probe": name, "probe_version": version, "python": platform.python_version()}
    out = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    status = 0
    try:
        document.update(measure())
    except Stop as stop:
        document.update(error=str(stop), hint=stop.hint)
        status = stop.status
    sys.stdout.flush()
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
        stream.write("\n")
    # Not `sys.exit`: an engine library that was loaded may hang in its own clean-up, after the answer is out.
    sys.stderr.flush()
    os._exit(status)


def needed(module, hint):
    """Imports a module that the probe cannot do without."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Stop(3, "`%s` cannot be imported: %s" % (module, error), hint) from error


def torch_module():
    """torch, which every probe needs."""
    return needed("torch", "run the probe with the Python of the engine: option `python`, or the engine's own container")


def need_cuda(torch):
    """Stops where torch sees no GPU. ROCm's torch answers to the same name."""
    if not torch.cuda.is_available():
        raise Stop(3, "torch %s sees no GPU" % torch.__version__, "run the probe where the engine has its GPU")


def refuse_beside(torch, allowed):
    """Stops before a model is loaded next to a serving engine, or to anybody else, unless that was wanted."""
    if allowed:
        return
    hint = "stop the engine first, or ask for it: `second_copy: true` (`--second-copy`)"
    if os.environ.get("PROFILER_SERVING"):
        raise Stop(4, "an engine serves here, and this probe would load a second copy of a model next to it", hint)
    if not torch.cuda.is_available():
        return
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        others = total - free - context_guess(torch, index)
        if others > FOREIGN:
            raise Stop(4, "%d bytes of device %d are in use by somebody else" % (others, index), hint)


def context_guess(torch, index):
    """What this very process holds on a device; half a GiB, more than a CUDA context has, where that is not known."""
    import profiler_nvml

    held, _ = profiler_nvml.own_memory(torch, index)
    return 512 * 1024 * 1024 if held is None else held


def versions(torch):
    """Of torch, CUDA and the driver, and of transformers where a model was loaded with it."""
    import profiler_nvml

    found = {
        "torch": torch.__version__,
        "cuda": getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None),
        "driver": profiler_nvml.driver_version(),
    }
    if "transformers" in sys.modules:
        found["transformers"] = sys.modules["transformers"].__version__
    return found


def device_memory(torch, index):
    """Allocator counters and physical memory of one device, bytes.

    `device_used` is everybody's; `process_used` is what the driver says that this process holds, and `outside_torch` what of that
    torch's allocator did not ask for: the CUDA context, libraries' workspaces, graphs, NCCL.
    """
    import profiler_nvml

    stats = torch.cuda.memory_stats(index)
    free, total = torch.cuda.mem_get_info(index)
    held, why = profiler_nvml.own_memory(torch, index)
    report = {"device": index, "name": torch.cuda.get_device_name(index)}
    for kind in ("allocated", "reserved", "active", "inactive_split"):
        report[kind] = stats.get("%s_bytes.all.current" % kind, 0)
        report["peak_" + kind] = stats.get("%s_bytes.all.peak" % kind, 0)
    report["num_alloc_retries"] = stats.get("num_alloc_retries", 0)
    report["num_ooms"] = stats.get("num_ooms", 0)
    report.update(device_used=total - free, device_total=total, process_used=held)
    report["outside_torch"] = None if held is None else held - report["reserved"]
    if why:
        report["unknown"] = {"process_used": why, "outside_torch": why}
    return report


def devices_memory(torch):
    """`device_memory` of every device that this process uses."""
    used = [index for index in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(index) > 0]
    return [device_memory(torch, index) for index in used or [torch.cuda.current_device()]]


def load_model(torch, folder, dtype, device, random_weights):
    """The causal language model of a folder, in evaluation mode on `device`."""
    transformers = needed("transformers", "run the probe where transformers is installed")
    # No hub is contacted: a probe measures what is there.
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    wanted = dtype or getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    # Renamed in transformers 5; before, a model was loaded in 32 bits unless a type was named.
    key = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
    kind = {key: getattr(torch, wanted) if isinstance(wanted, str) else wanted} if wanted else {}
    progress("building the model" if random_weights else "loading the model")
    with torch.device(device) if random_weights and hasattr(torch, "set_default_device") else nothing():
        if random_weights:
            model = transformers.AutoModelForCausalLM.from_config(config, **kind)
        else:
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, config=config, local_files_only=True, **kind)
    return model.to(device).eval()


class nothing:
    """A context in which nothing is different."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False
