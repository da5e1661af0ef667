"""What a group does by a server's name: one short method per request.

Each takes the server's name first, and then what `Client`'s method of the same name
takes. What is wrong with the arguments is said before the server is looked for; each
failure is logged once, with the fields of `group.logs`, and raised.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from mcpwire.client.client import as_object
from mcpwire.errors import MCPError, RequestTimeout, ToolError
from mcpwire.group.base import as_reference
from mcpwire.group.errors import as_meant
from mcpwire.group.logs import fields, logger, warn
from mcpwire.limits import check_timeout
from mcpwire.types import UNSET

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping
    from typing import Unpack

    from mcpwire.client import CallOptions, Client
    from mcpwire.group.seat import Seat
    from mcpwire.types import (
        CallToolResult,
        CompleteResult,
        GetPromptResult,
        LoggingLevel,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        Tool,
    )
    from mcpwire.wire.jsonrpc import RequestId

__all__ = ["Verbs"]


class Verbs:
    """The part of a group that asks one server at a time.

    Raises, beside what `Client` does:
        UnknownServer: There is no server of that name; `NotConnected` (one of its kind)
            where it is known and could not be connected.
        LocalProtocolError: The arguments have the wrong shape; nothing was looked for.
    """

    if TYPE_CHECKING:  # of the group

        def _seat(self, server: str) -> Seat: ...

        def _timeout_of(self, seat: Seat) -> float | None: ...

        def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> Any: ...

        def __iter__(self) -> Iterator[str]: ...

        def client_of(self, name: str) -> Client:
            """Return a server's client."""
            ...

    # Tools...

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
        validate: Literal["off", "warn", "error"] = "off",
        **options: Unpack[CallOptions],
    ) -> CallToolResult:
        """Call a tool of a server, by the name the server gave it.

        The result is the server's whole one, also where it says that the tool failed.
        """
        given = None if arguments is None else as_object(arguments)
        told = {**options, "check": check, "validate": validate}
        call = self._ask(server, "call_tool", (tool, given), told, tool=tool)
        if logger.isEnabledFor(logging.DEBUG):
            call = _logged(call, server, tool)
        result: CallToolResult = await call
        return result

    async def list_tools(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Tool]:
        """Return all tools of a server."""
        found: list[Tool] = await self._ask(server, "list_tools", (), options)
        return found

    # Resources...

    async def read_resource(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> ReadResourceResult:
        """Read a resource of a server."""
        found: ReadResourceResult = await self._ask(
            server, "read_resource", (uri,), options, uri=uri
        )
        return found

    async def list_resources(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Resource]:
        """Return all resources of a server."""
        found: list[Resource] = await self._ask(server, "list_resources", (), options)
        return found

    async def list_resource_templates(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[ResourceTemplate]:
        """Return all resource templates of a server."""
        found: list[ResourceTemplate] = await self._ask(
            server, "list_resource_templates", (), options
        )
        return found

    async def subscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Have a server tell when a resource changes; events and callback hear it.

        A new connection after a loss is told of it again.
        """
        await self._ask(server, "subscribe", (uri,), options, uri=uri)

    async def unsubscribe(
        self, server: str, uri: str, **options: Unpack[CallOptions]
    ) -> None:
        """Take one `subscribe` back."""
        await self._ask(server, "unsubscribe", (uri,), options, uri=uri)

    # Prompts and completion...

    async def list_prompts(
        self, server: str, **options: Unpack[CallOptions]
    ) -> list[Prompt]:
        """Return all prompts of a server."""
        found: list[Prompt] = await self._ask(server, "list_prompts", (), options)
        return found

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> GetPromptResult:
        """Get a prompt of a server, filled in."""
        given = None if arguments is None else as_object(arguments)
        found: GetPromptResult = await self._ask(
            server, "get_prompt", (name, given), options
        )
        return found

    async def complete(
        self,
        server: str,
        ref: PromptReference | ResourceTemplateReference | Mapping[str, Any],
        argument: str,
        value: str = "",
        *,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> CompleteResult:
        """Ask a server how an argument of a prompt or template could go on.

        `ref` may also be a mapping, as the wire has it.
        """
        found: CompleteResult = await self._ask(
            server,
            "complete",
            (as_reference(ref), argument, value),
            {**options, "context": context},
        )
        return found

    # Everything else...

    async def ping(self, server: str, **options: Unpack[CallOptions]) -> float:
        """Ask a server for a sign of life; return the seconds it took."""
        seconds: float = await self._ask(server, "ping", (), options)
        return seconds

    async def set_log_level(
        self, server: str, level: LoggingLevel, **options: Unpack[CallOptions]
    ) -> None:
        """Have a server send its log messages from a level on.

        One that is lazy is not closed for being idle from then on.
        """
        await self._ask(server, "set_log_level", (level,), options)

    # Without waiting...

    def notify_roots_changed(self, server: str | None = None) -> None:
        """Tell a server, or each that is connected, that the roots changed.

        Waits for nothing. A server that is unknown, or cannot be told, is logged.
        """
        ready = [name for name in self if self.client_of(name).is_connected]
        for name in ready if server is None else (server,):
            try:
                client = self.client_of(name)
            except MCPError as error:
                warn("telling of changed roots", name, error)
            else:
                self._spawn(self._tell_roots(name, client), "roots")

    async def _tell_roots(self, server: str, client: Client) -> None:
        try:
            await client.notify_roots_changed()
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            warn("telling of changed roots", server, error)

    def cancel(
        self, server: str, request_id: RequestId | None, reason: str | None = None
    ) -> None:
        """End a call on a server by its id on the wire; see `Client.cancel`.

        Waits for nothing. ``None``, and an id of no call, send nothing; an unknown
        server is logged.
        """
        try:
            self.client_of(server).cancel(request_id, reason)
        except MCPError as error:
            warn("cancelling", server, error)

    # The way of them all...

    async def _ask(
        self,
        server: str,
        verb: str,
        args: tuple[Any, ...],
        options: Mapping[str, Any],
        **about: str,
    ) -> Any:
        try:
            seat = self._seat(server)
        except MCPError as error:
            warn(verb, server, error, **about)
            raise
        seat.begin()
        answered = False
        try:
            if seat.needs_opening:
                options = await self._opened(seat, verb, options)
            result = await getattr(seat.client, verb)(*args, **options)
            answered = True
            seat.is_logging = seat.is_logging or verb == "set_log_level"
        except (asyncio.CancelledError, ToolError):
            raise  # the caller's own doing; a result that was to be raised
        except Exception as error:
            meant = as_meant(server, error, has_left=seat.is_closed)
            warn(verb, server, meant, **about)
            if meant is error:
                raise
            raise meant from error
        finally:
            seat.end(answered=answered)
        return result

    async def _opened(
        self, seat: Seat, verb: str, options: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Have a server connected for a call, within the call's own time.

        Returns the call's options, with the time that is left to it.
        """
        timeout = options.get("timeout", UNSET)
        if timeout is UNSET:
            timeout = self._timeout_of(seat)
        limit = check_timeout(timeout)
        started = monotonic()
        try:
            async with asyncio.timeout(limit) as scope:
                await seat.connect()
        except TimeoutError as error:
            if isinstance(error, MCPError) or not scope.expired() or limit is None:
                raise
            raise RequestTimeout(
                method=verb,
                timeout=limit,
                elapsed=monotonic() - started,
                detail="the server was being connected",
            ) from None
        if limit is None:
            return options
        return {**options, "timeout": max(limit - (monotonic() - started), 0.001)}


async def _logged(
    call: Coroutine[Any, Any, Any], server: str, tool: str
) -> CallToolResult:
    """Make a call and log that it begins, and how it ends."""
    about: dict[str, Any] = {"tool": tool, "component": "mcp"}
    logger.debug(
        "calling %r of server %r",
        tool,
        server,
        extra=fields(server, event="mcp_call", **about),
    )
    ok = False
    try:
        result: CallToolResult = await call
        ok = not result.is_error
    finally:
        logger.debug(
            "%r of server %r: %s",
            tool,
            server,
            "ok" if ok else "failed",
            extra=fields(server, event="mcp_result", ok=ok, **about),
        )
    return result
