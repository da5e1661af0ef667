"""Many named servers at once: connected in parallel, each in a task of its own.

Nothing is locked over an ``await``: who is in the group is one dict, changed at once,
and what takes time is done to a `Seat`, which knows whether it has left meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mcpwire.group.connecting import Connecting
from mcpwire.group.hearing import GroupEvents
from mcpwire.group.logs import warn
from mcpwire.group.source import GroupSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from mcpwire.client import Client
    from mcpwire.group.backoff import Backoff
    from mcpwire.group.options import GroupOptions, OnError
    from mcpwire.group.reports import GroupEvent
    from mcpwire.tools import ToolSet
    from mcpwire.tools.options import ToolOptions

__all__ = ["Group"]


class Group(Connecting):
    """Many servers by name, as one.

    ::

        async with mcpwire.Group({"time": "uvx mcp-server-time", "web": url}) as group:
            await group.call_tool("time", "get_current_time", {"timezone": "UTC"})
            await group["web"].list_resources()

    It is made and used on one event loop, from any task. What is asked of one server
    waits for no other; connecting and disconnecting waits for no call.

    Args:
        servers: Targets, or `Member`s, by name; the order is kept.
        concurrency: How many servers are being connected at once.
        on_error: What a server does that cannot be connected: ``"raise"`` ends the
            connecting of all; ``"skip"`` leaves it out; a function, plain or async, is
            called with its name and error, and returns to skip it or raises.
        start: ``"lazy"`` connects each server with its first use.
        idle: Seconds after which a lazy server is closed that nobody uses; the next use
            connects it again. One whose client was taken (`group[name]`) stays open.
        restart: How a lost connection is opened again without anybody asking; without
            it the next call does, as `Recovery` allows.
        on_notification: Called with each `GroupEvent`, plain or async.
        make_client: Makes the clients: called with name, target and options.
        options: Those of every `Client`, such as `timeout` (30 seconds) and
            `connect_timeout` (60), and those of `tools`.

    Raises:
        ValueError: An argument is out of its range; names it.
        TypeError: There is no such argument.
    """

    def __init__(
        self,
        servers: Mapping[str, Any] | None = None,
        *,
        concurrency: int = 8,
        on_error: OnError = "raise",
        start: Literal["eager", "lazy"] = "eager",
        idle: float | None = None,
        restart: Backoff | None = None,
        on_notification: Callable[[GroupEvent], Any] | None = None,
        make_client: Callable[..., Client] | None = None,
        **options: Unpack[GroupOptions],
    ) -> None:
        self.source = GroupSource(self)
        super().__init__(
            servers or {},
            options,
            concurrency=concurrency,
            on_error=on_error,
            start=start,
            idle=idle,
            restart=restart,
            on_notification=on_notification,
            make_client=make_client,
        )

    # Lifetime...

    async def __aenter__(self) -> Self:
        if self._is_lazy:
            self._check_loop()
            self._seat_lazy()
        else:
            await self.connect_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.aclose()
        except Exception as error:
            if exc is None:
                raise
            warn("closing", None, error)  # what ended the body is raised

    # Hearing and answering...

    def events(self) -> GroupEvents:
        """Iterate over what the servers tell, from now on, until `aclose`."""
        return GroupEvents(self._hearing)

    @property
    def dropped(self) -> int:
        """Notifications that `on_notification` was too slow for."""
        return self._hearing.dropped

    async def tools(self, **options: Unpack[ToolOptions]) -> ToolSet:
        """List the tools of all servers and return them as one set.

        The options are added to those the group was given. Servers whose tools cannot
        be listed are in `ToolSet.problems`.

        Raises what `ToolSet` and `ToolSet.refresh` do.
        """
        from mcpwire.tools import ToolSet

        self._check_loop()
        merged: Any = {**self._tool_options, **options}
        tools = ToolSet(self.source, **merged)
        await tools.refresh()
        return tools
