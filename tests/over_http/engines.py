"""Every engine behind one asyncio face, so that one test asks all of them.

    async with open_engine("blocking", server.url) as engine:
        answer = await engine.ask(1)

A blocking exchange runs in a thread of its own; cancelling it aborts it. An engine
joins by a line in `ENGINES`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest

from mcpwire.errors import MCPError, RequestTimeout
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.http.request import Request
from mcpwire.transports.http.target import Http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcpwire.limits import Limits

BOUND_S: Final = 30.0


class Answer:
    """What an engine feeds, kept; over at its end, or as `until` says of the body."""

    def __init__(
        self,
        until: Callable[[bytes], bool] | None = None,
        refusal: MCPError | None = None,
    ) -> None:
        self.is_over = False
        self.status = 0
        self.fields: dict[bytes, bytes] = {}
        self.chunks: list[bytes] = []
        self.has_ended = False
        self.aborted: MCPError | None = None
        self._until = until
        self._refusal = refusal

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        assert not self.status, "it has one head"
        self.status, self.fields = status, fields

    def data(self, chunk: bytes) -> None:
        assert type(chunk) is bytes
        assert self.status
        assert not self.has_ended
        if self._refusal is not None:
            raise self._refusal
        self.chunks.append(chunk)
        if self._until is not None and self._until(self.body):
            self.is_over = True

    def end(self) -> None:
        assert self.status
        assert not self.has_ended, "it ends once"
        self.has_ended = self.is_over = True

    def out_of_time(self, now: float) -> MCPError:
        return RequestTimeout(method="test", timeout=BOUND_S, elapsed=BOUND_S)


def post(obj: object = None, *, body: bytes | None = None) -> Request:
    """A request with a body."""
    start = b"POST /mcp HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
    return Request(start, json.dumps(obj).encode() if body is None else body)


def get() -> Request:
    """A request without a body."""
    return Request(b"GET /other?x=1 HTTP/1.1\r\nhost: test\r\n")


class Face:
    """An asyncio engine, as tests ask it."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def exchange(self, request: Request, answer: Answer) -> None:
        await self.engine.exchange(request, answer, None)

    async def ask(
        self,
        obj: object = None,
        *,
        body: bytes | None = None,
        answer: Answer | None = None,
    ) -> Answer:
        """Post that; return what came back, in bounded time."""
        answer = answer or Answer()
        async with asyncio.timeout(BOUND_S):
            await self.exchange(post(obj, body=body), answer)
        assert answer.is_over
        return answer

    async def aclose(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.engine.aclose()


class BlockingFace(Face):
    """A blocking engine, each exchange in a thread."""

    async def exchange(self, request: Request, answer: Answer) -> None:
        deadline = Deadline(monotonic(), 2 * BOUND_S)
        work = _in_thread(self.engine.exchange, request, answer, deadline)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            stop = MCPError("cancelled by the test")
            while not work.done() and not self.engine.abort(answer, stop):
                await asyncio.wait([work], timeout=0.01)
            with contextlib.suppress(MCPError):
                await work
            raise

    async def aclose(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await _in_thread(self.engine.close)


def _in_thread(function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    """Run it in a thread of its own: executors keep theirs beyond the test."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = function(*args)
        except BaseException as raised:  # noqa: BLE001 - raised where it is awaited
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="blocking-engine", daemon=True).start()
    return done


@attrs.frozen
class Kind:
    """One engine, and what a test of all of them has to know of it."""

    path: str
    face: type[Face] = Face
    is_direct: bool = False
    """Whether it connects, writes and reads by itself."""

    def make(self, target: Http, limits: Limits) -> Face:
        module, _, name = self.path.partition(":")
        made = getattr(importlib.import_module(f"mcpwire.{module}"), name)
        return self.face(made(target, limits))


ENGINES: Final = {
    "direct": Kind("transports.http.direct:DirectEngine", is_direct=True),
    "httpx": Kind("transports.http.httpx_engine:HttpxEngine"),
    "blocking": Kind("sync._http.engine:BlockingEngine", BlockingFace, is_direct=True),
    "blocking-httpx": Kind("sync._http.httpx_engine:BlockingHttpxEngine", BlockingFace),
}

every_engine = pytest.mark.parametrize("kind", ENGINES)
direct_engines = pytest.mark.parametrize(
    "kind", [kind for kind in ENGINES if ENGINES[kind].is_direct]
)


@contextlib.asynccontextmanager
async def open_engine(
    kind: str, url: str, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> AsyncIterator[Face]:
    """Give an engine of that kind, closed in the end."""
    engine = ENGINES[kind].make(Http(url, **options), limits)
    try:
        yield engine
    finally:
        await engine.aclose()


async def until(server: Any, holds: Callable[[], Any]) -> None:
    """Wait until that holds of a server, while the loop runs."""
    await _in_thread(server.wait_until, holds)


async def eventually(holds: Callable[[], Any]) -> None:
    """Wait until that holds, looking at it in each turn of the loop."""
    async with asyncio.timeout(BOUND_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.0005)  # between two looks; the wait is bounded


async def all_closed(server: Any) -> None:
    """Wait until no connection is open."""
    await until(server, lambda: not server.open)


def echo(conn: Any) -> None:
    """Answer every request with its own body."""
    from http_bytes import json_reply

    while (request := conn.receive()) is not None:
        conn.send(json_reply(request.json))
