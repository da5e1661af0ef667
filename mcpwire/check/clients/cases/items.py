"""Lists and uses of tools, resources and prompts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import LEGACY, MODERN, Broken, Family, Start
from mcpwire.check.cases._items import LISTS, ListKind
from mcpwire.check.clients.cases._canary import Canary
from mcpwire.check.clients.cases._forms import (
    before_first_answer,
    observed_case,
    of_messages,
    undisturbed_case,
)
from mcpwire.check.clients.items import ECHO, RESOURCE, text_result
from mcpwire.check.clients.subject import MAX_REPEATS, UNDISTURBED
from mcpwire.check.subject import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.check.clients.cases._forms import AddCase
    from mcpwire.check.clients.http import HttpRequest
    from mcpwire.check.clients.subject import ClientSubject, Exchange
    from mcpwire.check.subject import Message

    ResultChange = Callable[[dict[str, Any]], object]

FAMILY: Final = Family("items", defaults={"role": "client"})

case = FAMILY.with_defaults(start=Start.OWN)

_SESSION_ID: Final = "mcp-session-id"
_PAGINATION: Final = "server/utilities/pagination#implementation-guidelines"


# --- pages ----------------------------------------------------------------------------


@attrs.define
class Pages:
    """All lists of the server, in pages: an empty one, then the items.

    The last page has the first item, so that a client that looks for it reads them all.

    Attributes:
        cursors: The cursors of the pages from the second on.
        requested: Method -> the numbers of the requested pages, from 0 on.
    """

    cursors: list[str]
    requested: dict[str, set[int]] = attrs.field(factory=dict)

    def serve(self, client: ClientSubject) -> None:
        """Make the server of a client answer with pages."""
        for kind in LISTS:
            client.answers[kind.method] = partial(self._answer, kind)

    async def _answer(self, kind: ListKind, exchange: Exchange) -> None:
        # Some clients send an empty cursor for the first page.
        cursor = exchange.params.get("cursor")
        if cursor == "" and "" not in self.cursors:
            cursor = None
        if cursor is not None and cursor not in self.cursors:
            expected = ", ".join(printable(each) for each in self.cursors)
            exchange.client.raise_broken(
                f"a cursor of the server: {expected}", exchange.message.raw
            )
        number = 0 if cursor is None else self.cursors.index(cursor) + 1
        self.requested.setdefault(kind.method, set()).add(number)

        def page(result: dict[str, Any]) -> object:
            items, last = result[kind.key], len(self.cursors)
            if number == last:
                return {**result, kind.key: items[:1]}
            some = items[1:] if number == last - 1 else []
            return {**result, kind.key: some, "nextCursor": self.cursors[number]}

        await exchange.correct(page)

    def need_second_page(self, client: ClientSubject) -> None:
        """Raise `Absent` if the client reads only first pages."""
        if not any(1 in numbers for numbers in self.requested.values()):
            client.raise_absent("request of a second page")


@case.should(
    "C-PAGE-05.a",
    "a client reads all pages of a list",
    source=_PAGINATION,
    rules=("PAGE-01", "PROMPT-06"),
    sends="each list in three pages, the first one empty",
    expects="requests for all pages, and all else as without pages",
    why="the user lacks most of the server's tools, and nobody is told",
)
async def all_pages(client: ClientSubject) -> None:
    pages = Pages(["page 2", "page 3"])
    pages.serve(client)
    disturbed: Broken | None = None
    try:
        await client.run_undisturbed("all else as without pages")
    except Broken as finding:
        disturbed = finding
    for method, numbers in pages.requested.items():
        if len(numbers) < 3:
            client.raise_broken(
                f"requests for 3 pages of {method}", f"{len(numbers)} of 3 pages"
            )
    if disturbed is not None:
        raise disturbed
    if not pages.requested:
        client.raise_absent("request of a list")


_MIXED: Final = (
    ' {"page": [1, null], "\u00e9": "\\u00e9"}  '
    "'a+b%2Fc%20d/..?e=f&g#h==\\' \u65e5\u672c \U0001f600 e\u0301\n\t"
)
_CURSORS: Final = [_MIXED, "007", "x" * 5_000]


@case.must(
    "C-PAGE-02.a",
    "cursors are sent back unchanged",
    source=_PAGINATION,
    sends="cursors with spaces, quotes, JSON text, percent signs, other letters, and "
    "one of 5,000 characters",
    expects="the same cursors in the requests",
    why="the server refuses the cursor, or returns another page",
)
async def cursor_unchanged(client: ClientSubject) -> None:
    pages = Pages(_CURSORS)
    pages.serve(client)
    await client.run()
    pages.need_second_page(client)
    # A client may stop before the last page, but not fail there.
    for method, numbers in pages.requested.items():
        if client.has_failed and 1 in numbers and len(numbers) <= len(_CURSORS):
            cursor = printable(_CURSORS[max(numbers)])
            client.raise_broken(f"{method} with the cursor {cursor}", client.ending)


@case.must(
    "C-PAGE-03.a",
    "an empty cursor is not the end of a list",
    source=_PAGINATION,
    revisions=MODERN,
    sends="lists in three pages; the cursor of the last one is an empty string",
    expects="a request with the empty cursor",
    why="the user lacks the last page of the server's tools",
)
async def empty_cursor(client: ClientSubject) -> None:
    pages = Pages(["page 2", ""])
    pages.serve(client)
    await client.run()
    pages.need_second_page(client)
    for method, numbers in pages.requested.items():
        if 1 in numbers and 2 not in numbers:
            client.raise_broken(f"{method} with the cursor ''", "no such request")


@case.must(
    "C-PAGE-04.a",
    "a cursor is not used in another session",
    source=_PAGINATION,
    revisions=LEGACY,
    transports=("http",),
    sends="404 for the request of a second page, and other cursors in the next session",
    expects="no cursor of the first session in the second one",
    why="the server refuses the cursor, or returns another page",
)
async def cursor_of_other_session(client: ClientSubject) -> None:
    first_session = client.session_id
    pages = Pages(["page 2 of session 1"])
    pages.serve(client)

    async def lose_session(request: HttpRequest) -> bool:
        is_lost = client.session_id != first_session
        if request.method != "POST" or request.value(_SESSION_ID) != first_session:
            return False
        if not is_lost and b"page 2" not in request.body:
            return False
        client.session_id = f"{first_session}-2"
        pages.cursors = ["page 2 of session 2"]
        await request.respond(404)
        return True

    client.on_http = lose_session
    await client.run()
    if len(client.sent("initialize")) < 2:
        client.raise_absent("second page and second session")


@case.robust(
    "C-F48.a",
    "a cursor that repeats forever does not keep the client busy forever",
    sends="the same `nextCursor` with each page",
    expects=f"at most {MAX_REPEATS} requests of the page",
    why="the client uses the processor and the memory until a user ends it",
)
async def cursor_repeats(client: ClientSubject) -> None:
    for kind in LISTS:
        client.change_result(kind.method, lambda r: {**r, "nextCursor": "again"})
    await client.run(must_end=True)
    if not any("cursor" in message.params for message in client.messages):
        client.raise_absent("request of a second page")


# --- lists and results ----------------------------------------------------------------


def _add_results_case(
    add: AddCase,
    id: str,
    title: str,
    changes: Callable[[ClientSubject], Mapping[str, ResultChange]],
    **attributes: Any,
) -> None:
    """Add a case with changed results of some methods.

    `changes` returns method -> function that returns the changed result.
    """

    async def run(client: ClientSubject) -> None:
        changed = changes(client)
        if not any(client.facts.declares(f"sends:{method}") for method in changed):
            client.raise_absent(f"request of {', '.join(changed)}")
        for method, change in changed.items():
            client.change_result(method, change)
        await client.run_undisturbed()

    add(id, title, expects=UNDISTURBED, **attributes)(run)


_add_results_case(
    case.robust,
    "C-F48.b",
    "a cursor that is null is the end of a list",
    lambda _: {kind.method: lambda r: {**r, "nextCursor": None} for kind in LISTS},
    rules=("PAGE-05",),
    sends="lists with `nextCursor` null",
    why="servers whose serializer writes absent members have no tools for the client",
)

_USES: Final = ("tools/call", "resources/read", "prompts/get")


def _with_unknown_members(value: Any) -> Any:
    """Return a value in which each object has further members."""
    if isinstance(value, list):
        return [_with_unknown_members(each) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {
        name: each if name == "inputSchema" else _with_unknown_members(each)
        for name, each in value.items()
    }
    return {**changed, "x-new": {"list": [1, None]}, "newMember": "text"}


_add_results_case(
    case.robust,
    "C-D40.a",
    "unknown members of lists and results are ignored",
    lambda _: dict.fromkeys(
        [*(kind.method for kind in LISTS), *_USES], _with_unknown_members
    ),
    rules=("RPC-33",),
    sends="two unknown members in each object of all lists and results",
    why="a server of a later revision has no tools for the client",
)

_UNKNOWN_BLOCK: Final = {"type": "hologram", "frames": [1, 2], "mimeType": "x/y"}


def _with_unknown_content(result: dict[str, Any]) -> object:
    return {**result, "content": [*result["content"], _UNKNOWN_BLOCK]}


def _with_unknown_message(result: dict[str, Any]) -> object:
    message = {"role": "user", "content": _UNKNOWN_BLOCK}
    return {**result, "messages": [*result["messages"], message]}


_add_results_case(
    case.robust,
    "C-D41.a",
    "content of an unknown type does not lose the other content",
    lambda _: {
        "tools/call": _with_unknown_content,
        "prompts/get": _with_unknown_message,
    },
    sends="results with a text, and content of the type hologram after it",
    why="the user loses the whole result, because of a part that nobody needs",
)

_PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
_NOTE: Final = {"annotations": {"audience": ["user", "assistant"], "priority": 0.5}}
_ICONS: Final = {
    "icons": [{"src": f"data:image/png;base64,{_PIXEL}", "sizes": ["1x1", "any"]}]
}


_OUTPUT_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"text": {"type": "string"}},
    "type": "object",
    "properties": {"text": {"$ref": "#/$defs/text"}},
    "required": ["text"],
}


def _valid_forms(client: ClientSubject) -> dict[str, ResultChange]:
    """Return results with all optional members and types of content of the revision."""
    revision = client.revision.name
    has_audio, is_titled = revision >= "2025-03-26", revision >= "2025-06-18"
    titled = {"title": "A title", "_meta": {"check.example/a": 1}} if is_titled else {}
    named = {**titled, **(_ICONS if revision >= "2025-11-25" else {})}
    embedded = {"uri": "check://blob", "mimeType": "image/png", "blob": _PIXEL}
    blocks: list[dict[str, Any]] = [
        {"type": "image", "data": _PIXEL, "mimeType": "image/png", **_NOTE},
        {"type": "resource", "resource": embedded, **_NOTE},
    ]
    if has_audio:
        blocks.append({"type": "audio", "data": _PIXEL, "mimeType": "audio/wav"})
    if is_titled:
        link = {"uri": RESOURCE, "name": "text", "size": 7, **named}
        blocks.append({"type": "resource_link", **link})

    def tools(result: dict[str, Any]) -> object:
        echo, *others = result["tools"]
        echo = {**echo, **named}
        hints = {"readOnlyHint": True, "destructiveHint": False, "title": "Echo"}
        echo |= {"annotations": hints} if has_audio else {}
        echo |= {"outputSchema": _OUTPUT_SCHEMA} if is_titled else {}
        return {**result, "tools": [echo, *others]}

    def call(result: dict[str, Any]) -> object:
        content = [{**result["content"][0], **_NOTE}, *blocks]
        structured = {"structuredContent": {"text": "hi"}} if is_titled else {}
        return {**result, "content": content, "isError": False, **structured}

    def resources(result: dict[str, Any]) -> object:
        further = {"description": "A text.", "mimeType": "text/plain", "size": 7}
        further |= {**_NOTE, **named}
        return {**result, "resources": [{**r, **further} for r in result["resources"]]}

    def read(result: dict[str, Any]) -> object:
        (text,) = result["contents"]
        return {**result, "contents": [{**text, "mimeType": "text/plain"}, embedded]}

    def prompts(result: dict[str, Any]) -> object:
        argument = {"name": "style", "description": "A style.", "required": False}
        further = {"description": "Says hello.", "arguments": [argument], **named}
        return {**result, "prompts": [{**p, **further} for p in result["prompts"]]}

    def prompt(result: dict[str, Any]) -> object:
        messages = [{"role": "assistant", "content": block} for block in blocks]
        return {**result, "messages": [*result["messages"], *messages]}

    return {
        "tools/list": tools,
        "tools/call": call,
        "resources/list": resources,
        "resources/read": read,
        "prompts/list": prompts,
        "prompts/get": prompt,
    }


_add_results_case(
    case.robust,
    "C-D42.a",
    "all optional members and types of content of the revision are accepted",
    _valid_forms,
    rules=("RES-12", "TOOL-12", "TOOL-13", "ICON-01"),
    sends="titles, icons, annotations, an output schema, structured content with and "
    "without a schema, images, audio, links, embedded resources, and two contents",
    why="servers that use a feature of the revision fail with the client",
)


_FAULTS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"inputSchema": None},
    {"inputSchema": {}},
    {"inputSchema": {"type": "string"}},
    {"inputSchema": {"type": "object", "properties": {"a": {"type": "text"}}}},
    {"inputSchema": {"type": "object"}, "description": None, "annotations": None},
)
"""Members of an invalid tool beside its name."""


@case.robust(
    "C-D43.a",
    "an invalid tool does not hide the other tools",
    needs=("sends:tools/list",),
    sends="a list with tools that lack a schema, or have an invalid one",
    expects=UNDISTURBED,
    why="one faulty tool makes all tools of the server unusable",
)
async def invalid_tools(client: ClientSubject) -> None:
    invalid = [{"name": f"fault-{i}", **each} for i, each in enumerate(_FAULTS)]

    async def call(exchange: Exchange) -> None:
        if str(exchange.params.get("name")).startswith("fault-"):
            kind = {"resultType": "complete"} if client.is_stateless else {}
            await exchange.answer({**text_result("a text"), **kind})
        else:
            await exchange.correct()

    client.answers["tools/call"] = call
    client.change_result(
        "tools/list", lambda r: {**r, "tools": [*invalid, *r["tools"]]}
    )
    await client.run_undisturbed()


_URIS: Final = [
    "https://check.example",
    "HTTP://Check.Example:80/%7euser/./a%2Fb/../c?q=%C3%A9&r=a+b#Part",
    "check:opaque/Text;a=1",
    "file:///tmp/a%20b.txt",
]


@case.robust(
    "C-D44.a",
    "the URIs of listed resources are sent back unchanged",
    needs=("sends:resources/list", "sends:resources/read"),
    sends="a list of resources with URIs that some libraries normalize",
    expects="the same URIs in resources/read",
    why="the server does not know the resource that it has listed",
)
async def uri_unchanged(client: ClientSubject) -> None:
    listed = [{"uri": uri, "name": f"resource-{i}"} for i, uri in enumerate(_URIS)]
    client.change_result("resources/list", lambda r: {**r, "resources": listed})
    await client.run()
    read = {str(m.params.get("uri")) for m in client.sent("resources/read")}
    usual = {key.removeprefix("resources/read ") for key in client.facts.sent}
    for uri in sorted(read - usual - set(_URIS)):
        client.raise_broken("a URI of the list", uri)
    if not read & set(_URIS):
        client.raise_absent("request of a listed resource")


# --- tools ----------------------------------------------------------------------------


for _id, _add, _revisions, _source in (
    ("C-SCH-06.a", case.must, MODERN, "basic/index#ref-resolution"),
    ("C-S03.a", case.robust, LEGACY, ""),
):

    @_add(
        _id,
        "a `$ref` to another server is not fetched",
        source=_source,
        revisions=_revisions,
        needs=("sends:tools/list",),
        sends="a tool whose schemas have a `$ref` to an HTTP server",
        expects="no request to that server",
        why="a server makes the client send requests into the user's network",
    )
    async def ref_not_fetched(client: ClientSubject) -> None:
        async with Canary() as canary:
            remote = {"$ref": f"{canary.origin}/schema.json"}
            schema = {"type": "object", "properties": {"text": remote}}
            tool = {**ECHO, "inputSchema": schema, "outputSchema": schema}
            structured = {"structuredContent": {"text": "hi"}}
            client.change_result(
                "tools/list", lambda r: {**r, "tools": [tool, *r["tools"][1:]]}
            )
            client.change_result("tools/call", lambda r: {**r, **structured})
            await client.run()
        client.need_request("tools/list", "the request tools/list")
        if canary.requests:
            client.raise_broken("no request to that server", canary.requests[0])


@observed_case(
    FAMILY.must,
    "C-T11-02.a",
    "no call asks for a task that the server does not support",
    source="basic/utilities/tasks#tool-level-negotiation",
    revisions=("2025-11-25",),
    needs=("sends:tools/call",),
    expects="calls without the member `task`",
    why="the client waits for a task, and the server has sent the result",
)
@of_messages
def _asks_for_task(message: Message) -> bool:
    return message.method == "tools/call" and "task" in message.params


# --- notifications --------------------------------------------------------------------

_LEVELS: Final = {
    "debug": "text",
    "info": {"object": {"nested": [1, 2]}},
    "notice": ["array"],
    "warning": 7,
    "error": None,
    "critical": True,
    "alert": "",
    "emergency": 1.5,
}
"""Level -> data of a log message."""


@undisturbed_case(
    case.robust,
    "C-D45.a",
    "log messages of all levels and changes of lists and resources are accepted",
    revisions=LEGACY,
    rules=("RES-13", "LOG-05"),
    sends="a log message of each level with data of each JSON type, changes of all "
    "lists, and an update of a resource without a subscription",
    why="a server that reports much ends the client's connection",
)
@before_first_answer
async def _send_notifications(exchange: Exchange) -> None:
    for level, data in _LEVELS.items():
        logger = {"logger": "check"} if level == "info" else {}
        params = {"level": level, "data": data, **logger}
        await exchange.notify("notifications/message", params)
    for what in ("tools", "resources", "prompts"):
        await exchange.notify(f"notifications/{what}/list_changed")
    params = {"uri": "check://never-subscribed"}
    await exchange.notify("notifications/resources/updated", params)
