"""The tool set without a loop: it lists tools, hears that they changed, calls them.

A call is made in the thread that calls. Lists that servers say have changed are fetched
in one thread for the whole set, which ends when there is no more to fetch.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import MCPError
from mcpwire.protocol.many.errors import NameCollision, NotAllowed
from mcpwire.sync._shell.callbacks import check_plain, discard_awaitable
from mcpwire.sync.group.parallel import run_all
from mcpwire.tools.base import ToolSetBase, logger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from mcpwire.sync.client import CallOptions
    from mcpwire.tools.base import Outgoing
    from mcpwire.tools.options import Errors, ToolOptions
    from mcpwire.tools.source import BlockingToolSource
    from mcpwire.tools.view import ToolCall
    from mcpwire.types import CallToolResult

__all__ = ["ToolSet"]

PAUSES: Final = (0.0, 0.1, 0.5, 2.0, 10.0)
"""Seconds before lists are fetched again that changed while they were, each time more:
a server that tells of a change with each listing keeps nobody busy."""

CONCURRENCY: Final = 8
"""How many servers list their tools at once."""

END_S: Final = 2.0
"""How long closing waits for a listing under way."""


class ToolSet(ToolSetBase):
    """The tools of many servers: named, filtered, kept up to date, callable.

    ::

        tools = group.tools(confirm="mutating", approve=ask)
        for view in tools: ...
        result = tools.call("mcp__time__now", {"zone": "UTC"})

    Made by `Group.tools`, which has listed everything once. From then on lists that
    change are fetched again; the tools that were there stay until a list is whole. Of
    a change it hears while somebody reads that server's connection, which is while a
    call is made there, or always where the group was made with `background`.

    Any number of threads may share it.

    Args:
        source: Whose tools they are.
        options: `ToolOptions`; functions are plain.

    Raises:
        ValueError: An option is out of its range, or an async function; names it.
    """

    _source: BlockingToolSource

    def __init__(
        self, source: BlockingToolSource, **options: Unpack[ToolOptions]
    ) -> None:
        for name in ("approve", "trace_context"):
            if callable(options.get(name)):
                check_plain(options.get(name), name)
        super().__init__(source, **options)
        self._changing = threading.RLock()  # what was listed, and what was made of it
        self._begun = 0
        self._newest: dict[str, int] = {}
        # Whoever tells of a change may be a thread in the middle of anything here.
        self._hearing = threading.Condition(threading.RLock())
        self._stale: dict[str, None] = {}
        self._thread: threading.Thread | None = None
        self._is_closed = False
        # The source does not keep a set alive that nobody else has.
        hear = weakref.WeakMethod(self._hear)

        def tell(server: str | None) -> None:
            method = hear()
            if method is not None:
                method(server)

        self._undo = weakref.finalize(self, source.on_change(tell))
        self._undo.atexit = False

    # Keeping up...

    def refresh(self, *servers: str) -> None:
        """List the tools of these servers again, or of all, at the same time.

        What cannot be listed is in `problems`, and what was known of it stays.

        Raises:
            NameCollision: Two tools would have one name, where that is to be raised.

        Ctrl-C ends it at once; listings under way end by themselves.
        """
        wanted = dict.fromkeys(servers or self._source.servers())
        defects: dict[str, Exception] = {}
        tasks = [partial(self._list_for, each, defects) for each in wanted]
        run_all(tasks, CONCURRENCY)
        with self._changing:
            self._rebuild()
        for server in wanted:
            if server in defects:
                raise defects[server]

    def accept(self, *patterns: str) -> None:
        """Accept tools as they are now, all or those that a pattern fits, in the lock.

        A pattern is a glob for ``server/tool``. Nothing is written to any file.

        Raises:
            LocalProtocolError: There is no lock.
        """
        with self._changing:
            super().accept(*patterns)

    def close(self) -> None:
        """Hear no more of changes, and end the listing under way.

        The tools can be called as before. Works twice, and from any thread.
        """
        self._undo()
        self._end()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(END_S)

    def _hear(self, server: str | None) -> None:
        """Be told of a change, by any thread; waits for nothing."""
        if server is None:
            self._undo()
            self._end()
            return
        with self._hearing:
            if self._is_closed:
                return
            self._stale[server] = None
            if self._thread is not None:
                return
            thread = self._thread = threading.Thread(
                target=self._follow, name="mcpwire-tools", daemon=True
            )
        try:
            thread.start()
        except RuntimeError as error:  # too many, or the interpreter exits
            self._thread = None
            logger.warning("changed tools cannot be listed: %s", error)

    def _end(self) -> None:
        with self._hearing:
            self._is_closed = True
            self._stale.clear()
            self._hearing.notify_all()

    def _follow(self) -> None:
        """List until nothing has changed meanwhile."""
        rounds = 0
        while True:
            with self._hearing:
                pause = PAUSES[min(rounds, len(PAUSES) - 1)]
                if pause and self._stale:
                    self._hearing.wait_for(lambda: self._is_closed, pause)
                servers, self._stale = tuple(self._stale), {}
                if not servers:
                    self._thread = None
                    return
            rounds += 1
            defects: dict[str, Exception] = {}
            for server in servers:
                self._list_for(server, defects)
            for server, error in defects.items():
                logger.error("listing the tools of %r raised", server, exc_info=error)
            self._show()

    def _list_for(self, server: str, defects: dict[str, Exception]) -> None:
        """List a server's tools; what is no failure of the server's is kept."""
        try:
            self._list(server)
        except Exception as error:  # noqa: BLE001 - whoever asked for it raises it
            defects[server] = error

    def _list(self, server: str) -> None:
        """List a server's tools; what goes wrong is noted."""
        with self._changing:
            self._begun += 1
            begun = self._begun
        if not self._source.has(server):
            return
        try:
            tools = self._source.list(server)
        except MCPError as error:
            with self._changing:
                if self._is_newest(server, begun) and not self._is_closed:
                    self._note_problem(server, error)
            return
        with self._changing:
            if self._is_newest(server, begun):
                self._take(server, tools)

    def _is_newest(self, server: str, begun: int) -> bool:
        """Tell whether no listing that began later has ended already."""
        if begun < self._newest.get(server, 0):
            return False
        self._newest[server] = begun
        return True

    def _show(self) -> None:
        """Make views of what was listed; where that cannot be, the old ones stay."""
        try:
            with self._changing:
                self._rebuild()
        except NameCollision as error:
            logger.warning("the tools stay as they were: %s", error)

    # Calling...

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        confirmed: bool = False,
        errors: Errors | None = None,
        **options: Unpack[CallOptions],
    ) -> CallToolResult:
        """Call a tool by its name here and return its result, also one that failed.

        Args:
            name: What the tool is called here.
            arguments: Its arguments, as one object.
            confirmed: Whether somebody confirmed the call. Whoever is to approve calls
                is asked all the same.
            errors: ``"result"``: a JSON-RPC error becomes a result with `is_error`.
            options: As every request takes; the time that `approve` takes is not in
                `timeout`.

        Raises:
            UnknownTool: There is no such tool.
            NotAllowed: A rule hides it, or `approve` refused the call.
            NeedsConfirmation: Somebody has to confirm it first.
            LocalProtocolError: The arguments are none; nothing was sent, as with all
                of the above.
            UnknownServer: The server has left.
            MCPError: What `Client.call_tool` raises.

        Ctrl-C tells the server and raises `KeyboardInterrupt` at once.
        """
        call = self._prepare(name, arguments, confirmed=confirmed, errors=errors)
        if self._options.approve is not None:
            call = self._decided(call, self._ask(call))
        outgoing = self._outgoing(call, errors, dict(options))
        try:
            result = self._send(outgoing)
        except MCPError as error:
            return self._failed(outgoing, error)
        return self._finished(outgoing, result)

    def _ask(self, call: ToolCall) -> Any:
        """Ask whoever approves.

        Raises:
            NotAllowed: That raised something.
        """
        approve = self._options.approve
        assert approve is not None
        try:
            answer = approve(self._question(call))
        except NotAllowed:
            raise
        except Exception as error:
            raise NotAllowed(call.view.name, rule=f"approve: {error}") from error
        if discard_awaitable(answer):
            raise NotAllowed(call.view.name, rule="approve: it is no plain function")
        return answer

    def _send(self, outgoing: Outgoing) -> CallToolResult:
        view = outgoing.view
        if view.extra is None:
            return self._source.call(
                view.server, view.tool, outgoing.arguments, **outgoing.options
            )
        arguments = self._extra_arguments(outgoing)
        return view.extra.result(
            self._source.request(
                view.server, view.extra.verb, *arguments, **outgoing.options
            )
        )
