"""How long results may be kept, and by which clients (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import MODERN, Case, Family, Level, Run
from mcpwire.check.cases._items import LISTS, Listed, pages

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("caching")

SOURCE: Final = "server/utilities/caching#cacheable-results"


async def _ask(subject: Subject, method: str) -> Answer:
    if method != "resources/read":
        return await subject.request(method, {})
    if not subject.facts.resources:
        subject.absent("resource")
    uri = subject.facts.resources[0].get("uri")
    return await subject.request(method, {"uri": uri})


def _hinted(method: str) -> Run:
    async def run(subject: Subject) -> None:
        answer = await _ask(subject, method)
        result = answer.result
        if result is None or result.get("resultType", "complete") != "complete":
            subject.absent("complete result")
        has_both = {"ttlMs", "cacheScope"} <= result.keys()
        subject.expect(has_both, "ttlMs and cacheScope", answer)
        is_scope = result["cacheScope"] in {"public", "private"}
        subject.expect(is_scope, "cacheScope public or private", answer)

    return run


def _lasting(method: str) -> Run:
    async def run(subject: Subject) -> None:
        answer = await _ask(subject, method)
        ttl = (answer.result or {}).get("ttlMs")
        if ttl is None:
            subject.absent("ttlMs")
        is_count = isinstance(ttl, int) and not isinstance(ttl, bool) and ttl >= 0
        subject.expect(is_count, "ttlMs as an integer from 0 on", answer)

    return run


_METHODS: Final = (
    ("server/discover", ()),
    ("tools/list", ("tools",)),
    ("prompts/list", ("prompts",)),
    ("resources/list", ("resources",)),
    ("resources/templates/list", ("resources",)),
    ("resources/read", ("resource:",)),
)

for _letter, (_method, _needs) in zip("abcdef", _METHODS, strict=True):
    FAMILY.add(
        Case(
            id=f"CACHE-01.{_letter}",
            family=FAMILY.name,
            level=Level.MUST,
            title=f"results of {_method} say how long and by whom they may be kept",
            source=SOURCE,
            revisions=MODERN,
            needs=_needs,
            sends=_method,
            expects="ttlMs, and cacheScope public or private",
            why="clients do not know whether the result may be kept or shared",
            run=_hinted(_method),
        ),
        Case(
            id=f"CACHE-03.{_letter}",
            family=FAMILY.name,
            level=Level.MUST,
            title=f"ttlMs of {_method} is not below 0",
            source="server/utilities/caching#time-to-live-ttl-field",
            revisions=MODERN,
            needs=_needs,
            sends=_method,
            expects="ttlMs as an integer from 0 on",
            why="caches compute a moment in the past, or fail",
            run=_lasting(_method),
        ),
    )


def _same_scope(listed: Listed) -> Run:
    async def run(subject: Subject) -> None:
        found = await pages(subject, listed)
        if len(found) < 2:
            subject.absent("second page")
        first = found[0].result.get("cacheScope")
        for page in found[1:]:
            is_same = page.result.get("cacheScope") == first
            subject.expect(is_same, f"cacheScope {first} on each page", page.answer)

    return run


for _letter, _listed in zip("abcd", LISTS, strict=True):
    FAMILY.add(
        Case(
            id=f"CACHE-12.{_letter}",
            family=FAMILY.name,
            level=Level.MUST,
            title=f"all pages of {_listed.method} have the same cacheScope",
            source="server/utilities/caching#interaction-with-pagination",
            revisions=MODERN,
            needs=(_listed.capability,),
            sends="each page of the list",
            expects="the cacheScope of the first page",
            why="one user's page is shown to another user",
            run=_same_scope(_listed),
        )
    )
