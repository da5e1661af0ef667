"""Many named servers at once, without an event loop.

They are connected in parallel, in threads that have ended when that is done. Each call
is made in the thread that calls; calls wait for each other neither on one server nor on
several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mcpwire.errors import LocalProtocolError
from mcpwire.group.logs import warn
from mcpwire.sync.group.connecting import Connecting
from mcpwire.sync.group.hearing import GroupEvents
from mcpwire.sync.group.source import GroupSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from mcpwire.group.options import GroupOptions, OnError
    from mcpwire.protocol.many.reports import GroupEvent
    from mcpwire.sync.client import Client
    from mcpwire.sync.group.toolset import ToolSet
    from mcpwire.tools.options import ToolOptions

__all__ = ["Group"]


class Group(Connecting):
    """Many servers by name, as one, for code without an event loop.

    ::

        with mcpwire.sync.Group({"time": "uvx mcp-server-time", "web": url}) as group:
            group.call_tool("time", "get_current_time", {"timezone": "UTC"})
            group["web"].list_resources()

    Any number of threads may share it; it works where an event loop runs, too, and
    blocks that. What is asked of one server waits for no other.

    Args:
        servers: Targets, or `Member`s, by name; the order is kept.
        concurrency: How many servers are being connected at once, each in a thread
            that ends with that.
        on_error: What a server does that cannot be connected: ``"raise"`` ends the
            connecting of all; ``"skip"`` leaves it out; a plain function is called
            with its name and error, for one server at a time, and returns to skip it
            or raises.
        start: ``"lazy"`` connects each server with its first use.
        on_notification: Called with each `GroupEvent`, a plain function, in a thread
            of its own.
        make_client: Makes the clients: called with name, target and options.
        background: Whether a thread for each server reads while nobody calls, so that
            what the server starts is served at any time.
        listen: Whether servers are to tell that a list changed; over HTTP that takes a
            stream and its thread for each server.
        options: Those of every `Client`, such as `timeout` (30 seconds) and
            `connect_timeout` (60), and those of `tools`.

    What needs somebody who wakes up by himself is not there: a lost connection is
    opened again by the next call, as `Recovery` allows, and none is closed for being
    idle.

    Raises:
        ValueError: An argument is out of its range, or is an async function; names it.
        TypeError: There is no such argument.
    """

    def __init__(
        self,
        servers: Mapping[str, Any] | None = None,
        *,
        concurrency: int = 8,
        on_error: OnError = "raise",
        start: Literal["eager", "lazy"] = "eager",
        on_notification: Callable[[GroupEvent], Any] | None = None,
        make_client: Callable[..., Client] | None = None,
        background: bool = False,
        listen: bool = True,
        **options: Unpack[GroupOptions],
    ) -> None:
        self.source = GroupSource(self)
        super().__init__(
            servers or {},
            options,
            concurrency=concurrency,
            on_error=on_error,
            start=start,
            on_notification=on_notification,
            make_client=make_client,
            background=background,
            listen=listen,
        )

    # Lifetime...

    def __enter__(self) -> Self:
        if self._is_lazy:
            self._seat_lazy()
        else:
            self.connect_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Exception as error:
            if exc is None:
                raise
            warn("closing", None, error)  # what ended the body is raised

    def close(self) -> None:
        """Close every connection, and end events and tool sets; bounded in time.

        Works from any thread, twice, while the interpreter exits, and can be connected
        again. Raises what `disconnect_all` does, after all is closed.
        """
        self.source.tell(None)
        try:
            self.disconnect_all()
        finally:
            self._hearing.close()

    def __repr__(self) -> str:
        """Return one readable line."""
        return super().__repr__().replace("mcpwire.", "mcpwire.sync.", 1)

    # Hearing and answering...

    def events(self) -> GroupEvents:
        """Iterate over what the servers tell, from now on, until `close`.

        Raises:
            LocalProtocolError: The group was made without `background`: while this
                waited, nobody would read what the servers tell.
        """
        if not self._background:
            raise LocalProtocolError(
                "events need a group that was made with background=True: without it "
                "nobody reads while you wait for them"
            )
        return GroupEvents(self._hearing)

    @property
    def dropped(self) -> int:
        """Notifications that `on_notification` was too slow for."""
        return self._hearing.dropped

    def tools(self, **options: Unpack[ToolOptions]) -> ToolSet:
        """List the tools of all servers and return them as one set.

        The options are added to those the group was given. Servers whose tools cannot
        be listed are in `ToolSet.problems`.

        Raises what `ToolSet` and `ToolSet.refresh` do.
        """
        from mcpwire.sync.group.toolset import ToolSet

        merged: Any = {**self._tool_options, **options}
        tools = ToolSet(self.source, **merged)
        tools.refresh()
        return tools
