"""Blocking channels for tests: opened without a handshake, closed in any case."""

from __future__ import annotations

import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from scripted import scripted

from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.sync._stdio import BlockingStdio
from mcpwire.versions import LATEST_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BOUND_S = 30.0
"""In which everything must be over; a test that reaches it has found a hang."""

QUICK = Limits(close_grace=0.2, terminate_grace=0.2)


class Recorder:
    """Stores what the peer starts; answers what `answers` has an entry for."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.notes: list[tuple[str, Any]] = []
        self.requests: list[tuple[Any, str, Any, Callable[[Any], None]]] = []
        self.withdrawn: list[Any] = []
        self.losses: list[Exception] = []

    def notification(self, method: str, params: Any, call: Any) -> None:
        del call
        self.notes.append((method, params))

    def request(
        self, id: Any, method: str, params: Any, reply: Callable[[Any], None], call: Any
    ) -> None:
        del call
        self.requests.append((id, method, params, reply))
        if method in self.answers:
            reply(self.answers[method])

    def cancelled(self, id: Any) -> None:
        self.withdrawn.append(id)

    def lost(self, error: Exception) -> None:
        self.losses.append(error)


@contextmanager
def opened(
    body: str,
    inbound: Any = None,
    *,
    limits: Limits = QUICK,
    args: Iterable[str] = (),
    **options: Any,
) -> Iterator[BlockingStdio]:
    """Give a channel to a child of these lines, as if the handshake were done."""
    target = scripted(body, *args, **options)
    channel = BlockingStdio.open(target, inbound or Recorder(), limits=limits)
    channel.revision = LATEST_SESSION
    try:
        yield channel
    finally:
        channel.close()


def descriptors() -> int:
    """Count the open descriptors of this process, and one for counting."""
    return len(list(Path("/proc/self/fd").iterdir()))


def within(seconds: float | None = BOUND_S) -> Deadline:
    """Return a deadline that begins now."""
    return Deadline(monotonic(), seconds)


def tool(channel: Any, text: str = "", *, seconds: float | None = BOUND_S, **more: Any):
    """Call the tool of `scripted.ECHO_LOOP` and return what it says."""
    params = {"name": "x", "arguments": {"text": text}}
    result = channel.call("tools/call", params, deadline=within(seconds), **more)
    return result["content"][0]["text"]


class Threads:
    """Threads that end within the bound, or the test fails; errors come out."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []
        self.results: list[Any] = []

    def start(self, function: Callable[..., Any], *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                self.results.append(function(*args))
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                self.errors.append(error)
                traceback.print_exc()

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self, bound: float = BOUND_S) -> list[BaseException]:
        """Wait for all; return what they raised."""
        until = monotonic() + bound
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
        alive = [thread for thread in self._threads if thread.is_alive()]
        assert not alive, f"{len(alive)} of {len(self._threads)} threads hang"
        return self.errors
