"""Which upstream servers a client chose by header fields, and what they are called.

::

    X-MCP-Servers: ["https://a.example/mcp", {"url": "https://b.example", "name": "b"}]
    X-MCP-Headers: {"https://a.example/mcp": {"Authorization": "Bearer ..."}}

A list without entries, or no field at all, is a session with no servers in it. Of two
entries with one URL the first counts. The servers stand in the order of their URLs, so
that whatever depends on the order is the same when a session is opened again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError
from mcpwire.gateway.session_ids import Chosen
from mcpwire.protocol.http_headers import check_headers
from mcpwire.wire.headers import SESSION_ID
from mcpwire.wire.json import loads
from mcpwire.wire.urls import Url, address_class, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

__all__ = ["name_servers", "read_servers"]

_PUBLIC: Final = frozenset({"public", "name"})
"""Kinds of hosts that anybody may choose."""

_FOREIGN: Final = re.compile(r"[^a-z0-9]+")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def read_servers(
    servers: str | None,
    headers: str | None,
    *,
    servers_field: str = "X-MCP-Servers",
    headers_field: str = "X-MCP-Headers",
    allow_private: bool = False,
    refuses: Callable[[str], object] | None = None,
    withheld: Collection[str] = (),
    maximum: int = 64,
) -> tuple[Chosen, ...]:
    """Return the servers that a request's fields choose."""
    urls = _read_list(servers, servers_field, maximum)
    by_url = _read_map(headers, headers_field)
    names: dict[str, str | None] = {}
    parsed: dict[str, Url] = {}
    for url, name in urls:
        if url in parsed:
            continue
        parsed[url] = _checked(url, servers_field, allow_private, refuses)
        names[url] = name
    ordered = sorted(parsed)
    called = name_servers([(parsed[url], names[url]) for url in ordered])
    return tuple(
        Chosen(
            url=url, name=name, headers=_fields(by_url, url, headers_field, withheld)
        )
        for url, name in zip(ordered, called, strict=True)
    )


def _read_list(
    text: str | None, field: str, maximum: int
) -> list[tuple[str, str | None]]:
    items = _read(text, field, [])
    if type(items) is not list:
        raise ValueError(f"{field}: expected an array of URLs")
    if len(items) > maximum:
        raise ValueError(f"{field}: there may be {maximum} servers at most")
    return [_entry(item, f"{field}[{index}]") for index, item in enumerate(items)]


def _entry(item: Any, where: str) -> tuple[str, str | None]:
    name = None
    if type(item) is dict:
        item, name = item.get("url"), item.get("name")
        if name is not None and (type(name) is not str or not _NAME.fullmatch(name)):
            raise ValueError(
                f"{where}.name: expected up to 64 of A-Z a-z 0-9 . _ and -"
            )
    if type(item) is not str:
        raise ValueError(f"{where}: expected a URL")
    return item, name


def _read_map(text: str | None, field: str) -> dict[str, Any]:
    by_url = _read(text, field, {})
    if type(by_url) is not dict:
        raise ValueError(f"{field}: expected an object of headers by URL")
    return by_url


def _read(text: str | None, field: str, empty: Any) -> Any:
    if text is None or not text.strip():
        return empty
    try:
        # The fields of a request are bytes; ASGI's readers take them for Latin-1.
        return loads(text.encode("latin-1"))
    except ValueError:
        raise ValueError(f"{field}: expected JSON in UTF-8") from None


def _checked(
    text: str,
    field: str,
    allow_private: bool,  # noqa: FBT001 - it is handed on by its only caller
    refuses: Callable[[str], object] | None,
) -> Url:
    try:
        url = parse_url(text)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
    if url.fragment is not None:
        raise ValueError(f"{field}: {mask_url(text)!r} has a fragment")
    kind = address_class(url.host)
    if kind not in _PUBLIC and not allow_private:
        raise ValueError(
            f"{field}: {mask_url(text)!r} is not public ({kind}) and not allowed here"
        )
    if refuses is not None and refuses(text):
        raise ValueError(f"{field}: {mask_url(text)!r} is on the deny-list")
    return url


def _fields(
    by_url: Mapping[str, Any], url: str, field: str, withheld: Collection[str]
) -> dict[str, str]:
    given = by_url.get(url, {})
    where = f"{field}[{mask_url(url)!r}]"
    if type(given) is not dict:
        raise ValueError(f"{where}: expected an object of texts")
    # A session that the server once gave somebody is not gone on with: see `sessions`.
    given = {k: v for k, v in given.items() if k.lower() != SESSION_ID.lower()}
    try:
        checked = check_headers(given, where)
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None
    return {name: value for name, value in checked if name not in withheld}


# What they are called...


def name_servers(servers: Iterable[tuple[Url, str | None]]) -> list[str]:
    """Return what each server is called, which depends on nothing but their URLs."""
    found = list(servers)
    hosts = Counter(_host(url) for url, name in found if name is None)
    names = []
    for url, given in found:
        name = given or _host(url)
        if given is None and hosts[name] > 1:
            name = _slug(f"{name}-{url.path}")
        names.append(name)
    return _told_apart(names, [name is not None for _, name in found])


def _told_apart(names: list[str], given: list[bool]) -> list[str]:
    # Given names come first to what they are called; of two that are the same, too,
    # the second one is counted.
    taken: set[str] = set()
    result = list(names)
    order = sorted(range(len(names)), key=lambda at: not given[at])
    for at in order:
        name, number = names[at], 2
        while name in taken:
            name = f"{names[at]}-{number}"
            number += 1
        taken.add(name)
        result[at] = name
    return result


def _host(url: Url) -> str:
    return _slug(url.authority)


def _slug(text: str) -> str:
    return _FOREIGN.sub("-", text.lower()).strip("-")[:64] or "server"
