"""Requests of a client: options, deadlines, `_meta`, pages and input rounds.

This module drives the generators of `protocol.multistep`. After a failed request
`protocol.retry` decides whether it is sent again, within the public call's deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import time as wall_time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from mcpwire.client.connection import has_served
from mcpwire.errors import (
    AuthError,
    CallCancelled,
    ConnectError,
    ConnectionClosed,
    HeaderMismatch,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    RemoteProtocolError,
    RPCError,
    SessionExpired,
    TransportError,
)
from mcpwire.limits import check_timeout
from mcpwire.protocol.deadline import Deadline
from mcpwire.protocol.methods import find_method
from mcpwire.protocol.multistep import Call, HandleInput, Sleep
from mcpwire.protocol.retry import may_repeat
from mcpwire.transports.base import CallHandle, wait_shared
from mcpwire.types import UNSET
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator

    from mcpwire.client.connection import Connection
    from mcpwire.protocol.cache import ResponseCache
    from mcpwire.protocol.multistep import Step, Steps
    from mcpwire.transports.targets import OpenChannel
    from mcpwire.types import Unset
    from mcpwire.wire.jsonrpc import RequestId

    ProgressFn = Callable[[float, float | None, str | None], Any]

T = TypeVar("T")

MAX_PAUSE_S: Final = 3600.0
"""The limit of a server-requested delay for a call without a deadline."""

MAX_PROGRESS_EXTENSION: Final = 10.0
"""The default maximum duration of a call with progress, in multiples of its timeout."""


@attrs.define  # not frozen: that would make a raw request cost a tenth more
class Options:
    """The options of one public call, shared by all its requests."""

    deadline: Deadline | None = None
    meta: Mapping[str, Any] | None = None
    on_progress: ProgressFn | None = None
    headers: Mapping[str, str] | None = None
    handle: CallHandle | None = None
    idempotent: bool | None = None
    is_followed: bool = True
    """Whether a call that becomes a task is followed to its result."""

    serial: int | None = None
    """The `Connection.serial` of the connection that returned the page cursor."""

    has_new_headers: bool = False
    """Whether the tools were listed again to correct the call's headers."""


