"""HTTP+SSE channels behind a face that blocks.

    with opened(server.url, engine) as face:
        face.ready()
        face.call("ping")

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
"""In which everything must be over; a test that reaches it has found a hang."""

QUICK: Final = Limits(close_grace=0.5, terminate_grace=0.5)

ENGINES: Final[dict[str, Any]] = {"direct": DirectEngine, "httpx": HttpxEngine}


class Recorder:
    """Stores what the server starts; answers what `answers` has an entry for."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.notes: list[tuple[str, Any]] = []
        self.requests: list[tuple[Any, str, Any]] = []
        self.losses: list[Exception] = []
        self.has_heard = threading.Event()

    def notification(self, method: str, params: Any, call: Any) -> None:
        del call
        self.notes.append((method, params))
        self.has_heard.set()

    def request(self, id: Any, method: str, params: Any, reply: Any, call: Any) -> None:
        del call
        self.requests.append((id, method, params))
        if method in self.answers:
            reply(self.answers[method])

    def lost(self, error: Exception) -> None:
        self.losses.append(error)

    def cancelled(self, id: Any) -> None: ...

    def missed(self) -> None: ...


class Face:
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
        """Begin to call the server's tool."""
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
        """End the loop; return what was left running on it."""
        self._run(self._settle())
        left = [task.get_name() for task in asyncio.all_tasks(self._loop)]
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND_S)
        self._loop.close()
        return left

    async def _settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def said(result: Future[Any]) -> str:
    """Return what the tool said."""
    return result.result(BOUND_S)["content"][0]["text"]


def failure(result: Future[Any]) -> BaseException:
    """Return why a call failed."""
    error = result.exception(BOUND_S)
    assert error is not None, "the call was answered"
    return error


@contextlib.contextmanager
def opened(
    url: str | Http,
    engine: str = "direct",
    *,
    inbound: Any = None,
    limits: Limits = QUICK,
    **options: Any,
) -> Iterator[Face]:
    """Open a channel, and close it in any case; nothing may be left on its loop."""
    target = url if isinstance(url, Http) else Http(url, **options)
    face = Face(target, engine, inbound or Recorder(), limits)
    try:
        yield face
        face.close()
    finally:
        with contextlib.suppress(Exception):
            face.close()
        left = face.end()
    assert left == []


def wait_until(holds: Callable[[], Any]) -> None:
    """Wait until that holds of something that tells nobody."""
    ends_at = monotonic() + BOUND_S
    gone = threading.Event()
    while not holds():
        assert monotonic() < ends_at, "it does not hold"
        gone.wait(0.002)


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def gate():
    """Give an event that is set in any case, so that no script waits for ever."""
    event = threading.Event()
    yield event
    event.set()
