"""What one call costs, read off a profile of it: nothing here looks at a clock.

A profile function hears of each Python function that is entered (or gone on with, where
it is a coroutine) and of each C function that is called from Python. That is enough to
count all that a call costs, wherever it is imported from and however it is bound: a
decoded message is a call of orjson's `loads`, a system call one of the few functions
that make one, a turn of the loop an entry of `_run_once`.
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
    """Hears what the current thread does.

    Attributes:
        heard: The code of each Python function entered, and each C function called.
    """

    def __init__(self):
        self.heard = []

    def start(self):
        heard = self.heard

        def hear(frame, event, arg):
            if event == "call":
                heard.append(frame.f_code)
            elif event == "c_call":
                heard.append(arg)

        sys.setprofile(hear)

    def stop(self):
        sys.setprofile(None)


def is_python(heard):
    return hasattr(heard, "co_qualname")


def origins(function):
    """Return the modules that a C function may come from, also where it is a method."""
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


def reckon(heard, mine):
    """Return the figures of one lap; what the files `mine` do is not counted."""
    figures = dict.fromkeys(FIGURES, 0)
    names = []
    for each in heard:
        if is_python(each):
            if each.co_filename in mine:
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


def cheapest(laps, mine=()):
    """Return the figures of the lap that cost least: what is counted is no accident."""
    reckoned = [reckon(lap, {__file__, *mine}) for lap in laps]
    return min(reckoned, key=lambda each: each["python"] + each["c"])


# What stays behind...


def live():
    """Return how many objects and blocks of memory there are."""
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def least_growth(windows):
    """Return how much the quietest window has left behind."""
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
    """Return what each of some calls did, one after the other."""
    taken = []
    for _ in range(LAPS):
        profile = Profile()
        profile.start()
        await call()
        profile.stop()
        taken.append(profile.heard)
    return taken


def blocking_growth(call, settle=lambda: None):
    """Return the same; `settle` waits until whoever was called has done the rest."""
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
        taken.append(profile.heard)
    return taken
