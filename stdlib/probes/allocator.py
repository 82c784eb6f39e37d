"""Counters of torch's memory allocator: of a serving engine's own processes, or of a model loaded here on request.

Without --model it reads the processes of an engine that was launched with `in_process: true`, and loads nothing. With --model it
loads that folder in this fresh process, generates, and prints the counters at each stage; never next to a serving engine or
another user of the GPU, unless --second-copy is given.
"""

import argparse
import json
import os
import socket

import profiler_nvml
import profiler_probe as probe

VERSION = 1


def options():
    parser = argparse.ArgumentParser(prog="allocator", description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder of a model to load here; without it, serving processes are read")
    parser.add_argument("--input", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--output", type=int, default=32, help="tokens to generate")
    parser.add_argument("--batch", type=int, default=1, help="concurrent sequences")
    parser.add_argument("--dtype", help="type of the weights: bfloat16, float16, float32; without it, as transformers decides")
    parser.add_argument("--random-weights", action="store_true", help="only the configuration of the model is needed")
    parser.add_argument("--second-copy", action="store_true", help="load it even next to a serving engine")
    return parser.parse_args()


def serving():
    """The counters of every process of the engine that has begun to use a GPU."""
    mark = os.environ.get("PROFILER_IN_PROCESS")
    if not mark:
        raise probe.Stop(
            3,
            "the engine was not launched with `in_process: true`, so its processes cannot be read",
            "launch it with `in_process: true`; or name a `model` to load in a process of its own",
        )
    answers = [answer for answer in (ask(name) for name in listeners(mark)) if answer]
    if not answers:
        raise probe.Stop(
            3,
            "no process of the engine answers",
            "it must be up, and be a Python program that uses torch on a GPU",
        )
    for answer in answers:
        for device in answer["devices"]:
            add_physical(answer["pid"], device)
    return {
        "mode": "serving",
        "versions": {"driver": profiler_nvml.driver_version()},
        "processes": sorted(answers, key=lambda answer: answer["pid"]),
    }


def add_physical(pid, device):
    """What the driver says that the process holds, and what of it torch's allocator did not ask for: the context, libraries, graphs."""
    held, why = profiler_nvml.memory_of(pid, device.get("uuid"))
    device["process_used"] = held
    device["outside_torch"] = None if held is None else held - device["reserved"]
    if why:
        device["unknown"] = {"process_used": why, "outside_torch": why}


def listeners(mark):
    """Abstract sockets of the engine's processes, as /proc/net/unix lists them: `@profiler-probe/MARK/PID`."""
    wanted = "@profiler-probe/%s/" % mark
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
        fields = (line.split() for line in table)
        names = {field[-1] for field in fields if field and field[-1].startswith(wanted)}
    return sorted(names)


def ask(name):
    """One process's answer; None where it has ended since."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(30)
            peer.connect("\0" + name[1:])
            pieces = iter(lambda: peer.recv(65536), b"")
            return json.loads(b"".join(pieces))
    except (OSError, ValueError) as error:
        probe.progress("%s: %s" % (name, error))
        return None


def loaded(given):
    """The counters before a model is loaded, after that, and after it has generated."""
    torch = probe.torch_module()
    probe.need_cuda(torch)
    torch.cuda.init()
    probe.refuse_beside(torch, given.second_copy)
    stages = []

    def stage(name):
        torch.cuda.synchronize()
        stages.append({"stage": name, "devices": probe.devices_memory(torch)})
        torch.cuda.reset_peak_memory_stats()

    # The first allocation makes the CUDA context, which would otherwise be counted to the model.
    torch.zeros(1, device="cuda")
    stage("context")
    model = probe.load_model(torch, given.model, given.dtype, "cuda", given.random_weights)
    parameters = list(model.parameters())
    stage("loaded")
    prompt = torch.ones((given.batch, given.input), dtype=torch.long, device="cuda")
    probe.progress("generating %d tokens after %d, %d concurrent" % (given.output, given.input, given.batch))
    with torch.no_grad():
        made = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            min_new_tokens=given.output,
            max_new_tokens=given.output,
            do_sample=False,
            pad_token_id=0,
        )
    produced = made.shape[1] - given.input
    del made
    stage("generated")
    return {
        "mode": "loaded",
        "versions": probe.versions(torch),
        "allocator": torch.cuda.get_allocator_backend() if hasattr(torch.cuda, "get_allocator_backend") else None,
        "model": given.model,
        "random_weights": given.random_weights,
        "dtype": str(parameters[0].dtype).replace("torch.", "") if parameters else None,
        "parameters": sum(one.numel() for one in parameters),
        "parameter_bytes": sum(one.numel() * one.element_size() for one in parameters),
        "input": given.input,
        "output": produced,
        "batch": given.batch,
        "stages": stages,
    }


if __name__ == "__main__":
    GIVEN = options()
    probe.run("allocator", VERSION, (lambda: loaded(GIVEN)) if GIVEN.model else serving)
