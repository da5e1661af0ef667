"""`_meta`, icons, media types, annotations and titles in all messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from mcpwire.check.case import Family, Start, since
from mcpwire.check.cases._items import NAME, PREFIX, TIMESTAMP, base64_problem, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.check.subject import Message, Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("meta")

ALL: Final = "nothing by itself: it looks at all messages of the connection"

_OFFICIAL: Final = "io.modelcontextprotocol"

case = FAMILY.where(start=Start.LAST, sends=ALL)
newer = case.where(revisions=since("2025-06-18"))


def _objects(subject: Subject) -> Iterator[tuple[Message, dict[str, Any]]]:
    """Yield each protocol object of each message, with its message."""
    for message in subject.received:
        if isinstance(message.value, dict):
            for each in walk(message.value):
                yield message, each


def _keys(subject: Subject) -> Iterator[tuple[Message, str]]:
    """Yield each key of each `_meta`, with its message."""
    for message, each in _objects(subject):
        if isinstance(meta := each.get("_meta"), dict):
            for key in meta:
                yield message, key


def _prefixes(subject: Subject) -> list[tuple[Message, str]]:
    """Return the prefixes of keys of `_meta`, with their messages."""
    found = [
        (message, key.rpartition("/")[0])
        for message, key in _keys(subject)
        if "/" in key
    ]
    if not found:
        subject.absent("_meta with a prefix")
    return found


@newer.must(
    "META-01.a",
    "prefixes of keys in _meta are labels with dots between them",
    source="basic/index#meta",
    expects="labels that begin with a letter and end with a letter or a digit",
    why="other implementations refuse or lose the key",
)
async def prefixes(subject: Subject) -> None:
    for message, prefix in _prefixes(subject):
        fits = PREFIX.fullmatch(prefix)
        subject.expect(fits, f"a prefix, not {prefix!r}", message.raw)


@newer.must(
    "META-02.a",
    "names of keys in _meta begin and end with a letter or a digit",
    source="basic/index#meta",
    expects="letters and digits, with -, _ and . between them",
    why="other implementations refuse or lose the key",
)
async def names(subject: Subject) -> None:
    for message, key in _keys(subject):
        name = key.rpartition("/")[2]
        subject.expect(NAME.fullmatch(name), f"a name, not {name!r}", message.raw)
    subject.need_judged("_meta")


@case.must(
    "META-03.a",
    "prefixes that belong to MCP are not used for anything else",
    source="basic/index#meta",
    revisions=since("2025-11-25"),
    expects="no prefix whose second label is modelcontextprotocol or mcp, but "
    "io.modelcontextprotocol",
    why="a later revision gives the key another meaning",
)
async def reserved(subject: Subject) -> None:
    for message, prefix in _prefixes(subject):
        labels = prefix.split(".")
        is_reserved = labels[1:2] in (["modelcontextprotocol"], ["mcp"])
        fits = not is_reserved or prefix == _OFFICIAL
        subject.expect(fits, f"a prefix of its own, not {prefix!r}", message.raw)


@FAMILY.robust(
    "F13.f",
    "keys in _meta that the server does not know do no harm",
    rules=("META-04",),
    sends="a request with keys of a vendor and of traces in its _meta",
    expects="an answer as without them",
    why="requests of clients with traces fail",
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
    subject.expect(fits, "an answer as without them", answer)


def _icons(subject: Subject) -> Iterator[tuple[Message, str]]:
    seen = 0
    for message, each in _objects(subject):
        icons = each.get("icons")
        for icon in icons if isinstance(icons, list) else ():
            if isinstance(icon, dict):
                seen += 1
                yield message, str(icon.get("src"))
    if not seen:
        subject.absent("icon")


@case.robust(
    "F13.g",
    "icons are at https: or http:, or data: themselves",
    rules=("ICON-02",),
    revisions=since("2025-11-25"),
    expects="no icon of another scheme, such as javascript: or file:",
    why="clients must refuse such icons",
)
async def icon_schemes(subject: Subject) -> None:
    for message, src in _icons(subject):
        fits = src.lower().startswith(("https:", "http:", "data:"))
        subject.expect(fits, "https:, http: or data:", message.raw)


@case.robust(
    "F13.h",
    "icons that are data are Base64 of a picture",
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
        subject.expect(problem is None, f"Base64: {problem}", message.raw)
    subject.need_judged("icon that is data")


@case.robust(
    "F13.i",
    "media types are a type and a subtype",
    expects="each mimeType such as text/plain; charset=utf-8",
    why="clients cannot tell what they got",
)
async def media_types(subject: Subject) -> None:
    for message, each in _objects(subject):
        if "mimeType" in each:
            kind = str(each["mimeType"])
            fits = re.fullmatch(r"[\w!#$&^.+-]+/[\w!#$&^.+*-]+\s*(;.*)?", kind)
            subject.expect(fits, f"a media type, not {kind!r}", message.raw)
    subject.need_judged("mimeType")


@newer.robust(
    "F13.j",
    "lastModified in annotations is a time of ISO 8601",
    expects="a time such as 2025-01-12T15:00:58Z",
    why="clients cannot sort by it",
)
async def last_modified(subject: Subject) -> None:
    for message, each in _objects(subject):
        annotations = each.get("annotations")
        if isinstance(annotations, dict) and "lastModified" in annotations:
            fits = TIMESTAMP.fullmatch(str(annotations["lastModified"]))
            subject.expect(fits, "a time of ISO 8601", message.raw)
    subject.need_judged("lastModified")


@newer.robust(
    "F13.k",
    "names for people are no empty texts",
    expects="no title that is empty",
    why="the client shows nothing where a name should be",
)
async def titles(subject: Subject) -> None:
    for message, each in _objects(subject):
        if isinstance(each.get("title"), str):
            subject.expect(each["title"].strip(), "a title with text", message.raw)
    subject.need_judged("title")