class Requests:
    """The requests of one client over its connection."""

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
        self.cache = cache

    def deadline(self, timeout: float | Unset | None) -> Deadline | None:
        """Start the deadline of one public call."""
        seconds = self._timeout if timeout is UNSET else check_timeout(timeout)
        if seconds is None:
            return None
        now = self._connection.time()
        if not self._progress_extends:
            return Deadline(now, seconds)
        maximum = self._max_timeout or seconds * MAX_PROGRESS_EXTENSION
        return Deadline(now, seconds, maximum=maximum)

    def options(self, given: Mapping[str, Any], **internal: Any) -> Options:
        """Start the deadline of one public call and return its internal options."""
        return Options(
            self.deadline(given.get("timeout", UNSET)),
            given.get("meta"),
            given.get("on_progress"),
            given.get("headers"),
            idempotent=given.get("idempotent"),
            **internal,
        )

    def begin(  # noqa: PLR0917 - the hot path passes no keywords
        self,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFn | None = None,
        headers: Mapping[str, str] | None = None,
        handle: CallHandle | None = None,
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Prepare one request and return the coroutine that performs it.

        A plain function, so that an ordinary call costs one coroutine and not two.
        `params` is the caller's own dict and may be changed.
        """
        connection = self._connection
        channel = connection.channel
        if channel is None:
            raise connection.not_connected_error()
        profile = connection.profile
        if meta is not None or on_progress is not None:
            fields = {**(profile.meta or {}), **(meta or {})}
            if fields:
                params = {**(params or {}), "_meta": fields}
        elif profile.encoded_meta is not None:
            params = params if params is not None else {}
            params["_meta"] = profile.encoded_meta
        if on_progress is None:
            return channel.call(
                method, params, deadline=deadline, handle=handle, headers=headers
            )
        return self._begin_with_progress(
            channel, method, params, deadline, on_progress, headers, handle
        )

    async def _begin_with_progress(  # noqa: PLR0917 - all of `begin`'s
        self,
        channel: OpenChannel,
        method: str,
        params: dict[str, Any] | None,
        deadline: Deadline | None,
        on_progress: ProgressFn,
        headers: Mapping[str, str] | None,
        handle: CallHandle | None,
    ) -> dict[str, Any]:
        from mcpwire.transports.handlers import ProgressSink

        sink = ProgressSink(on_progress, self._limits)
        try:
            result = await channel.call(
                method,
                params,
                deadline=deadline,
                handle=handle,
                on_notification=sink.on_notification,
                headers=headers,
            )
            await sink.settle(self._connection.remaining(deadline))
        finally:
            sink.close()
        return result

    def _start(
        self, method: str, params: dict[str, Any] | None, options: Options
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        return self.begin(
            method,
            params,
            options.deadline,
            options.meta,
            options.on_progress,
            options.headers,
            options.handle,
        )

    # Complete operations

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None,
        given: Mapping[str, Any],
        **internal: Any,
    ) -> dict[str, Any]:
        """Perform a request, with all its input rounds; return the complete result."""
        options = self.options(given, **internal)
        profile = self._connection.profile
        if method in profile.disabled:
            raise profile.refusal(method)
        return await self._complete(method, params or {}, options)

    async def _complete(
        self, method: str, params: dict[str, Any], options: Options
    ) -> dict[str, Any]:
        # 2026-07-28 server/utilities/caching, "Cache Scope": other header fields may be
        # another authorization.
        cache = self.cache if options.headers is None else None
        generation = None
        if cache is not None:
            if not self._connection.is_entered:  # a closed client uses no cache
                raise self._connection.not_connected_error()
            cached = cache.get(method, params, self._connection.time())
            if cached is not None:
                result: dict[str, Any] = cached
                return result
            generation = cache.generation(method, params)
        try:
            raw = await self.perform(method, dict(params), options)
        except RPCError:
            if cache is not None and params.get("cursor") is not None:
                cache.drop_list(method)
            raise
        if raw.get("resultType", "complete") != "complete":
            return await self.finish(method, params, raw, options)
        if cache is not None and generation is not None:
            cache.put(method, params, raw, self._connection.time(), generation)
        return raw

    async def finish(
        self, method: str, params: dict[str, Any], raw: dict[str, Any], options: Options
    ) -> dict[str, Any]:
        """Run the input rounds, or the task, of an incomplete result to its end."""
        from mcpwire.protocol.multistep import is_task, run_input_rounds

        profile = self._connection.profile
        assert profile.agreement is not None
        steps = run_input_rounds(
            method,
            _without_meta(params) or {},
            raw,
            revision=profile.agreement.revision,
            extensions=profile.extensions,
            max_rounds=self._limits.input_rounds,
            max_requests=self._limits.questions,
            recovery=self._connection.settings.recovery,
        )
        result: dict[str, Any] = await self.drive(method, steps, options)
        if is_task(result, profile.agreement.revision) and options.is_followed:
            from mcpwire.client.tasks import follow

            return await follow(self._connection, self, result, options)
        return result

    async def pages(
        self, method: str, given: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Fetch all pages of a list within one deadline; return their raw results."""
        from mcpwire.protocol.multistep import fetch_pages

        profile = self._connection.profile
        if method in profile.disabled:
            raise profile.refusal(method)
        steps = fetch_pages(method, {}, limit=self._limits.pages)
        return list(await self.drive(method, steps, self.options(given)))

    async def walk(
        self, method: str, params: Mapping[str, Any], given: Mapping[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the pages of a list; fetch each on demand within its own deadline."""
        from mcpwire.protocol.multistep import PageWalk

        walk, serial = PageWalk(method, params, limit=self._limits.pages), None
        while walk.params is not None:
            self._check_cursor(serial)
            page = await self.request(method, dict(walk.params), given, serial=serial)
            serial = self._connection.serial
            walk.receive(page)
            yield page

    # Generator driver

    async def drive(self, method: str, steps: Steps[Any], options: Options) -> Any:
        """Drive the generator of a protocol operation, within one deadline."""
        connection = self._connection
        serial, was_entered = connection.serial, connection.is_entered
        try:
            step = next(steps)
            while True:
                try:
                    if type(step) is Call and "cursor" in step.params:
                        options = attrs.evolve(options, serial=serial)
                        self._check_cursor(serial)
                    outcome = await self._perform_step(method, step, options)
                    if type(step) is Call and "cursor" not in step.params:
                        serial = connection.serial
                except MCPError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as done:
            return done.value
        except LocalProtocolError as error:
            if connection.is_entered or not was_entered:
                raise
            raise ConnectionClosed("closed by this side", sent=True) from error

    async def _perform_step(self, method: str, step: Step, options: Options) -> Any:
        if type(step) is Sleep:
            await self._sleep(method, step.seconds, options.deadline)
            return None
        if type(step) is HandleInput:
            return await self._answer_input(method, step, options.deadline)
        assert type(step) is Call
        spec = find_method(step.method)
        if spec is not None and spec.list_key is not None:
            return await self._complete(step.method, step.params, options)
        return await self.perform(step.method, dict(step.params), options)

    async def _answer_input(
        self, method: str, step: HandleInput, deadline: Deadline | None
    ) -> dict[str, Any]:
        """Run the handler of an input request; return its validated result."""
        connection = self._connection
        agreement = connection.profile.agreement
        assert agreement is not None
        try:
            request = connection.inbound.features.prepare(
                step.method, step.params, agreement.revision
            )
        except RPCError as error:
            # 2026-07-28 basic/patterns/mrtr: a server MUST NOT send an input request
            # for an undeclared capability; it cannot be answered with an error.
            reason = f"cannot answer: {error.message}"
            if isinstance(error, MethodNotFound):
                reason = "did not declare"
            raise RemoteProtocolError(
                f"{method}: the server asks for {step.method!r}, which this client "
                f"{reason}"
            ) from error
        if deadline is not None:
            deadline.pause(connection.time(), self._limits.question_time)
        try:
            return await connection.answer_input(method, request, deadline)
        finally:
            if deadline is not None:
                deadline.resume(connection.time())

    async def _sleep(
        self, method: str, seconds: float, deadline: Deadline | None
    ) -> None:
        """Sleep between two requests of a call, at most until the call's deadline."""
        connection = self._connection
        left = connection.remaining(deadline)
        if left is None or seconds < left:
            await connection.sleep(seconds)
            return
        await connection.sleep(left)
        if not connection.is_open:  # ended the sleep; the next request raises the cause
            return
        assert deadline is not None
        raise deadline.error(method, connection.time())

    # Retries

    async def perform(
        self, method: str, params: dict[str, Any] | None, options: Options
    ) -> dict[str, Any]:
        """Perform one request; repeat it after a transport failure if that is safe."""
        try:
            return await self._start(method, params, options)
        except (AuthError, TransportError, RPCError) as error:
            return await self.perform_again(error, method, params, options)

    async def perform_again(
        self,
        error: AuthError | TransportError | RPCError,
        method: str,
        params: dict[str, Any] | None,
        options: Options,
    ) -> dict[str, Any]:
        """Repeat a request if the error of the first attempt allows it.

        2026-07-28 basic/transports/streamable-http, "Client Behavior": if the server
        rejects a call's mirrored headers, the tools are listed again, once.
        """
        failure = _as_failure(error)
        try:
            if failure is None:
                raise error
            return await self._repeat(failure, method, params, options)
        except HeaderMismatch as refused:
            if method != "tools/call" or options.has_new_headers:
                raise
            await self._relist_tools(refused, options)
            options = attrs.evolve(options, has_new_headers=True)
        finally:
            del error, failure  # they refer to this frame: avoid a cycle
        return await self.perform(method, params, options)

    async def _relist_tools(self, error: HeaderMismatch, options: Options) -> None:
        """List the tools again: their schemas define the mirrored headers of a call."""
        if error.status is None or "tools/list" in self._connection.profile.disabled:
            raise error
        if self.cache is not None:
            self.cache.drop_list("tools/list")
        from mcpwire.protocol.multistep import fetch_pages

        steps = fetch_pages("tools/list", {}, limit=self._limits.pages)
        own = Options(options.deadline, headers=options.headers)
        await self.drive("tools/list", steps, own)

    async def _repeat(
        self,
        error: AuthError | TransportError,
        method: str,
        params: dict[str, Any] | None,
        options: Options,
    ) -> dict[str, Any]:
        """Repeat a request after a transport failure, as often as allowed."""
        attempt, is_renewed = 1, False
        channel: Any = None  # of the last attempt
        next_error: AuthError | TransportError | None = None
        try:
            while True:
                if isinstance(error, SessionExpired):
                    if is_renewed and not self._can_renew_session(channel, attempt):
                        break
                    is_renewed = True
                seconds = self._retry_delay(error, method, attempt, options)
                left = self._connection.remaining(options.deadline)
                longest = MAX_PAUSE_S if left is None else left
                if seconds is None or seconds >= longest:
                    break
                attempt += 1
                if seconds:
                    await self._connection.sleep(seconds)
                    if not self._connection.is_entered:  # closed during the sleep
                        break
                try:
                    await self._connection.reconnect(method, options.deadline)
                    self._check_cursor(options.serial)
                    channel = self._connection.channel
                    return await self._start(method, _without_meta(params), options)
                except (AuthError, TransportError, RPCError) as raised:
                    next_error = _as_failure(raised)
                    if next_error is None:
                        raise
                    # An error that says the request may have run is replaced only by
                    # one of the login.
                    if (
                        isinstance(next_error, AuthError)
                        or _may_have_run(next_error)
                        or not _may_have_run(error)
                    ):
                        error = next_error
            raise self._final_error(error)
        finally:
            del error, next_error  # they refer to this frame: avoid a cycle

    def _can_renew_session(self, channel: Any, attempt: int) -> bool:
        """Return whether one more session may be opened for one request.

        A new session that expires before it has answered a request is not replaced.
        One that has answered is replaced: the request did not run.
        """
        attempts = self._connection.settings.recovery.attempts
        return channel is not None and attempt <= attempts and has_served(channel)

    def _final_error(self, error: AuthError | TransportError) -> MCPError:
        """Return the server's own error, if the failure wraps one."""
        server_error = getattr(error, "rpc_error", None)
        if isinstance(server_error, RPCError):
            return server_error
        server_error = error.__cause__
        is_stateless = self._connection.profile.era is Era.STATELESS
        if isinstance(error, SessionExpired) and is_stateless:
            return server_error if isinstance(server_error, MCPError) else error
        return error

    def _check_cursor(self, serial: int | None) -> None:
        """Raise if the cursor of that connection belongs to another session."""
        if (
            serial not in {None, self._connection.serial}
            and self._connection.profile.era is Era.SESSION
        ):
            from mcpwire.protocol.multistep import CursorGoneError

            raise CursorGoneError("the session of the cursor has ended: list again")

    def _retry_delay(
        self, error: MCPError, method: str, attempt: int, options: Options
    ) -> float | None:
        """Return the seconds to wait before the next attempt; ``None``: give up."""
        connection, idempotent = self._connection, options.idempotent
        recovery = connection.settings.recovery
        if not connection.is_entered:
            return None
        if isinstance(error, SessionExpired):
            return 0.0 if recovery.reinitialize else None
        if not connection.is_open:
            # A `ConnectError` ends a series of reconnect attempts: do not repeat it.
            if not recovery.restart or isinstance(error, ConnectError):
                return None
            if isinstance(error, ConnectionClosed):  # `reconnect` has its own backoff
                may = may_repeat(method, sent=error.sent, idempotent=idempotent)
                return 0.0 if may and attempt <= recovery.attempts else None
        from random import random

        from mcpwire.protocol.retry import retry_delay

        return retry_delay(
            error,
            method,
            idempotent=idempotent,
            attempt=attempt,
            recovery=recovery,
            chance=random(),  # noqa: S311 - jitter
            now_wall=wall_time(),
        )


def as_object(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a dict; raise if they are not a mapping."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    raise LocalProtocolError(
        f"arguments: expected an object, got {type(arguments).__name__}"
    )


def _without_meta(params: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return params without the `_meta` of an earlier connection."""
    if params is None or "_meta" not in params:
        return params
    return {key: value for key, value in params.items() if key != "_meta"}


def _as_failure(error: Any) -> AuthError | TransportError | None:
    """Return the failure of an attempt; ``None``: the server has replied."""
    if isinstance(error, AuthError | TransportError):
        return error
    if error.status is None:  # a JSON-RPC error reply
        return None
    from mcpwire.protocol.retry import declined_error

    return declined_error(error)


def _may_have_run(error: MCPError) -> bool:
    return isinstance(error, ConnectionClosed) and error.sent


class StartedHandle(CallHandle):
    """A handle with an event that is set once its first request has an id or failed."""

    __slots__ = ("_id", "is_started")

    def __init__(self) -> None:
        self.is_started = asyncio.Event()
        self._id: RequestId | None = None

    @property
    def request_id(self) -> RequestId | None:
        """The id on the wire."""
        return self._id

    @request_id.setter
    def request_id(self, value: RequestId | None) -> None:
        self._id = value
        self.is_started.set()


class PendingCall(Generic[T]):
    """A call in progress; it can be awaited for its result any number of times.

    Awaiting raises the call's errors. Cancelling the awaiting task does not cancel the
    call; `cancel` does.
    """

    def __init__(
        self, connection: Connection, method: str, call: Callable[[CallHandle], Any]
    ) -> None:
        self._connection = connection
        self._method = method
        self._handle = StartedHandle()
        self._reason: str | None = None
        self._task: asyncio.Task[T] = connection.spawn(self._run(call), method)
        self._task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[T]) -> None:
        self._handle.is_started.set()
        if not task.cancelled():
            task.exception()  # marks it as retrieved

    async def _run(self, call: Callable[[CallHandle], Coroutine[Any, Any, T]]) -> T:
        try:
            return await call(self._handle)
        except asyncio.CancelledError:
            if self._reason is None:  # cancelled by closing the connection
                raise ConnectionClosed(
                    "closed by this side", sent=self._handle.request_id is not None
                ) from None
            raise CallCancelled(self._method, reason=self._reason) from None

    async def started(self) -> PendingCall[T]:
        """Wait until the request is sent; raise if it failed before that."""
        handle, task = self._handle, self._task
        if handle.request_id is None and not task.done():
            try:
                await handle.is_started.wait()
            except asyncio.CancelledError:
                self.cancel("the caller cancelled")
                raise
        if task.cancelled():  # by closing the client, before its first step
            raise ConnectionClosed("closed by this side", sent=False)
        if handle.request_id is None and task.done():
            await task
        return self

    @property
    def request_id(self) -> RequestId | None:
        """The JSON-RPC id; it changes after a reconnect and with each input round."""
        return self._handle.request_id

    @property
    def done(self) -> bool:
        """Whether the call has ended, with a result, an error or a cancellation."""
        return self._task.done()

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the call, also at the server; awaiting it raises `CallCancelled`.

        No effect on a call that has ended.
        """
        if self._task.done() or self._reason is not None:
            return
        self._reason = reason
        if not self._connection.cancel(self._handle, reason):
            self._task.cancel()

    def __await__(self) -> Generator[Any, None, T]:
        return wait_shared(self._task).__await__()

    def __repr__(self) -> str:
        """Return method, id and state in one line."""
        state = "ended" if self.done else "running"
        return f"<mcpwire.PendingCall {self._method} {self.request_id} {state}>"
