"""Parser of the header fields by which a client chooses upstream servers.

::

    X-MCP-Servers: ["https://a.example/mcp", {"url": "https://b.example", "name": "b"}]
    X-MCP-Headers: {"https://a.example/mcp": {"Authorization": "Bearer ..."}}

Without the field, or with an empty list, a session has no servers. Of two entries with
one URL the first counts. The servers are sorted by URL, so that everything that depends
on their order is the same when a session is opened again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError
from mcpwire.gateway.session_ids import ChosenServer
from mcpwire.protocol.http_headers import check_headers
from mcpwire.wire.headers import SESSION_ID
from mcpwire.wire.json import loads
from mcpwire.wire.urls import Url, address_class, mask_url, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_PUBLIC: Final = frozenset({"public", "name"})
"""Classes of hosts that every client may choose."""

_NON_SLUG: Final = re.compile(r"[^a-z0-9]+")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def read_servers(
    servers: str | None,
    headers: str | None,
    *,
    servers_field: str = "X-MCP-Servers",
    headers_field: str = "X-MCP-Headers",
    allow_private: bool = False,
    refuses: Callable[[str], object] = lambda _: None,
    withheld: Collection[str] = (),
    maximum: int = 64,
) -> tuple[ChosenServer, ...]:
    """Parse the two header fields of a request; return the chosen servers.

    `refuses` returns whether a URL is on a deny-list. A client cannot set `withheld`
    fields (lower-case names) for one server: the gateway forwards them.

    Raises:
        ValueError: A field is invalid; names it, and shows no secret.
    """
    items = _parse_json(servers, servers_field, [])
    if type(items) is not list:
        raise ValueError(f"{servers_field}: expected an array of URLs")
    if len(items) > maximum:
        raise ValueError(f"{servers_field}: at most {maximum} servers are allowed")
    by_url = _parse_json(headers, headers_field, {})
    if type(by_url) is not dict:
        raise ValueError(f"{headers_field}: expected an object of headers by URL")
    chosen: dict[str, tuple[Url, str | None]] = {}
    for index, item in enumerate(items):
        text, name = _parse_entry(item, f"{servers_field}[{index}]")
        if text in chosen:
            continue
        label = f"{servers_field}: {mask_url(text)!r}"
        try:
            url = parse_url(text)
        except ValueError as error:
            raise ValueError(f"{servers_field}: {error}") from None
        if url.fragment is not None:
            raise ValueError(f"{label} has a fragment")
        kind = address_class(url.host)
        if kind not in _PUBLIC and not allow_private:
            raise ValueError(f"{label} is not public ({kind}) and not allowed here")
        if refuses(text):
            raise ValueError(f"{label} is on the deny-list")
        chosen[text] = url, name
    ordered = sorted(chosen)
    names = name_servers([chosen[text] for text in ordered])
    return tuple(
        ChosenServer(
            url=text,
            name=name,
            headers=_check_fields(by_url.get(text, {}), text, headers_field, withheld),
        )
        for text, name in zip(ordered, names, strict=True)
    )


def _parse_json(text: str | None, field: str, empty: Any) -> Any:
    if text is None or not text.strip():
        return empty
    try:
        # Header fields are bytes, which were decoded as Latin-1.
        return loads(text.encode("latin-1"))
    except ValueError:
        raise ValueError(f"{field}: expected JSON in UTF-8") from None


def _parse_entry(item: Any, location: str) -> tuple[str, str | None]:
    name = None
    if type(item) is dict:
        item, name = item.get("url"), item.get("name")
        if name is not None and (type(name) is not str or not _NAME.fullmatch(name)):
            raise ValueError(
                f"{location}.name: expected up to 64 of A-Z a-z 0-9 . _ and -"
            )
    if type(item) is not str:
        raise ValueError(f"{location}: expected a URL")
    return item, name


def _check_fields(
    fields: Any, url: str, field: str, withheld: Collection[str]
) -> dict[str, str]:
    location = f"{field}[{mask_url(url)!r}]"
    if type(fields) is not dict:
        raise ValueError(f"{location}: expected an object of texts")
    # A client must not use the id of another client's session at the server.
    fields = {k: v for k, v in fields.items() if k.lower() != SESSION_ID.lower()}
    try:
        checked = check_headers(fields, location)
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None
    return {name: value for name, value in checked if name not in withheld}


def name_servers(servers: Iterable[tuple[Url, str | None]]) -> list[str]:
    """Return a name for each server, which depends on URLs and given names only.

    A given name is kept. Other names are made from the host, and also from the path if
    several servers have the same host; equal names get a number. Queries hold secrets,
    and are never in a name.
    """
    entries = list(servers)
    hosts = Counter(_slug(url.authority) for url, name in entries if name is None)
    used: set[str] = set()
    names = [""] * len(entries)
    # Given names are assigned first, so that they stay unchanged; of two equal ones,
    # the second one gets a number, too.
    for index in sorted(
        range(len(entries)), key=lambda index: entries[index][1] is None
    ):
        url, given_name = entries[index]
        base = given_name or _slug(url.authority)
        if given_name is None and hosts[base] > 1:
            base = _slug(f"{base}-{url.path}")
        name, number = base, 2
        while name in used:
            name = f"{base}-{number}"
            number += 1
        used.add(name)
        names[index] = name
    return names


def _slug(text: str) -> str:
    return _NON_SLUG.sub("-", text.lower()).strip("-")[:64] or "server"
