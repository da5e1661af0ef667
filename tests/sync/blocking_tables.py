"""What is particular to mcpwire when its asyncio modules become blocking ones.

To make one more module, add a line to `FILES`; what it imports must be in `MODULES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from to_blocking import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STREAMABLE: Final = "mcpwire/transports/http/streamable/"

FILES: Final[Mapping[str, str]] = {
    "mcpwire/client/__init__.py": "mcpwire/sync/client/__init__.py",
    "mcpwire/client/base.py": "mcpwire/sync/client/base.py",
    "mcpwire/client/links.py": "mcpwire/sync/client/links.py",
    "mcpwire/client/lists.py": "mcpwire/sync/client/lists.py",
    "mcpwire/client/login.py": "mcpwire/sync/client/login.py",
    "mcpwire/client/notices.py": "mcpwire/sync/client/notices.py",
    "mcpwire/client/skills.py": "mcpwire/sync/client/skills.py",
    "mcpwire/client/tasks.py": "mcpwire/sync/client/tasks.py",
    "mcpwire/transports/client/inbound.py": "mcpwire/sync/_made/inbound.py",
    "mcpwire/transports/client/asking/following.py": "mcpwire/sync/_made/following.py",
    "mcpwire/transports/client/asking/repeats.py": "mcpwire/sync/_made/repeats.py",
    "mcpwire/transports/client/asking/requests.py": "mcpwire/sync/_made/requests.py",
    "mcpwire/transports/client/streams.py": "mcpwire/sync/_made/streams.py",
    "mcpwire/transports/client/subscriptions.py": "mcpwire/sync/_made/subscriptions.py",
    _STREAMABLE + "channel.py": "mcpwire/sync/_made/http_channel.py",
    _STREAMABLE + "going_on.py": "mcpwire/sync/_made/http_going_on.py",
    _STREAMABLE + "inbound.py": "mcpwire/sync/_made/http_inbound.py",
}
"""Source -> what is made from it."""

_MADE: Final = {
    source.removesuffix(".py").removesuffix("/__init__").replace("/", "."): (
        target.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    )
    for source, target in FILES.items()
}

MODULES: Final[Mapping[str, str]] = {
    **_MADE,
    "mcpwire.protocol.notices.events": "mcpwire.sync._shell.shared",
    "mcpwire.protocol.notices.interests": "mcpwire.sync._shell.shared",
    "mcpwire.transports.base": "mcpwire.transports.base",
    "mcpwire.transports.callbacks": "mcpwire.sync._shell.callbacks",
    "mcpwire.transports.client.calls": "mcpwire.sync._shell.calls",
    "mcpwire.transports.client.connection": "mcpwire.sync._shell.connection",
    "mcpwire.transports.client.settings": "mcpwire.transports.client.settings",
    "mcpwire.transports.client.signal": "mcpwire.sync._shell.shared",
    "mcpwire.transports.client.stats": "mcpwire.transports.client.stats",
    "mcpwire.transports._fork": "mcpwire.transports._fork",
    "mcpwire.transports.http.engine": "mcpwire.sync._http.seam",
    "mcpwire.transports.http.destination": "mcpwire.transports.http.destination",
    "mcpwire.transports.http.scopes": "mcpwire.transports.http.scopes",
    "mcpwire.transports.http.streamable.shell": "mcpwire.sync._http.shell",
    "mcpwire.transports.http.target": "mcpwire.transports.http.target",
    "mcpwire.transports.http.told": "mcpwire.transports.http.told",
    "mcpwire.transports.oauth.authorizer": "mcpwire.sync._oauth.authorizer",
    "mcpwire.transports.oauth.performing": "mcpwire.transports.oauth.performing",
    "mcpwire.transports.memory": "mcpwire.transports.memory",
    "mcpwire.transports.tracing": "mcpwire.transports.tracing",
    "mcpwire.transports.inbound_tasks": "mcpwire.sync._shell.handlers",
    "mcpwire.transports.targets": "mcpwire.sync._targets",
}
"""Module -> what takes its place; one in which nothing waits stands for itself."""

NAMES: Final[Mapping[str, str]] = {
    "Authorizer": "BlockingAuthorizer",
    "InboundTasks": "InboundThreads",
    "opener": "blocking_opener",
}
"""Imported name -> what it is called there."""

ASYNCIO: Final[Mapping[str, str]] = {
    "CancelledError": "KeyboardInterrupt",
    "Lock": "threading.Lock",
    "sleep": "time.sleep",
}
"""Attribute of asyncio -> what takes its place."""

WORDS: Final[Sequence[tuple[str, str]]] = (
    ("async with mcpwire.Client(", "with mcpwire.sync.Client("),
    ("async with", "with"),
    ("async for", "for"),
    ("await ", ""),
    ("aclose", "close"),
    ("asyncio client", "blocking client"),
    ("asyncio driver", "blocking driver"),
    ("plain or async", "a plain function"),
    ("Works from any task", "Works from any thread"),
)
"""Texts of docstrings and comments, replaced in this order."""

TEXTS: Final[Mapping[str, Sequence[tuple[str, str, str]]]] = {
    "mcpwire/client/__init__.py": [
        (
            "",
            """A call is one `dumps`, one write, one `loads` and one future: no task, no
            implicit `tools/list`, no validation unless asked for.""",
            """\
