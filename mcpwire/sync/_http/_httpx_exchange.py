"""One exchange of the blocking httpx engine, in the thread that makes it.

Its response may be parked when the reply is over: another thread may read what is left.
"""

from __future__ import annotations

import threading
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.errors import MCPError
from mcpwire.sync._http._httpx_streams import Owner, Tap
from mcpwire.transports.http._sockets import RESENDS, TAIL_S
from mcpwire.transports.http.over_httpx.errors import Facts, Translator, shown_cause
from mcpwire.transports.http.over_httpx.guard import StaleError
from mcpwire.transports.http.over_httpx.requests import Requests, failures_of
from mcpwire.transports.http.over_httpx.responses import (
    FRESH_S,
    body_of,
    length_of,
    read_head,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from mcpwire.limits import Limits
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.http.request import Request
    from mcpwire.transports.http.destination import Destination
    from mcpwire.transports.http.engine import Fed

__all__ = ["Engine", "Exchange"]

SLICE_S: Final = 1.0
"""The longest wait at a time: so soon a deadline that was moved is noticed."""

GRACE_S: Final = 0.001
"""How much later than the call's own time connecting ends."""


class Engine(Owner, Protocol):
    """The engine, as its exchanges see it."""

    limits: Limits
    connect_timeout: float | None
    client: Any
    library: ModuleType
    requests: Requests
    translate: Translator
    is_shared: bool

    def send(
        self, transport: Any, request: Any, destination: Destination | None
    ) -> Any:
        """Send a request of httpx; return the response, unread."""

    def borrow(self) -> Any:
        """Return a transport for one exchange; ``None`` for the user's client."""

    def give_back(self, transport: Any) -> None:
        """Take back what `borrow` gave and is as good as new."""


class Exchange:
    """One request in the thread that makes it, and its response while it is parked."""

    def __init__(self, engine: Engine, reply: Fed, deadline: Deadline | None) -> None:
        self.engine = engine
        self.reply = reply
        self.facts = Facts()
        self.error: MCPError | None = None
        self.is_complete = False
        self.was_left = False
        self.tap = Tap(engine, self.facts, self)
        self._deadline = deadline
        self._response: Any = None
        self._chunks: Iterator[bytes] = iter(())
        self._transport: Any = None
        self.is_muted = False
        self._thread = threading.get_ident()
        self._parked_at = self._until = 0.0
        self._was_waited_for = False

    # What is done...

    def run(self, request: Request) -> None:
        """Send the request, and feed the reply until it is over."""
        engine = self.engine
        self._transport = engine.borrow()
        resends = 0
        while True:
            try:
                with self.tap:
                    self._try(request)
            except StaleError:  # each time there is one connection less
                self._renew()
            except failures_of(engine.library) as error:
                self.left()  # whose time is over says so itself
                if not self.facts.is_unseen or resends == RESENDS:
                    ours = engine.translate(error, self.facts)
                    raise ours from shown_cause(ours, error)
                resends += 1
                self._renew()
            else:
                return

    def _renew(self) -> None:
        self.facts = Facts()
        self.tap = Tap(self.engine, self.facts, self)

    def _try(self, request: Request) -> None:
        engine = self.engine
        self._response = response = engine.send(
            self._transport,
            engine.requests.build(request, self.tap, self._connect_timeout()),
            self.tap.destination,
        )
        head = read_head(response, engine.limits, decodes=engine.client is not None)
        self.facts.has_head = True
        self.reply.head(head.status, head.fields)
        self.is_muted = head.is_muted
        self._chunks = body_of(response, "", head)
        missing = length_of(response, head)
        if self.reply.is_over and missing:
            return
        for chunk in self._chunks:
            self._feed(chunk)
            missing -= len(chunk)
            if self.reply.is_over and missing > 0 and not self.tap.has_all:
                return
            self.left()  # for transports that no tap sees
        self._end()

    def _feed(self, chunk: bytes) -> None:
        if self._parked_at and not self.reply.is_over:
            self.leave()  # it waits for another answer by now
        if not self.is_muted:
            self.reply.data(chunk)

    def _end(self) -> None:
        self._response.close()
        self.tap.finish()
        self.is_complete = True
        if self._transport is not None and not self.engine.is_shared:
            self.engine.give_back(self._transport)
        if not (self.was_left or (self._parked_at and not self.reply.is_over)):
            self.reply.end()

    def _connect_timeout(self) -> float | None:
        limit, left = self.engine.connect_timeout, self.left()
        if left is None:
            return limit
        # That the call's time has passed says more.
        left += GRACE_S
        return left if limit is None else min(limit, left)

    def hang_up(self) -> None:
        """Close its connection, unless another exchange may have it by now."""
        if self.is_complete:
            return
        is_shared = self._transport is None or self.engine.is_shared
        self.tap.hang_up(self._response, is_ours=not is_shared)
        if not is_shared:
            self._transport.close()

    # ... later ...

    def park(self) -> None:
        """Leave it to the next exchange to read what is left."""
        self._parked_at = monotonic()

    def leave(self) -> None:
        """Feed the reply no more: it is fed another answer now."""
        self.is_muted = self.was_left = True

    def finish(self) -> bool:
        """Read what is left if it has come; return whether that is done, or given up.

        Whose own thread it is waits a moment for it, once.
        """
        now = monotonic()
        wait = 0.0
        if self._thread == threading.get_ident() and not self._was_waited_for:
            wait = FRESH_S
            self._was_waited_for = True
        has_all = self.tap.has_all
        if has_all is None:  # it takes a read, and whether that will do is not known
            if not wait and now < self._parked_at + FRESH_S:
                return False
        elif not has_all and not self.tap.has_bytes(wait):
            if now < self._parked_at + TAIL_S:
                return False
            self.hang_up()
            return True
        self._until = monotonic() + FRESH_S
        self._read_rest()
        return True

    def _read_rest(self) -> None:
        try:
            with self.tap:
                for chunk in self._chunks:
                    self._feed(chunk)
                    self._slice_of_rest()
                self._end()
        except BaseException as error:
            self.hang_up()
            expected: tuple[type[BaseException], ...]
            expected = (_LateError, MCPError, *failures_of(self.engine.library))
            if not isinstance(error, expected):
                raise

    # ... and how long it may wait.

    def slice(self) -> float:
        """Return how many seconds to wait at a time.

        Raises:
            MCPError: It was aborted, or its deadline has passed.
            _LateError: It is parked, and what is left does not come at once.
        """
        if self._parked_at:
            return self._slice_of_rest()
        left = self.left()
        return SLICE_S if left is None else min(SLICE_S, left)

    def _slice_of_rest(self) -> float:
        left = self._until - monotonic()
        if left <= 0:
            raise _LateError
        return left

    def left(self) -> float | None:
        """Return how many seconds there are at all; ``None`` for no limit.

        Raises:
            MCPError: It was aborted, or its deadline has passed.
        """
        if self.error is not None:
            raise self.error
        if self._parked_at:  # its call has its answer
            return FRESH_S
        # What an abort was given that was interrupted before it came to this.
        aborted: MCPError | None = getattr(self.reply, "aborted", None)
        if aborted is not None:
            raise aborted
        if self._deadline is None:
            return None
        now = monotonic()
        at = self._deadline.at
        if at <= now:
            raise self.reply.out_of_time(now)
        return None if at == inf else at - now


class _LateError(Exception):
    """What is left of a parked response does not come; never leaves this module."""
