"""Pagination of the four lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family
from mcpwire.check.cases._exchange import Error, Request, Result, exchange
from mcpwire.check.cases._items import LISTS, PAGES, Listed, pages

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

FAMILY: Final = Family("paging")

_FIRST_LETTERS: Final = "abcd"
_NEXT_LETTERS: Final = "efgh"


for _listed, _letter, _next in zip(LISTS, _FIRST_LETTERS, _NEXT_LETTERS, strict=True):
    case = FAMILY.where(needs=(_listed.capability,))

    async def stable(subject: Subject, listed: Listed = _listed) -> None:
        first = await subject.request(listed.method, {})
        cursor = (first.result or {}).get("nextCursor")
        if not isinstance(cursor, str):
            subject.absent("second page")
        second = await subject.request(listed.method, {"cursor": cursor})
        again = await subject.request(listed.method, {"cursor": cursor})
        one, two = [(each.result or {}).get(listed.key) for each in (second, again)]
        subject.expect(one == two and one is not None, "the same page again", again)

    async def walks(subject: Subject, listed: Listed = _listed) -> None:
        found = await pages(subject, listed)
        if not found or found[0].cursor is None:
            subject.absent("second page")
        cursors = [page.cursor for page in found]
        twice = [c for c in cursors if c is not None and cursors.count(c) > 1]
        subject.expect(not twice, "a different cursor on each page", twice[:1])
        ends = len(found) < PAGES and found[-1].cursor is None
        subject.expect(ends, "a last page", found[-1].answer)
        names = [{str(i.get(listed.name)) for i in page.items} for page in found]
        seen: set[str] = set()
        for page, ones in zip(found, names, strict=True):
            again = sorted(seen & ones)
            subject.expect(not again, f"{again} on one page only", page.answer)
            seen |= ones

    exchange(
        case.should,
        f"PAGE-06.{_letter}",
        f"{_listed.method} refuses an unknown cursor",
        source="server/utilities/pagination#error-handling",
        send=Request(_listed.method, {"cursor": "mcpwire-no-such-cursor"}),
        expect=Error(-32602),
        lenient=Result(),
        why="a client with an outdated cursor restarts the list unnoticed",
    )
    case.should(
        f"PAGE-06.{_next}",
        f"cursors of {_listed.method} are stable",
        source="server/utilities/pagination#implementation-guidelines",
        sends="the cursor of the second page, twice",
        expects="the same page each time",
        why="a client that repeats a request misses a page",
    )(stable)
    case.robust(
        f"F05.{_letter}",
        f"the pages of {_listed.method} end and have each item once",
        rules=("PAGE-05",),
        sends="requests for each page by its cursor, 50 at most",
        expects="a different cursor each time, no item on two pages, and a last page",
        why="clients read the list forever, or show items twice",
    )(walks)

for _listed, _letter in zip(LISTS, _NEXT_LETTERS, strict=True):
    exchange(
        FAMILY.robust,
        f"F05.{_letter}",
        f"{_listed.method} refuses a cursor that is not a string",
        needs=(_listed.capability,),
        send=tuple(Request(_listed.method, {"cursor": c}) for c in (7, {"page": 2})),
        expect=Error(-32602, -32600),
        lenient=Result(),
        why="a client with an invalid cursor restarts the list unnoticed",
    )
