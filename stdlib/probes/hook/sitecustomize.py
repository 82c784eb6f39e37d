"""Sends the counters of torch's allocator in the processes of an engine to a probe that connects, and does nothing else.

It lies on PYTHONPATH of an engine that was launched with `in_process: true`. A process that never uses a GPU starts nothing. One
that does gets, once CUDA is up, a thread that sleeps until somebody connects to its socket: an abstract one, so that no file is
left, which answers only the same user and root, reads nothing, and writes one JSON document. No allocation is made on the GPU,
none is changed.
"""

import importlib.machinery
import importlib.util
import os
import sys

MARK = os.environ.get("PROFILER_IN_PROCESS")


def counters(torch):
    """What a probe gets of this process, bytes. Only devices that it uses are read: reading would make a CUDA context."""
    devices = []
    for index in range(torch.cuda.device_count()):
        stats = torch.cuda.memory_stats(index)
        if not stats.get("reserved_bytes.all.peak"):
            continue
        free, total = torch.cuda.mem_get_info(index)
        device = {"device": index, "device_used": total - free, "device_total": total}
        identity = getattr(torch.cuda.get_device_properties(index), "uuid", None)
        device["uuid"] = None if identity is None else str(identity)
        for kind in ("allocated", "reserved", "active", "inactive_split"):
            device[kind] = stats.get("%s_bytes.all.current" % kind, 0)
            device["peak_" + kind] = stats.get("%s_bytes.all.peak" % kind, 0)
        for count in ("num_alloc_retries", "num_ooms"):
            device[count] = stats.get(count, 0)
        devices.append(device)
    return {"pid": os.getpid(), "torch": torch.__version__, "devices": devices}


def listen():
    """Answers whoever connects, for as long as the process lives."""
    import json
    import socket
    import struct

    import torch

    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind("\0profiler-probe/%s/%d" % (MARK, os.getpid()))
    server.listen(4)
    while True:
        peer, _ = server.accept()
        with peer:
            try:
                credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                if struct.unpack("3i", credentials)[1] in (0, os.getuid()):
                    peer.sendall(json.dumps(counters(torch)).encode())
            except Exception as error:  # An engine must not notice a probe that went wrong.
                print("profiler: the probe was not answered: %r" % error, file=sys.stderr)


def begin():
    """Called by torch when this process has begun to use CUDA. A process that has cannot fork and go on with it."""
    import threading

    try:
        threading.Thread(target=listen, name="profiler-probe", daemon=True).start()
    except RuntimeError as error:  # No more threads: the engine goes on without.
        print("profiler: probes cannot be answered: %r" % error, file=sys.stderr)


class AfterCuda:
    """Finds `torch.cuda` as usual, and has it call `begin` once CUDA is up."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                # Private, and there since torch 0.4; without it the probe says that nobody answers.
                if hasattr(module, "_lazy_call"):
                    module._lazy_call(begin)

            spec.loader.exec_module = exec_module
        return spec


def pass_on():
    """Runs the `sitecustomize` that this one stands before, as Python would have without it."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if MARK:
    sys.meta_path.insert(0, AfterCuda())
pass_on()
