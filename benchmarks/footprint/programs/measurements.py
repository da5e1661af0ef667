"""Figures that a program reports of itself, with as few imports as possible."""

import sys


def print_figures(**figures):
    """Print figures, one name and value a line."""
    for name, value in figures.items():
        sys.stdout.write(f"{name} {value}\n")
    sys.stdout.flush()


def rss_kib():
    """Return the resident memory of this process in KiB; 0 without `/proc`."""
    try:
        # pathlib would add a module.
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - loads nothing
            lines = (line.split() for line in status)
            return next(int(line[1]) for line in lines if line[0] == "VmRSS:")
    except OSError:
        return 0


def report_import():
    """Report the number of modules after the import; return the arguments."""
    print_figures(import_modules=len(sys.modules))
    return sys.argv[1:]


async def measure_calls(call, repeats="0"):
    """Call once and report the memory; with `repeats` also what many calls leave."""
    await call()
    print_figures(call_modules=len(sys.modules), call_rss_kib=rss_kib())
    if repeats := int(repeats):
        from array import array

        counts = array("q", (0, 0, 0))  # a list would allocate a block for each number
        for turn in range(3):  # the first turn makes one-time allocations
            for _ in range(repeats):
                await call()
            counts[turn] = count_blocks()
        print_figures(after_rss_kib=rss_kib(), blocks_left=counts[2] - counts[1])
        print_figures(peak_bytes=await peak_bytes(call))


def count_blocks():
    """Return the number of allocated memory blocks after a collection."""
    import gc

    gc.collect()
    return sys.getallocatedblocks()


async def peak_bytes(call):
    """Return the median of a call's peak memory in bytes over 50 calls."""
    import tracemalloc

    peaks = []
    tracemalloc.start()
    for _ in range(50):
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await call()
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return sorted(peaks)[len(peaks) // 2]
