"""Caching hints of results: `ttlMs` and `cacheScope` (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import MODERN, Family
from mcpwire.check.cases._items import LISTS, ListKind, fetch_pages, is_integer

if TYPE_CHECKING:
    from mcpwire.check.subject import Answer, Subject

FAMILY: Final = Family("caching")
case = FAMILY.with_defaults(revisions=MODERN)


async def _request(subject: Subject, method: str) -> Answer:
    if method != "resources/read":
        return await subject.request(method, {})
    if not subject.facts.resources:
        subject.raise_absent("resource")
    uri = subject.facts.resources[0].get("uri")
    return await subject.request(method, {"uri": uri})


_METHODS: Final = (
    ("server/discover", ()),
    ("tools/list", ("tools",)),
    ("prompts/list", ("prompts",)),
    ("resources/list", ("resources",)),
    ("resources/templates/list", ("resources",)),
    ("resources/read", ("resource:",)),
)

for _letter, (_method, _needs) in zip("abcdef", _METHODS, strict=True):

    async def has_hints(subject: Subject, method: str = _method) -> None:
        answer = await _request(subject, method)
        result = answer.result
        if result is None or result.get("resultType", "complete") != "complete":
            subject.raise_absent("complete result")
        has_both = {"ttlMs", "cacheScope"} <= result.keys()
        subject.expect(has_both, "ttlMs and cacheScope", answer)
        is_scope = result["cacheScope"] in {"public", "private"}
        subject.expect(is_scope, "cacheScope public or private", answer)

    async def valid_ttl(subject: Subject, method: str = _method) -> None:
        answer = await _request(subject, method)
        ttl = (answer.result or {}).get("ttlMs")
        if ttl is None:
            subject.raise_absent("ttlMs")
        subject.expect(
            is_integer(ttl) and ttl >= 0, "ttlMs as a non-negative integer", answer
        )

    case.must(
        f"CACHE-01.{_letter}",
        f"results of {_method} have caching hints",
        source="server/utilities/caching#cacheable-results",
        needs=_needs,
        sends=_method,
        expects="ttlMs, and cacheScope public or private",
        why="clients do not know whether the result may be cached or shared",
    )(has_hints)
    case.must(
        f"CACHE-03.{_letter}",
        f"ttlMs of {_method} is a non-negative integer",
        source="server/utilities/caching#time-to-live-ttl-field",
        needs=_needs,
        sends=_method,
        expects="ttlMs as a non-negative integer",
        why="caches compute an expiry in the past, or fail",
    )(valid_ttl)


for _letter, _kind in zip("abcd", LISTS, strict=True):

    async def same_scope(subject: Subject, kind: ListKind = _kind) -> None:
        pages = await fetch_pages(subject, kind)
        if len(pages) < 2:
            subject.raise_absent("second page")
        first = pages[0].result.get("cacheScope")
        for page in pages[1:]:
            is_same = page.result.get("cacheScope") == first
            subject.expect(is_same, f"cacheScope {first} on each page", page.answer)

    case.must(
        f"CACHE-12.{_letter}",
        f"all pages of {_kind.method} have the same cacheScope",
        source="server/utilities/caching#interaction-with-pagination",
        needs=(_kind.capability,),
        sends="each page of the list",
        expects="the cacheScope of the first page",
        why="one user's page is shown to another user",
    )(same_scope)
