"""Requests on a blocking engine, one line each, and what came back to them."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from http_bytes import json_reply

from mcpwire.errors import MCPError, RequestTimeout
from mcpwire.limits import Limits
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.http.request import Request
from mcpwire.sync._http.engine import BlockingEngine
from mcpwire.transports.http.target import Http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOUND_S = 30.0


class Answer:
    """What an engine feeds, kept; over where the body is, or as `until` says."""

    def __init__(self, until: Callable[[Answer], bool] | None = None) -> None:
        self.is_over = False
        self.status = 0
        self.fields: dict[bytes, bytes] = {}
        self.body = b""
        self.has_ended = False
        self.late_at: float | None = None
        self._until = until

    def head(self, status: int, fields: dict[bytes, bytes]) -> None:
        self.status, self.fields = status, fields
        self._look()

    def data(self, chunk: bytes) -> None:
        self.body += chunk
        self._look()

    def end(self) -> None:
        assert not self.has_ended, "it ends once"
        self.has_ended = self.is_over = True

    def _look(self) -> None:
        if self._until is not None and self._until(self):
            self.is_over = True

    def out_of_time(self, now: float) -> MCPError:
        self.late_at = now
        return RequestTimeout(method="test", timeout=1.0, elapsed=1.0)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def post(obj: object = None, body: bytes | None = None) -> Request:
    """A request with a body."""
    start = b"POST /mcp HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
    return Request(start, json.dumps(obj).encode() if body is None else body)


def get() -> Request:
    """A request without a body."""
    return Request(b"GET /other?x=1 HTTP/1.1\r\nhost: test\r\n")


def ask(
    engine: BlockingEngine,
    obj: object = None,
    *,
    body: bytes | None = None,
    timeout: float | None = BOUND_S,
    answer: Answer | None = None,
) -> Answer:
    """Perform one exchange."""
    answer = answer or Answer()
    deadline = Deadline(monotonic(), timeout)
    engine.exchange(post(obj, body), answer, deadline)
    return answer


@contextmanager
def engine_for(url: str, **options: Any) -> Iterator[BlockingEngine]:
    """An engine, closed in the end."""
    engine = BlockingEngine(Http(url, **options), Limits())
    try:
        yield engine
    finally:
        engine.close()


def echo(conn: Any) -> None:
    """Answer every request with its own body."""
    while (request := conn.receive()) is not None:
        conn.send(json_reply(request.json))


class Doing:
    """A function that runs in a thread; how it ends is asked for by `result`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.value: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.value = self._function()
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            self.error = error

    def result(self) -> Any:
        """Wait for the end; return or raise what came of it."""
        self._thread.join(BOUND_S)
        assert not self._thread.is_alive(), "it does not end"
        if self.error is not None:
            raise self.error
        return self.value
