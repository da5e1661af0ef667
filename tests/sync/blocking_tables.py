"""What is particular to mcpwire when its asyncio modules become blocking ones.

To make one more module, add a line to `FILES`; what it imports must be in `MODULES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from to_blocking import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILES: Final[Mapping[str, str]] = {
    "mcpwire/client/__init__.py": "mcpwire/sync/client/__init__.py",
    "mcpwire/client/base.py": "mcpwire/sync/client/base.py",
    "mcpwire/client/lists.py": "mcpwire/sync/client/lists.py",
    "mcpwire/transports/client/requests.py": "mcpwire/sync/_requests.py",
}
"""Source -> what is made from it."""

MODULES: Final[Mapping[str, str]] = {
    "mcpwire.client": "mcpwire.sync.client",
    "mcpwire.transports.base": "mcpwire.transports.base",
    "mcpwire.transports.callbacks": "mcpwire.sync._callbacks",
    "mcpwire.transports.client.connection": "mcpwire.sync._connection",
    "mcpwire.transports.client.requests": "mcpwire.sync._requests",
    "mcpwire.transports.client.stats": "mcpwire.transports.client.stats",
    "mcpwire.transports.targets": "mcpwire.sync._targets",
}
"""Module -> what takes its place; one in which nothing waits stands for itself."""

NAMES: Final[Mapping[str, str]] = {"opener": "blocking_opener"}
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
            "Client.call_tool",
            "Cancelling the task tells the server and returns at once.",
            "Ctrl-C tells the server and raises `KeyboardInterrupt` at once.",
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
    "mcpwire/transports/client/requests.py": [
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
        )""",
            """\
            trace=trace,
            background=background,
        )""",
        ),
        ('f"<mcpwire.Client {', 'f"<mcpwire.sync.Client {'),
    ],
}
"""Source -> (its text, what takes its place): what only the blocking client has."""

TABLES: Final = Tables(
    modules=MODULES,
    names=NAMES,
    asyncio=ASYNCIO,
    guarded=("mcpwire.transports", "mcpwire.client"),
    words=WORDS,
)
