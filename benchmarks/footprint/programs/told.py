"""What a program tells of itself, with as little as can be loaded for that."""

import sys


def tell(**figures):
    """Say a few figures."""
    for name, value in figures.items():
        sys.stdout.write(f"{name} {value}\n")
    sys.stdout.flush()


def rss_kib():
    """Return what this process holds in memory."""
    try:
        # Without pathlib, which would be one module more.
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - loads nothing
            lines = (line.split() for line in status)
            return next(int(line[1]) for line in lines if line[0] == "VmRSS:")
    except OSError:
        return 0


def imported():
    """Tell what an import brought along; return the arguments of what is to follow."""
    tell(import_modules=len(sys.modules))
    return sys.argv[1:]


async def calls(call, many="0"):
    """Call once, and then as often as is wanted; tell what that left."""
    await call()
    tell(call_modules=len(sys.modules), call_rss_kib=rss_kib())
    if many := int(many):
        from array import array

        counts = array("q", (0, 0, 0))  # a list would hold a block for each number
        for turn in range(3):  # the first one finds what is made once
            for _ in range(many):
                await call()
            counts[turn] = blocks()
        tell(after_rss_kib=rss_kib(), blocks_left=counts[2] - counts[1])
        tell(peak_bytes=await peak(call))


def blocks():
    """Return how many blocks of memory are in use."""
    import gc

    gc.collect()
    return sys.getallocatedblocks()


async def peak(call):
    """Return how many bytes a call has allocated at once, at its highest point."""
    import tracemalloc

    taken = []
    tracemalloc.start()
    for _ in range(50):
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await call()
        taken.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return sorted(taken)[len(taken) // 2]
