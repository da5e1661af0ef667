"""Helpers for cases of features: the four lists, calls of all tools, JSON walks.

Calls of all tools omit tools that are slow, send requests or change lists, and stop at
a time limit: a tool that is slow on purpose is not a finding.
"""

from __future__ import annotations

import base64
import binascii
import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import MODERN, NoAnswer, Start
from mcpwire.check.roles import arguments_for, call_params, is_named_like

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from mcpwire.check.case import Family
    from mcpwire.check.subject import Answer, Message, Subject

CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
TIMESTAMP: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?"
)

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
PREFIX: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
NAME: Final = re.compile(_NAME)
PREFIXED: Final = re.compile(f"{PREFIX.pattern}/{_NAME}")
"""Pattern of a `_meta` key with a prefix; `PREFIX` and `NAME`: of its parts."""

CALLS_TIME_LIMIT_S: Final = 4.0  # seconds for the calls of one case
MAX_PAGES: Final = 50


@attrs.frozen
class ListKind:
    """One kind of list: tools, resources, templates or prompts."""

    plural: str
    """The attribute of `Facts` with its items."""
    capability: str
    method: str
    key: str
    id_member: str
    """The member that identifies an item."""
    singular: str


TOOLS: Final = ListKind("tools", "tools", "tools/list", "tools", "name", "tool")
RESOURCES: Final = ListKind(
    "resources", "resources", "resources/list", "resources", "uri", "resource"
)
TEMPLATES: Final = ListKind(
    "templates",
    "resources",
    "resources/templates/list",
    "resourceTemplates",
    "uriTemplate",
    "template",
)
PROMPTS: Final = ListKind(
    "prompts", "prompts", "prompts/list", "prompts", "name", "prompt"
)
LISTS: Final = (TOOLS, RESOURCES, TEMPLATES, PROMPTS)