A call is one `dumps`, one write, one read and one `loads`, all in the thread that makes
it: no thread of ours, no implicit `tools/list`, no validation unless asked for.""",
        ),
        (
            "Client",
            "and is as safe to cancel: the server is told, and the connection goes on.",
            """\
and is as safe to interrupt: the server is told, and the connection
goes on. Any number of threads may share a client.""",
        ),
        (
            "Client.start_call",
            "to be awaited or cancelled later.",
            "to wait for or to cancel later.",
        ),
        ("Client.start_call", "or: result = await call", "or: result = call.result()"),
        ("Client.start_call", "awaiting the handle.", "its `result`."),
        (
            "Client.call_tool",
            "Cancelling the task tells the server and returns at once.",
            "Ctrl-C tells the server and raises `KeyboardInterrupt` at once.",
        ),
    ],
    "mcpwire/client/login.py": [],
    "mcpwire/client/notices.py": [],
    "mcpwire/transports/client/inbound.py": [
        (
            "",
            "Requests go to the handlers given to the client, a task each.",
            "Requests go to the handlers given to the client, in threads of their own.",
        ),
        (
            "ClientInbound.close",
            "Cancel callbacks and handlers; return the tasks that have yet to end.",
            "Drop what waits to be handled; return the threads that have yet to end.",
        ),
        (
            "ClientInbound.cancelled",
            "Stop the handler of a request that the server withdrew.",
            "Drop a request that the server withdrew; its answer will not be sent.",
        ),
    ],
    "mcpwire/client/base.py": [
        (
            "ClientBase.connect",
            "Cancelling the last caller undoes what had begun.",
            "Ctrl-C undoes what had begun.",
        ),
        (
            "ClientBase.aclose",
            "When cancelled, the closing goes on by itself.",
            "Ctrl-C ends the server's process at once.",
        ),
    ],
    "mcpwire/transports/client/asking/requests.py": [
        (
            "Requests.begin",
            "Prepare one request and return what performs it.",
            "Perform one request and return its raw result object.",
        ),
        (
            "Requests.begin",
            """A plain function, so that an ordinary call costs one coroutine and not
            two.""",
            "",
        ),
    ],
}
"""Source -> (qualified name, text within its docstrings, what takes its place)."""

PATCHES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "mcpwire/client/__init__.py": [
        (
            """\
            is called.

    Raises:
        ValueError:""",
            """\
            is called.
        background: Whether a thread of its own reads while nobody calls, so that what
            the server starts is served at any time.

    Raises:
        ValueError:""",
        ),
    ],
    "mcpwire/client/base.py": [
        (
            """\
        trace: Callable[[str, Any], Any] | None = None,
    ) -> None:""",
            """\
        trace: Callable[[str, Any], Any] | None = None,
        background: bool = False,
    ) -> None:""",
        ),
        (
            """\
                trace=trace,
            ),
        )""",
            """\
                trace=trace,
            ),
            background=background,
        )""",
        ),
        (
            """\
        features = self._host_features(
""",
            """\
        check_handlers(
            sampling=sampling,
            elicitation=elicitation,
            roots=roots,
            on_notification=on_notification,
        )
        features = self._host_features(
""",
        ),
        (
            """\
from mcpwire.transports.targets import opener
""",
            """\
from mcpwire.sync._shell.callbacks import check_handlers
from mcpwire.transports.targets import opener
""",
        ),
        ('f"<mcpwire.Client {', 'f"<mcpwire.sync.Client {'),
    ],
    "mcpwire/transports/client/streams.py": [
        # Elsewhere nothing can come between looking and taking; here another thread of
        # the same consumer can.
        (
            """\
            while self._buffer:
                notification = connection.inbound.typed(*self._buffer.pop())
""",
            """\
            while (event := self._buffer.take()) is not None:
                notification = connection.inbound.typed(*event)
""",
        ),
    ],
    "mcpwire/transports/client/inbound.py": [
        ("    import asyncio\n", "    import threading\n"),
        ("import weakref\n", "from mcpwire.sync._shell.shared import Listeners\n"),
        (
            "self.listeners: weakref.WeakSet[Listener] = weakref.WeakSet()",
            "self.listeners: Listeners[Listener] = Listeners()",
        ),
        ("-> list[asyncio.Task[None]]:", "-> list[threading.Thread]:"),
        (
            "        tasks = self._tasks.close()",
            "        threads = self._tasks.close()",
        ),
        (
            "        return tasks if delivery is None else [*tasks, delivery]",
            "        return threads if delivery is None else [*threads, delivery]",
        ),
        (
            """\
        if hasattr(value, "__await__"):
            value = await value
""",
            """\
        check_outcome(value, question.handler)
""",
        ),
        (
            "from mcpwire.transports.callbacks import Delivery\n",
            "from mcpwire.transports.callbacks import Delivery, check_outcome\n",
        ),
    ],
}
"""Source -> (its text, what takes its place): what only the blocking client has."""

TABLES: Final = Tables(
    modules=MODULES,
    names=NAMES,
    asyncio=ASYNCIO,
    guarded=("mcpwire.transports", "mcpwire.client"),
    words=WORDS,
    left_over=frozenset({"task_ids: Tasks to hear of (with the tasks extension)."}),
    of_tasks=frozenset(
        {
            "mcpwire/client/tasks.py",
            "mcpwire/transports/client/asking/following.py",
        }
    ),
)
