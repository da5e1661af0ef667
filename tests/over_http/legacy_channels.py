"""HTTP+SSE channels behind a blocking interface.

    with opened(server.url, engine) as client:
        client.ready()
        client.call("ping")

The channel's loop runs in a thread all the time, so a test may wait for what the server
sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import pytest

from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.transports.http.direct import DirectEngine
from mcpwire.transports.http.httpx_engine import HttpxEngine
from mcpwire.transports.http.legacy_sse import LegacyChannel
from mcpwire.transports.http.target import Http
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from mcpwire.errors import TransportError
    from mcpwire.transports.base import CallHandle

BOUND_S: Final = 30.0
"""The time limit of all waits; a test that reaches it has found a hang."""

QUICK: Final = Limits(close_grace=0.5, terminate_grace=0.5)

ENGINES: Final[dict[str, Any]] = {"direct": DirectEngine, "httpx": HttpxEngine}


class Recorder:
    """Records messages of the server; responds to the methods in `answers`."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.notes: list[tuple[str, Any]] = []
        self.requests: list[tuple[Any, str, Any]] = []
        self.losses: list[Exception] = []
        self.has_received = threading.Event()

    def notification(self, method: str, params: Any, call: Any) -> None:
        del call
        self.notes.append((method, params))
        self.has_received.set()

    def request(self, id: Any, method: str, params: Any, reply: Any, call: Any) -> None:
        del call
        self.requests.append((id, method, params))
        if method in self.answers:
            reply(self.answers[method])

    def lost(self, error: Exception) -> None:
        self.losses.append(error)

    def cancelled(self, id: Any) -> None: ...

    def missed(self) -> None: ...


class BlockingClient:
    """A `LegacyChannel` on a loop that runs in a thread."""

    def __init__(self, target: Http, engine: str, inbound: Any, limits: Limits) -> None:
        self.inbound = inbound
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.channel: Any = self._run(self._open(target, inbound, limits, engine))
        self.channel.revision = REVISIONS[0]

    async def _open(
        self, target: Http, inbound: Any, limits: Limits, engine: str
    ) -> LegacyChannel:
        self.engine = ENGINES[engine](target, limits)
        return LegacyChannel(target, self.engine, inbound, limits)

    def _submit(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self, work: Any) -> Any:
        return self._submit(work).result(BOUND_S)

    def ready(self) -> None:
        self._run(self.channel.ready())

    def begin(
        self,
        method: str,
        params: Any = None,
        *,
        seconds: float | None = BOUND_S,
        **more: Any,
    ) -> Future[Any]:
        async def call() -> Any:
            deadline = Deadline(self._loop.time(), seconds)
            return await self.channel.call(method, params, deadline=deadline, **more)

        return self._submit(call())

    def call(self, method: str, params: Any = None, **more: Any) -> Any:
        """Perform a request."""
        return self.begin(method, params, **more).result(BOUND_S)

    def tool(self, text: str = "", **more: Any) -> Future[Any]:
        """Start a call of the server's tool."""
        params = {"name": "echo", "arguments": {"text": text}}
        return self.begin("tools/call", params, **more)

    def notify(self, method: str, params: Any = None, **more: Any) -> None:
        self._run(self.channel.notify(method, params, **more))

    def cancel(self, handle: CallHandle) -> None:
        async def cancel() -> None:
            self.channel.cancel(handle)

        self._run(cancel())

    def close(self) -> None:
        self._run(self.channel.aclose())

    def give_up(self, error: TransportError) -> None:
        async def give_up() -> None:
            self.channel.give_up(error)

        self._run(give_up())

    def abandon(self) -> None:
        self._loop.call_soon_threadsafe(self.channel.abandon)

    def end(self) -> list[str]:
        """End the loop; return the names of the tasks still running on it."""
        self._run(self._settle())
        left = [task.get_name() for task in asyncio.all_tasks(self._loop)]
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND_S)
        self._loop.close()
        return left

    async def _settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def tool_text(result: Future[Any]) -> str:
    """Return the text of a tool result."""
    return result.result(BOUND_S)["content"][0]["text"]


def failure(result: Future[Any]) -> BaseException:
    """Return the error of a failed call."""
    error = result.exception(BOUND_S)
    assert error is not None, "the call succeeded"
    return error


@contextlib.contextmanager
def opened(
    url: str | Http,
    engine: str = "direct",
    *,
    inbound: Any = None,
    limits: Limits = QUICK,
    **options: Any,
) -> Iterator[BlockingClient]:
    """Open a channel, and close it in any case; no task may be left on its loop."""
    target = url if isinstance(url, Http) else Http(url, **options)
    client = BlockingClient(target, engine, inbound or Recorder(), limits)
    try:
        yield client
        client.close()
    finally:
        with contextlib.suppress(Exception):
            client.close()
        left = client.end()
    assert left == []


def wait_until(holds: Callable[[], Any]) -> None:
    """Wait until a condition holds, by polling."""
    ends_at = monotonic() + BOUND_S
    never_set = threading.Event()
    while not holds():
        assert monotonic() < ends_at, "the condition did not become true"
        never_set.wait(0.002)


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def gate():
    """Yield an event that is set in any case, so that no script waits forever."""
    event = threading.Event()
    yield event
    event.set()
