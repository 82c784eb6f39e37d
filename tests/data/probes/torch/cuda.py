"""Counters as torch.cuda names them. A segment of 2 MiB is reserved at a time and never given back; the context takes 300 MiB."""

TOTAL = 1 << 30
CONTEXT = 300 << 20
SEGMENT = 2 << 20

now = {"allocated": 0, "reserved": 0}
peak = {"allocated": 0, "reserved": 0}
waiting = []
begun = False


def _lazy_call(call):
    call() if begun else waiting.append(call)


def init():
    global begun
    if not begun:
        begun = True
        for call in waiting:
            call()


def allocate(count):
    init()
    now["allocated"] += count
    now["reserved"] = max(now["reserved"], -(-now["allocated"] // SEGMENT) * SEGMENT)
    for kind in now:
        peak[kind] = max(peak[kind], now[kind])


def release(count):
    now["allocated"] -= count


def is_available():
    return True


def device_count():
    return 1


def current_device():
    return 0


def synchronize():
    pass


def reset_peak_memory_stats():
    peak.update(now)


def memory_reserved(index):
    return now["reserved"]


def memory_stats(index):
    stats = {"num_alloc_retries": 1, "num_ooms": 0}
    for kind, source in (("allocated", "allocated"), ("active", "allocated"), ("reserved", "reserved")):
        stats["%s_bytes.all.current" % kind] = now[source]
        stats["%s_bytes.all.peak" % kind] = peak[source]
    stats["inactive_split_bytes.all.current"] = now["reserved"] - now["allocated"]
    return stats


def mem_get_info(index):
    return TOTAL - CONTEXT - now["reserved"], TOTAL


def get_device_name(index):
    return "Stand-in"


def get_device_properties(index):
    return object()


def get_allocator_backend():
    return "native"
