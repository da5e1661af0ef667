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
from mcpwire.check.roles import arguments_for, call_of, is_named_like

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

ROOM_S: Final = 4.0  # seconds for the calls of one case
PAGES: Final = 50


@attrs.frozen
class Listed:
    """One kind of list: tools, resources, templates or prompts."""

    word: str
    """The attribute of `Facts` with its items."""
    capability: str
    method: str
    key: str
    name: str
    """The member that identifies an item."""
    one: str


TOOLS: Final = Listed("tools", "tools", "tools/list", "tools", "name", "tool")
RESOURCES: Final = Listed(
    "resources", "resources", "resources/list", "resources", "uri", "resource"
)
TEMPLATES: Final = Listed(
    "templates",
    "resources",
    "resources/templates/list",
    "resourceTemplates",
    "uriTemplate",
    "template",
)
PROMPTS: Final = Listed(
    "prompts", "prompts", "prompts/list", "prompts", "name", "prompt"
)
LISTS: Final = (TOOLS, RESOURCES, TEMPLATES, PROMPTS)


def declaring(
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


async def paged(
    subject: Subject, method: str, *, timeout: float | None = None
) -> AsyncIterator[Answer]:
    """Request a list page by page; yield each answer, an error as the last one."""
    cursor: str | None = None
    for _ in range(PAGES):
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


async def pages(
    subject: Subject, listed: Listed, *, timeout: float | None = None
) -> list[Page]:
    """Return the pages of a list up to the first error."""
    return [
        Page(answer, items_of(answer, listed.key), _next_cursor(answer))
        async for answer in paged(subject, listed.method, timeout=timeout)
        if answer.result is not None
    ]


async def names_of(
    subject: Subject, listed: Listed, *, timeout: float | None = None
) -> list[str]:
    """Return the names or URIs of the items of a list, in order."""
    found = await pages(subject, listed, timeout=timeout)
    return [str(item.get(listed.name)) for page in found for item in page.items]


async def _check_one_list(subject: Subject, listed: Listed) -> None:
    """Raise `Broken` if a list differs between this connection and another one.

    Lists may change with time: over HTTP both are read now, and over stdio the list of
    a new process is compared with the survey, which read a new one too. A process may
    answer `server/discover` before its lists are complete, hence the longer timeout.
    """
    patience = subject.bound_s + subject.start_s
    here = sorted(set(await names_of(subject, listed, timeout=patience)))
    if subject.http is not None:
        there = sorted(set(await names_of(await subject.another(), listed)))
    else:
        items = getattr(subject.facts, listed.word)
        there = sorted({str(item.get(listed.name)) for item in items})
    subject.expect(here == there, str(there), here)


def add_list_cases(family: Family, listed: Listed, ids: tuple[str, str, str]) -> None:
    """Add the common cases of a list of tools, resources or prompts."""
    word, source = listed.word, f"server/{listed.word}#capabilities"

    @family.must(
        ids[0],
        f"a server with {word} declares the capability",
        source=source,
        sends=f"{listed.method}, where the capability {word} is not declared",
        expects=f"an error, or no {word}",
        why="clients do not request what a server does not declare",
    )
    async def is_declared(subject: Subject) -> None:
        if subject.facts.declares(word):
            if not getattr(subject.facts, word):
                subject.absent(word)
            return
        answer = await subject.request(listed.method, {})
        found = (answer.result or {}).get(listed.key)
        subject.expect(not found, f"no {word} without the capability", answer)

    @family.must(
        ids[1],
        f"a server that declares {word} lists them",
        source=source,
        revisions=MODERN,
        needs=(word,),
        sends=listed.method,
        expects="a result",
        why=f"clients show no {word}",
    )
    async def is_listed(subject: Subject) -> None:
        answer = await subject.request(listed.method, {})
        subject.expect(answer.result is not None, "a result", answer)

    @family.must(
        ids[2],
        f"the list of {word} is the same on every connection",
        source=source,
        revisions=MODERN,
        needs=(f"{listed.one}:",),
        start=Start.OWN,
        is_quick=False,
        sends=f"{listed.method}, page by page, on two connections",
        expects=f"the same {word} on both",
        why="one client may use several connections",
    )
    async def is_the_same(subject: Subject) -> None:
        await _check_one_list(subject, listed)


def fit_tools(subject: Subject) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the callable tools that answer at once, with arguments for them."""
    found = []
    for tool in subject.facts.callable_tools:
        arguments = arguments_for(tool)
        execution = tool.get("execution")
        is_task = isinstance(execution, dict) and execution.get("taskSupport")
        is_other = any(is_named_like(tool, role) for role in ("slow", "ask", "change"))
        is_mapped = any(
            tool is subject.facts.roles.get(role) for role in ("slow", "ask", "change")
        )
        if (
            arguments is not None
            and not (is_other or is_mapped)
            and is_task != "required"
            and tool["name"] not in subject.facts.unfit
            and not (subject.http is not None and has_header(tool))
        ):
            found.append((tool, arguments))
    return found


def has_header(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool mirrors arguments in header fields."""
    return "x-mcp-header" in str(tool.get("inputSchema"))


async def call_all(subject: Subject) -> AsyncIterator[tuple[dict[str, Any], Answer]]:
    """Call up to eight of `fit_tools` in turn, for `ROOM_S`; yield tool and answer."""
    began = monotonic()
    for tool, arguments in fit_tools(subject)[:8]:
        if monotonic() - began > ROOM_S:
            return
        try:
            answer = await subject.request("tools/call", call_of(tool, arguments))
        except NoAnswer:
            subject.facts.unfit.add(tool["name"])
            continue
        yield tool, answer


_OPAQUE: Final = frozenset(
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
        for each in value:
            yield from walk(each)
    elif isinstance(value, dict):
        yield value
        for name, each in value.items():
            if name not in _OPAQUE and name != "_meta":
                yield from walk(each)


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
