"""Pagination of the four lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family
from mcpwire.check.cases._exchange import Error, Request, Result, add_exchange_case
from mcpwire.check.cases._items import LISTS, MAX_PAGES, ListKind, fetch_pages

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("paging")

_FIRST_LETTERS: Final = "abcd"
_NEXT_LETTERS: Final = "efgh"


for _kind, _letter, _next_letter in zip(
    LISTS, _FIRST_LETTERS, _NEXT_LETTERS, strict=True
):
    case = FAMILY.with_defaults(needs=(_kind.capability,))

    async def cursor_is_stable(subject: Subject, kind: ListKind = _kind) -> None:
        first = await subject.request(kind.method, {})
        cursor = (first.result or {}).get("nextCursor")
        if not isinstance(cursor, str):
            subject.raise_absent("second page")
        second = await subject.request(kind.method, {"cursor": cursor})
        again = await subject.request(kind.method, {"cursor": cursor})
        items, items_again = [
            (each.result or {}).get(kind.key) for each in (second, again)
        ]
        subject.expect(
            items == items_again and items is not None, "the same page again", again
        )

    async def pages_end(subject: Subject, kind: ListKind = _kind) -> None:
        pages = await fetch_pages(subject, kind)
        if not pages or pages[0].cursor is None:
            subject.raise_absent("second page")
        cursors = [page.cursor for page in pages]
        duplicates = [c for c in cursors if c is not None and cursors.count(c) > 1]
        subject.expect(
            not duplicates, "a different cursor on each page", duplicates[:1]
        )
        ends = len(pages) < MAX_PAGES and pages[-1].cursor is None
        subject.expect(ends, "a last page", pages[-1].answer)
        names = [{str(i.get(kind.id_member)) for i in page.items} for page in pages]
        seen: set[str] = set()
        for page, page_names in zip(pages, names, strict=True):
            again = sorted(seen & page_names)
            subject.expect(not again, f"{again} on one page only", page.answer)
            seen |= page_names

    add_exchange_case(
        case.should,
        f"PAGE-06.{_letter}",
        f"{_kind.method} refuses an unknown cursor",
        source="server/utilities/pagination#error-handling",
        send=Request(_kind.method, {"cursor": "mcpwire-no-such-cursor"}),
        expect=Error(-32602),
        lenient=Result(),
        why="a client with an outdated cursor restarts the list without noticing",
    )
    case.should(
        f"PAGE-06.{_next_letter}",
        f"cursors of {_kind.method} are stable",
        source="server/utilities/pagination#implementation-guidelines",
        sends="the cursor of the second page, twice",
        expects="the same page each time",
        why="a client that repeats a request misses a page",
    )(cursor_is_stable)
    case.robust(
        f"F05.{_letter}",
        f"the pages of {_kind.method} come to an end and contain each item once",
        rules=("PAGE-05",),
        sends="requests for up to 50 pages, each by its cursor",
        expects="a different cursor each time, no item on two pages, and a last page",
        why="clients read the list forever, or show items twice",
    )(pages_end)

for _kind, _letter in zip(LISTS, _NEXT_LETTERS, strict=True):
    add_exchange_case(
        FAMILY.robust,
        f"F05.{_letter}",
        f"{_kind.method} refuses a cursor that is not a string",
        needs=(_kind.capability,),
        send=tuple(Request(_kind.method, {"cursor": c}) for c in (7, {"page": 2})),
        expect=Error(-32602, -32600),
        lenient=Result(),
        why="a client with an invalid cursor restarts the list without noticing",
    )
