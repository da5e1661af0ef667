"""`_meta`, icons, media types, annotations and titles in all messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family, Start, since
from mcpwire.check.cases._items import NAME, PREFIX, TIMESTAMP, base64_problem, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("meta")

SENDS_NOTHING: Final = "nothing; checks all messages of the connection"

_OFFICIAL: Final = "io.modelcontextprotocol"

case = FAMILY.with_defaults(start=Start.LAST, sends=SENDS_NOTHING)
newer = case.with_defaults(revisions=since("2025-06-18"))


def _objects(subject: Subject) -> Iterator[tuple[Message, dict[str, Any]]]:
    """Yield each protocol object of each message, with its message."""
    for message in subject.received:
        if isinstance(message.value, dict):
            for value in walk(message.value):
                yield message, value


def _keys(subject: Subject) -> Iterator[tuple[Message, str]]:
    """Yield each key of each `_meta`, with its message."""
    for message, value in _objects(subject):
        if isinstance(meta := value.get("_meta"), dict):
            for key in meta:
                yield message, key


def _prefixes(subject: Subject) -> list[tuple[Message, str]]:
    """Return the prefixes of keys of `_meta`, with their messages."""
    pairs = [
        (message, key.rpartition("/")[0])
        for message, key in _keys(subject)
        if "/" in key
    ]
    if not pairs:
        subject.raise_absent("_meta key with a prefix")
    return pairs


@newer.must(
    "META-01.a",
    "prefixes of _meta keys are labels separated by dots",
    source="basic/index#meta",
    expects="labels that start with a letter and end with a letter or digit",
    why="other implementations reject or drop the key",
)
async def prefixes(subject: Subject) -> None:
    for message, prefix in _prefixes(subject):
        fits = PREFIX.fullmatch(prefix)
        subject.expect(fits, f"a valid prefix, not {prefix!r}", message.raw)


@newer.must(
    "META-02.a",
    "names of _meta keys start and end with a letter or digit",
    source="basic/index#meta",
    expects="letters and digits, and -, _ and . between them",
    why="other implementations reject or drop the key",
)
async def names(subject: Subject) -> None:
    for message, key in _keys(subject):
        name = key.rpartition("/")[2]
        subject.expect(NAME.fullmatch(name), f"a valid name, not {name!r}", message.raw)
    subject.need_expectation("_meta")


@case.must(
    "META-03.a",
    "prefixes reserved for MCP are not used for other keys",
    source="basic/index#meta",
    revisions=since("2025-11-25"),
    expects="no prefix whose second label is modelcontextprotocol or mcp, except "
    "io.modelcontextprotocol",
    why="a later revision may give the key another meaning",
)
async def reserved(subject: Subject) -> None:
    for message, prefix in _prefixes(subject):
        labels = prefix.split(".")
        is_reserved = labels[1:2] in (["modelcontextprotocol"], ["mcp"])
        fits = not is_reserved or prefix == _OFFICIAL
        subject.expect(fits, f"no reserved prefix such as {prefix!r}", message.raw)


@FAMILY.robust(
    "F13.f",
    "unknown _meta keys are ignored",
    rules=("META-04",),
    sends="a request with vendor and trace keys in _meta, and one without",
    expects="a result for both, or an error for both",
    why="requests of clients with tracing fail",
)
async def unknown_keys(subject: Subject) -> None:
    meta = {
        "com.example/mcpwire": {"a": [None, 1]},
        "com.example.mcpwire/": "",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "tracestate": "vendor=1",
        "baggage": "user=mcpwire",
    }
    plain = await subject.request(subject.facts.barrier, {})
    answer = await subject.request(subject.facts.barrier, {"_meta": meta})
    fits = (answer.result is None) == (plain.result is None)
    subject.expect(fits, "the same outcome as without the keys", answer)


def _icons(subject: Subject) -> Iterator[tuple[Message, str]]:
    seen = 0
    for message, value in _objects(subject):
        icons = value.get("icons")
        for icon in icons if isinstance(icons, list) else ():
            if isinstance(icon, dict):
                seen += 1
                yield message, str(icon.get("src"))
    if not seen:
        subject.raise_absent("icon")


@case.robust(
    "F13.g",
    "icons use https:, http: or data: URLs",
    rules=("ICON-02",),
    revisions=since("2025-11-25"),
    expects="no other scheme, such as javascript: or file:",
    why="clients must reject such icons",
)
async def icon_schemes(subject: Subject) -> None:
    for message, src in _icons(subject):
        fits = src.lower().startswith(("https:", "http:", "data:"))
        subject.expect(fits, "https:, http: or data:", message.raw)


@case.robust(
    "F13.h",
    "data: icons are Base64 images",
    rules=("ICON-03",),
    revisions=since("2025-11-25"),
    expects="data:image/...;base64, and strict Base64",
    why="the icon is not shown",
)
async def icon_data(subject: Subject) -> None:
    for message, src in _icons(subject):
        if not src.lower().startswith("data:"):
            continue
        head, _, data = src.partition(",")
        fits = head.lower().startswith("data:image/") and head.endswith(";base64")
        subject.expect(fits, "data:image/...;base64", message.raw)
        problem = base64_problem(data)
        subject.expect(problem is None, f"strict Base64 ({problem})", message.raw)
    subject.need_expectation("data: icon")


@case.robust(
    "F13.i",
    "media types have the form type/subtype",
    expects="mimeType values such as text/plain; charset=utf-8",
    why="clients cannot tell the format",
)
async def media_types(subject: Subject) -> None:
    for message, value in _objects(subject):
        if "mimeType" in value:
            media_type = str(value["mimeType"])
            fits = re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+*-]+\s*(;.*)?", media_type)
            subject.expect(fits, f"a media type, not {media_type!r}", message.raw)
    subject.need_expectation("mimeType")


@newer.robust(
    "F13.j",
    "lastModified in annotations is an ISO 8601 time",
    expects="a time such as 2025-01-12T15:00:58Z",
    why="clients cannot sort by it",
)
async def last_modified(subject: Subject) -> None:
    for message, value in _objects(subject):
        annotations = value.get("annotations")
        if isinstance(annotations, dict) and "lastModified" in annotations:
            fits = TIMESTAMP.fullmatch(str(annotations["lastModified"]))
            subject.expect(fits, "an ISO 8601 time", message.raw)
    subject.need_expectation("lastModified")


@newer.robust(
    "F13.k",
    "titles are not empty",
    expects="no empty title",
    why="clients show an empty name",
)
async def titles(subject: Subject) -> None:
    for message, value in _objects(subject):
        if isinstance(value.get("title"), str):
            subject.expect(value["title"].strip(), "a nonempty title", message.raw)
    subject.need_expectation("title")
