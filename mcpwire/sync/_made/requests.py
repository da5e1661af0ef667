# Made by `python tests/sync/generate.py --write`: change the source instead,
# mcpwire/transports/client/asking/requests.py
"""Makes a client's requests: options, deadlines, `_meta`, pages and input rounds.

The driver of the protocol's generators stands here, once; what is done when the
transport fails a call stands in `repeats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    MCPError,
    MethodNotFound,
    RemoteProtocolError,
    RPCError,
)
from mcpwire.limits import check_timeout
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.methods import find
from mcpwire.protocol.steps import Ask, Call, Sleep
from mcpwire.sync._made.repeats import Repeats
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpwire.protocol.results.cache import ResponseCache
    from mcpwire.protocol.steps import Step, Steps
    from mcpwire.sync._shell.connection import Connection
    from mcpwire.transports.base import CallHandle
    from mcpwire.types import Unset

    ProgressFn = Callable[[float, float | None, str | None], Any]

__all__ = ["Requests"]

PROGRESS_EXTENDS_TIMES: Final = 10.0
"""How many timeouts a call may take that reports progress, unless told otherwise."""


class Requests(Repeats):
    """The requests of one client over its connection.

    Args:
        connection: What performs them.
        timeout: The default limit, in seconds; ``None``: no limit.
        max_timeout: What no progress extends a call beyond, in seconds; ``None``: ten
            times the call's timeout.
        cache: Where results are kept as long as the server allows it.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float | None,
        max_timeout: float | None,
        cache: ResponseCache | None = None,
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._limits = connection.settings.limits
        self._progress_extends = connection.settings.reset_on_progress
        self._cache = cache

    @property
    def caches(self) -> bool:
        """Whether results are kept."""
        return self._cache is not None

    def deadline(self, timeout: float | Unset | None) -> Deadline | None:
        """Start the clock of one public call.

        Raises:
            ValueError: The timeout is zero, negative or NaN.
        """
        seconds = self._timeout if timeout is UNSET else check_timeout(timeout)
        if seconds is None:
            return None
        now = self._connection.time()
        if not self._progress_extends:
            return Deadline.of(now, seconds)
        maximum = self._max_timeout or seconds * PROGRESS_EXTENDS_TIMES
        return Deadline(now, seconds, maximum=maximum)

    def begin(  # noqa: PLR0917 - the hot path passes no keywords
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFn | None = None,
        headers: Mapping[str, str] | None = None,
        handle: CallHandle | None = None,
    ) -> dict[str, Any]:
        """Perform one request and return its raw result object.

        `params` is the caller's own dict and may be changed. A channel that was lost
        says so itself; `begin_again` is for that.
        """
        connection = self._connection
        channel = connection.channel
        if channel is None:
            return self._begin_later(
                method, params, deadline, meta, on_progress, headers, handle
            )
        profile = connection.profile
        if meta is not None or on_progress is not None:
            fields = {**(profile.stamp_fields or {}), **(meta or {})}
            if fields:
                params = {**(params or {}), "_meta": fields}
        elif profile.stamp is not None:
            params = params if params is not None else {}
            params["_meta"] = profile.stamp
        if on_progress is None:
            return channel.call(
                method, params, deadline=deadline, handle=handle, headers=headers
            )
        return self._begin_with_progress(
            method, params, deadline, on_progress, headers, handle
        )

    def _begin_with_progress(  # noqa: PLR0917 - all of `begin`'s
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        on_progress: ProgressFn,
        headers: Mapping[str, str] | None,
        handle: CallHandle | None,
    ) -> dict[str, Any]:
        from mcpwire.sync._shell.callbacks import ProgressSink

        channel = self._connection.channel
        if channel is None:
            raise self._connection.not_connected()
        sink = ProgressSink(on_progress, self._limits)
        try:
            result = channel.call(
                method,
                params,
                deadline=deadline,
                handle=handle,
                on_notification=sink.take,
                headers=headers,
            )
            left = deadline.remaining(self._connection.time()) if deadline else None
            sink.settle(left)
        finally:
            sink.close()
        return result

    def _begin_later(
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        *options: Any,
    ) -> dict[str, Any]:
        """Perform a request as soon as the connection is open again."""
        self._connection.revive(method, deadline)
        # A `_meta` that an earlier connection stamped says what is no longer true.
        if params is not None and "_meta" in params:
            params = {key: value for key, value in params.items() if key != "_meta"}
        return self.begin(method, params, deadline, *options)

    # Whole operations...

    def request(
        self, method: str, params: dict[str, Any] | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Perform a request to its complete result, whatever rounds it takes.

        Raises:
            LocalProtocolError: The server did not declare the capability it needs.
        """
        deadline = self.deadline(options.get("timeout", UNSET))
        return self._complete(Call(method, params or {}), deadline, options)

    def _complete(
        self, call: Call, deadline: Deadline | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        profile = self._connection.profile
        if call.method in profile.refused:
            raise profile.refusal(call.method)
        if self._cache is not None:
            return self._complete_cached(self._cache, call, deadline, options)
        raw = self._perform(call, deadline, options)
        if raw.get("resultType", "complete") != "complete":
            raw = self.finish(call.method, call.params, raw, deadline, options)
        result: dict[str, Any] = raw
        return result

    def finish(
        self,
        method: str,
        params: dict[str, Any],
        raw: dict[str, Any],
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Carry a result that is not complete through its input rounds, to its end."""
        from mcpwire.protocol.input_loop import input_rounds, is_task

        profile = self._connection.profile
        assert profile.agreement is not None
        steps = input_rounds(
            method,
            {key: value for key, value in params.items() if key != "_meta"},
            raw,
            revision=profile.agreement.revision,
            extensions=profile.extensions,
            limit=self._limits.input_rounds,
            most=self._limits.questions,
            recovery=self._connection.settings.recovery,
        )
        result: dict[str, Any] = self.drive(method, steps, deadline, options)
        if is_task(result, profile.agreement.revision) and options.get("follow", True):
            from mcpwire.sync._made.following import follow

            return follow(self._connection, self, result, deadline, options)
        return result

    def pages(self, method: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Fetch all pages of a list within one deadline; return their raw results."""
        from mcpwire.protocol.paging import pages

        profile = self._connection.profile
        if method in profile.refused:
            raise profile.refusal(method)
        deadline = self.deadline(options.get("timeout", UNSET))
        steps = pages(method, {}, limit=self._limits.pages)
        found: list[dict[str, Any]] = self.drive(method, steps, deadline, options)
        return found

    def walk(self, method: str, options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Fetch page after page as they are asked for, each within its own deadline."""
        from mcpwire.protocol.paging import PageWalk

        walk = PageWalk(method, {}, limit=self._limits.pages)
        while walk.params is not None:
            page = self.request(method, dict(walk.params), options)
            walk.receive(page)
            yield page

    # The cache...

    def _complete_cached(
        self,
        cache: ResponseCache,
        call: Call,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        method, params = call.method, call.params
        if not self._connection.is_wanted:  # a closed client answers nothing
            raise self._connection.not_connected()
        found = cache.get(method, params, self._connection.time())
        if found is not None:
            kept: dict[str, Any] = found
            return kept
        generation = cache.generation(method, params)
        try:
            raw = self._perform(call, deadline, options)
        except RPCError:
            if params.get("cursor") is not None:
                cache.drop_list(method)
            raise
        if raw.get("resultType", "complete") != "complete":
            raw = self.finish(method, params, raw, deadline, options)
        else:
            cache.put(method, params, raw, self._connection.time(), generation)
        result: dict[str, Any] = raw
        return result

    # The driver...

    def drive(
        self,
        method: str,
        steps: Steps[Any],
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> Any:
        """Perform an operation of the protocol's, step by step, within one deadline."""
        serial = self._connection.serial
        try:
            step = next(steps)
            while True:
                try:
                    if type(step) is Call and "cursor" in step.params:
                        options = {**options, "serial": serial}
                        self.check_cursor(options)
                    outcome = self._take(method, step, deadline, options)
                    if type(step) is Call and "cursor" not in step.params:
                        serial = self._connection.serial
                except MCPError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as done:
            return done.value

    def _take(
        self,
        method: str,
        step: Step,
        deadline: Deadline | None,
        options: Mapping[str, Any],
    ) -> Any:
        if type(step) is Sleep:
            self._sleep(method, step.seconds, deadline)
            return None
        if type(step) is Ask:
            return self._ask(method, step, deadline)
        assert type(step) is Call
        if self._cache is not None and is_list(step.method):
            return self._complete_cached(self._cache, step, deadline, options)
        return self._perform(step, deadline, options)

    def _perform(
        self, call: Call, deadline: Deadline | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        return self.perform(call.method, dict(call.params), deadline, options)

    def _ask(self, method: str, step: Ask, deadline: Deadline | None) -> dict[str, Any]:
        """Let our handler answer what a server needs to go on."""
        connection = self._connection
        agreement = connection.profile.agreement
        assert agreement is not None
        try:
            question = connection.inbound.features.question(
                step.method, step.params, agreement.revision
            )
        except RPCError as error:
            # 2026-07-28 basic/patterns/mrtr: a server MUST NOT ask for what the client
            # did not declare, and there is no way to answer it with an error.
            raise RemoteProtocolError(
                f"{method}: the server asks for {step.method!r}, which this client "
                f"{_refused_because(error)}"
            ) from error
        if deadline is not None:
            deadline.pause(connection.time(), self._limits.question_time)
        try:
            return connection.ask(method, question, deadline)
        finally:
            if deadline is not None:
                deadline.resume(connection.time())

    def _sleep(self, method: str, seconds: float, deadline: Deadline | None) -> None:
        """Wait between two requests of a call, but never past the call's deadline."""
        connection = self._connection
        left = None if deadline is None else deadline.remaining(connection.time())
        if left is None or seconds < left:
            connection.sleep(seconds)
            return
        connection.sleep(left)
        if not connection.is_open:  # which ended it early; the next request says why
            return
        assert deadline is not None
        raise deadline.error(method, connection.time())


def _refused_because(error: RPCError) -> str:
    if isinstance(error, MethodNotFound):
        return "did not declare"
    return f"cannot answer: {error.message}"


def is_list(method: str) -> bool:
    """Tell whether a request is one for a page of a list."""
    spec = find(method)
    return spec is not None and spec.list_key is not None
