"""The cost of one call, counted by a profile function: no clock is read here.

A profile function receives each Python function that is entered (or resumed, if it is a
coroutine) and each C function that is called from Python. That is enough to count all
costs of a call, however its functions are imported or bound: a
decoded message is a call of orjson's `loads`, a system call one of the few functions
that make one, one loop iteration an entry of `_run_once`.
"""

import gc
import sys

LAPS = 20
WARM_UP_CALLS = 20

WINDOWS = 3
WINDOW_CALLS = 100

READS = {"read", "readinto", "readv", "recv", "recv_into", "recvmsg"}
WRITES = {"write", "writev", "send", "sendall", "sendmsg"}
POLLS = {"poll", "select", "control"}
SYSTEM = {"posix", "_socket", "select"}
ORJSON = {"orjson", "orjson.orjson"}
NO_SYSTEM_CALL = {"fspath", "fileno", "gettimeout", "fsdecode", "fsencode"}

LOOP = {
    "BaseEventLoop.create_task": "tasks",
    "BaseEventLoop.create_future": "futures",
    "BaseEventLoop.call_soon": "soon",
    "BaseEventLoop.call_at": "timers",
    "BaseEventLoop._run_once": "turns",
    "Thread.start": "threads",
}
FIGURES = (
    *("python", "own", "c", "encodes", "decodes"),
    *("tasks", "futures", "soon", "timers", "turns", "threads"),
    *("reads", "writes", "polls", "other"),
)


class Profile:
    """Records the function calls of the current thread.

    Attributes:
        recorded: The code of each Python function entered, and each C function called.
    """

    def __init__(self):
        self.recorded = []

    def start(self):
        recorded = self.recorded

        def record(frame, event, arg):
            if event == "call":
                recorded.append(frame.f_code)
            elif event == "c_call":
                recorded.append(arg)

        sys.setprofile(record)

    def stop(self):
        sys.setprofile(None)


def is_python(function):
    return hasattr(function, "co_qualname")


def origins(function):
    """Return the modules that a C function or method may come from."""
    module = getattr(function, "__module__", None)
    if module is not None:
        return {module}
    # A socket's methods in C are inherited by classes in Python.
    return {base.__module__ for base in type(function.__self__).__mro__}


def is_system_call(function):
    return function.__name__ not in NO_SYSTEM_CALL and bool(SYSTEM & origins(function))


def kind_of(function):
    """Return the figure that a call of a C function counts for, if any."""
    name = function.__name__
    if name in {"dumps", "loads"} and ORJSON & origins(function):
        return "encodes" if name == "dumps" else "decodes"
    if not is_system_call(function):
        return None
    for kind, names in (("reads", READS), ("writes", WRITES), ("polls", POLLS)):
        if name in names:
            return kind
    return "other"


def count_figures(recorded, own_files):
    """Return the figures of one lap; functions of `own_files` are not counted."""
    figures = dict.fromkeys(FIGURES, 0)
    names = []
    for each in recorded:
        if is_python(each):
            if each.co_filename in own_files:
                continue
            figures["python"] += 1
            figures["own"] += "/mcpwire/" in each.co_filename.replace("\\", "/")
            names.append(each.co_qualname)
            kind = LOOP.get(each.co_qualname)
        elif each is sys.setprofile:
            continue
        else:
            figures["c"] += 1
            names.append(f"({each.__name__})")
            kind = kind_of(each)
        if kind is not None:
            figures[kind] += 1
    return {**figures, "names": names}


def cheapest(laps, own_files=()):
    """Return the figures of the cheapest lap, so that accidental costs do not count."""
    counted = [count_figures(lap, {__file__, *own_files}) for lap in laps]
    return min(counted, key=lambda each: each["python"] + each["c"])


# What is left behind...


def live():
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def least_growth(windows):
    """Return the least growth of all windows."""
    return [
        min(later[kind] - before[kind] for before, later in windows) for kind in (0, 1)
    ]


async def growth(call):
    windows = []
    for _ in range(WINDOWS):
        before = live()
        for _ in range(WINDOW_CALLS):
            await call()
        windows.append((before, live()))
    return least_growth(windows)


async def laps(call):
    """Return the recorded functions of some successive calls."""
    taken = []
    for _ in range(LAPS):
        profile = Profile()
        profile.start()
        await call()
        profile.stop()
        taken.append(profile.recorded)
    return taken


def blocking_growth(call, settle=lambda: None):
    """Like `growth`; `settle` waits until the called side has finished."""
    windows = []
    for _ in range(WINDOWS):
        settle()
        before = live()
        for _ in range(WINDOW_CALLS):
            call()
        settle()
        windows.append((before, live()))
    return least_growth(windows)


def blocking_laps(call):
    taken = []
    for _ in range(LAPS):
        profile = Profile()
        profile.start()
        call()
        profile.stop()
        taken.append(profile.recorded)
    return taken
