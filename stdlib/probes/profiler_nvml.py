"""The little that the probes ask NVML, by ctypes: the driver's version, and what a process holds on a device.

Not a probe itself. `pynvml` is not needed. Structures and versions as in NVIDIA's nvml.h.
"""

import ctypes
import os

NOT_TOLD = "the driver names no memory of this process: it sees other process numbers, as from a container, or does not tell"


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t, as nvmlDeviceGetComputeRunningProcesses_v3 fills it."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def library():
    """NVML, initialised; None where there is none."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        return nvml if nvml.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


def driver_version():
    """`580.159.04`; None where it is not known."""
    nvml = library()
    text = ctypes.create_string_buffer(96)
    if nvml is None or nvml.nvmlSystemGetDriverVersion(text, 96) != 0:
        return None
    return text.value.decode()


def own_memory(torch, index):
    """`memory_of` this process, on torch's device `index`."""
    identity = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    return memory_of(os.getpid(), None if identity is None else str(identity))


def memory_of(pid, uuid):
    """Bytes that a process holds on a device, and None; or None, and why they are not known."""
    if uuid is None:
        return None, "this torch does not tell the UUID of a device"
    nvml = library()
    if nvml is None:
        return None, "there is no NVML here"
    name = "GPU-%s" % uuid.replace("GPU-", "")
    device = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device)) != 0:
        return None, "NVML does not know the device %s" % name
    count = ctypes.c_uint(1024)
    found = (ProcessInfo * 1024)()
    try:
        status = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), found)
    except AttributeError:
        return None, "the driver is too old to tell the memory of processes"
    if status != 0:
        return None, "NVML lists no processes: status %d" % status
    for process in found[: count.value]:
        # All bits set: the driver does not tell.
        if process.pid == pid and process.used != 2**64 - 1:
            return process.used, None
    return None, NOT_TOLD
