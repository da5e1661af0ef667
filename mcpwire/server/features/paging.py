"""Cuts lists into pages, by cursors that stand change.

A cursor names the last item that was given and the first that was not, so what comes or
goes elsewhere in the list moves nothing. Only items that the client may see are looked
at: a cursor made up finds nothing else.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpwire.errors import InvalidParams
from mcpwire.wire.json import encode, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.server.features.table import Table
    from mcpwire.server.request import RequestContext

    T = TypeVar("T")

__all__ = ["check_page_size", "list_page", "page_of"]

_MAX_CURSOR: Final = 256 * 1024
"""Characters of a cursor; two keys and what encodes them are shorter."""


def check_page_size(size: int | None) -> int | None:
    """Return a page size; ``None``: everything is one page.

    Raises:
        ValueError: It is no integer above 0.
    """
    if size is not None and (type(size) is not int or size < 1):
        raise ValueError(f"page_size must be an integer above 0, got {size!r}")
    return size


def page_of(
    items: Sequence[T],
    cursor: object,
    *,
    size: int | None,
    name: str = "",
    key: Callable[[T], str] = attrgetter("key"),
) -> tuple[list[T], str | None]:
    """Return a page, and the cursor of the next where there is one.

    Args:
        items: All that the client may see, in order.
        cursor: What the client sent; ``None``: the first page.
        size: How many items a page has; ``None``: all of them.
        name: What the list is called, where its items have no `kind`; cursors of
            another list are foreign.
        key: Returns what tells an item from the others.

    Raises:
        InvalidParams: The cursor is none that was given out for this list, or what it
            names is gone.
    """
    start = 0
    if cursor is not None:
        start = _start(items, cursor, name or _kind(items), key)
    end = len(items) if size is None else start + size
    if end >= len(items):
        return list(items[start:]), None
    told = [name or _kind(items), key(items[end - 1]), key(items[end])]
    return list(items[start:end]), urlsafe_b64encode(encode(told)).decode()


def _kind(items: Sequence[Any]) -> str:
    return getattr(items[0], "kind", "") if items else ""


def _start(
    items: Sequence[T], cursor: object, name: str, key: Callable[[T], str]
) -> int:
    last, following = _read(cursor, name)
    keys = [key(item) for item in items]
    if last in keys:
        return keys.index(last) + 1
    if following in keys:
        return keys.index(following)
    raise _unknown()


def _read(cursor: object, name: str) -> tuple[str, str]:
    # 2026-07-28 server/utilities/pagination: an empty string is a cursor like others;
    # here it is none that was given out.
    if type(cursor) is not str or len(cursor) > _MAX_CURSOR:
        raise _unknown()
    try:
        told = loads(b64decode(cursor, b"-_", validate=True))
    except ValueError as error:  # no Base64, no JSON, no UTF-8
        raise _unknown() from error
    match told:
        case [kind, str(last), str(following)] if kind == name:
            return last, following
    raise _unknown()


def _unknown() -> InvalidParams:
    return InvalidParams("params.cursor is none of this list: begin without one")


def list_page(
    name: str,
    table: Table[Any],
    params: dict[str, Any],
    request: RequestContext,
    *,
    size: int | None,
) -> dict[str, Any]:
    """Return one page of a table as the result of its list method.

    Args:
        name: The member of the result that holds the page.
        table: What is listed.
        params: The request's.
        request: Who asks.
        size: How many one page has; ``None``: all of them.

    Raises:
        InvalidParams: The cursor is none of this list.
    """
    page, following = page_of(table.all(request), params.get("cursor"), size=size)
    result: dict[str, Any] = {name: [item.at(request.revision) for item in page]}
    if following is not None:
        result["nextCursor"] = following
    # 2026-07-28 server/utilities/caching: the same on all pages, and never more than
    # is so: what a principal sees may be nobody else's.
    if request.facts.principal is None and not table.depends_on_who_asks():
        result["cacheScope"] = "public"
    return result