def with_capabilities(
    capabilities: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return params of a 2026-07-28 request that declare client capabilities."""
    return {**(params or {}), "_meta": {CAPABILITIES: dict(capabilities)}}


@attrs.frozen
class Page:
    """One page of a list."""

    answer: Answer
    items: list[dict[str, Any]]
    cursor: str | None
    """The cursor of the next page."""

    @property
    def result(self) -> dict[str, Any]:
        """The result with the page; empty for an error."""
        return self.answer.result or {}


async def request_pages(
    subject: Subject, method: str, *, timeout: float | None = None
) -> AsyncIterator[Answer]:
    """Request a list page by page; yield each answer, an error as the last one."""
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = {} if cursor is None else {"cursor": cursor}
        answer = await subject.request(method, params, timeout=timeout)
        yield answer
        cursor = _next_cursor(answer)
        if cursor is None:
            return


def items_of(answer: Answer, key: str) -> list[dict[str, Any]]:
    """Return the items of a page that are objects."""
    items = (answer.result or {}).get(key)
    return [e for e in items if isinstance(e, dict)] if isinstance(items, list) else []


def _next_cursor(answer: Answer) -> str | None:
    cursor = (answer.result or {}).get("nextCursor")
    return cursor if isinstance(cursor, str) else None


async def fetch_pages(
    subject: Subject, kind: ListKind, *, timeout: float | None = None
) -> list[Page]:
    """Return the pages of a list up to the first error."""
    return [
        Page(answer, items_of(answer, kind.key), _next_cursor(answer))
        async for answer in request_pages(subject, kind.method, timeout=timeout)
        if answer.result is not None
    ]


async def fetch_names(
    subject: Subject, kind: ListKind, *, timeout: float | None = None
) -> list[str]:
    """Return the names or URIs of the items of a list, in order."""
    pages = await fetch_pages(subject, kind, timeout=timeout)
    return [str(item.get(kind.id_member)) for page in pages for item in page.items]


async def _check_same_list(subject: Subject, kind: ListKind) -> None:
    """Raise `Broken` if a list differs between this connection and another one.

    Lists may change with time: over HTTP both are read now, and over stdio the list of
    a new process is compared with the survey, which read a new one too. A process may
    answer `server/discover` before its lists are complete, hence the longer timeout.
    """
    timeout = subject.bound_s + subject.start_s
    names = sorted(set(await fetch_names(subject, kind, timeout=timeout)))
    if subject.http is not None:
        other_names = sorted(set(await fetch_names(await subject.open_another(), kind)))
    else:
        items = getattr(subject.facts, kind.plural)
        other_names = sorted({str(item.get(kind.id_member)) for item in items})
    subject.expect(names == other_names, str(other_names), names)


def add_list_cases(family: Family, kind: ListKind, ids: tuple[str, str, str]) -> None:
    """Add the common cases of a list of tools, resources or prompts."""
    plural, source = kind.plural, f"server/{kind.plural}#capabilities"

    @family.must(
        ids[0],
        f"a server with {plural} declares the capability",
        source=source,
        sends=f"{kind.method}, where the capability {plural} is not declared",
        expects=f"an error, or no {plural}",
        why="clients do not request what a server does not declare",
    )
    async def check_declared(subject: Subject) -> None:
        if subject.facts.declares(plural):
            if not getattr(subject.facts, plural):
                subject.raise_absent(plural)
            return
        answer = await subject.request(kind.method, {})
        items = (answer.result or {}).get(kind.key)
        subject.expect(not items, f"no {plural} without the capability", answer)

    @family.must(
        ids[1],
        f"a server that declares {plural} lists them",
        source=source,
        revisions=MODERN,
        needs=(plural,),
        sends=kind.method,
        expects="a result",
        why=f"clients show no {plural}",
    )
    async def check_listed(subject: Subject) -> None:
        answer = await subject.request(kind.method, {})
        subject.expect(answer.result is not None, "a result", answer)

    @family.must(
        ids[2],
        f"the list of {plural} is the same on every connection",
        source=source,
        revisions=MODERN,
        needs=(f"{kind.singular}:",),
        start=Start.OWN,
        is_quick=False,
        sends=f"{kind.method}, page by page, on two connections",
        expects=f"the same {plural} on both",
        why="one client may use several connections",
    )
    async def check_same(subject: Subject) -> None:
        await _check_same_list(subject, kind)


def quick_tools(subject: Subject) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the callable tools that answer at once, with arguments for them."""
    tools = []
    for tool in subject.facts.callable_tools:
        arguments = arguments_for(tool)
        execution = tool.get("execution")
        task_support = isinstance(execution, dict) and execution.get("taskSupport")
        is_named = any(is_named_like(tool, role) for role in ("slow", "ask", "change"))
        is_mapped = any(
            tool is subject.facts.roles.get(role) for role in ("slow", "ask", "change")
        )
        if (
            arguments is not None
            and not (is_named or is_mapped)
            and task_support != "required"
            and tool["name"] not in subject.facts.slow_items
            and not (subject.http is not None and has_header(tool))
        ):
            tools.append((tool, arguments))
    return tools


def has_header(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool mirrors arguments in header fields."""
    return "x-mcp-header" in str(tool.get("inputSchema"))


async def call_tools(subject: Subject) -> AsyncIterator[tuple[dict[str, Any], Answer]]:
    """Call up to eight of `quick_tools` for the time limit; yield tool and answer."""
    began = monotonic()
    for tool, arguments in quick_tools(subject)[:8]:
        if monotonic() - began > CALLS_TIME_LIMIT_S:
            return
        try:
            answer = await subject.request("tools/call", call_params(tool, arguments))
        except NoAnswer:
            subject.facts.slow_items.add(tool["name"])
            continue
        yield tool, answer


def is_integer(value: object) -> bool:
    """Return whether a value is an integer to JSON Schema, such as 3 and 3.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value % 1 == 0


_OPAQUE_MEMBERS: Final = frozenset(
    {
        "arguments",
        "data",
        "experimental",
        "extensions",
        "inputSchema",
        "outputSchema",
        "requestedSchema",
        "structuredContent",
    }
)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a message, except in opaque members and `_meta`."""
    if isinstance(value, list):
        for member in value:
            yield from walk(member)
    elif isinstance(value, dict):
        yield value
        for name, member in value.items():
            if name not in _OPAQUE_MEMBERS and name != "_meta":
                yield from walk(member)


def results(subject: Subject) -> Iterator[tuple[str, Message, dict[str, Any]]]:
    """Yield the method, message and result of all answers received."""
    for message in subject.received:
        if message.is_answer and isinstance(
            result := message.value.get("result"), dict
        ):
            method = subject.method_of(message)
            if method is not None:
                yield method, message, result


def expect_base64(subject: Subject, value: object, answer: Answer) -> None:
    """Raise `Broken` unless a value is strict Base64."""
    problem = base64_problem(value)
    subject.expect(problem is None, f"strict Base64 ({problem})", answer)


def media_in(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the image and audio blocks in the content of a result."""
    return (e for e in walk(content) if e.get("type") in {"image", "audio"})


def base64_problem(value: object) -> str | None:
    """Return why a value is not strict Base64; ``None``: it is."""
    if not isinstance(value, str):
        return "it is not a string"
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        return str(error)
    return None
