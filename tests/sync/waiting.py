"""Waiting, calling, and looking at threads, for the tests of blocking clients."""

import gc
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Final

BOUND_S: Final = 30.0
POLL_S: Final = 0.002


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true; fail after `BOUND_S`."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(POLL_S)


def signal_main(
    *conditions: Callable[[], object], after: float = 0.0
) -> threading.Thread:
    """Signal the main thread once for each condition, when it becomes true."""

    def run() -> None:
        for condition in conditions or (lambda: True,):
            until(condition)
            time.sleep(after)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def echoed(client: Any, name: str) -> str:
    text: str = client.call_tool("echo", {"text": name}, timeout=BOUND_S).text
    return text


def own_threads() -> list[str]:
    """Return the names of the running threads of mcpwire."""
    return [t.name for t in threading.enumerate() if t.name.startswith("mcpwire")]


def collect(holder: list[Any]) -> None:
    holder.clear()
    gc.collect()
