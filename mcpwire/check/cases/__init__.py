"""All cases, family by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.cases import (
    authorization,
    cancellation,
    concurrency,
    discovery,
    framing,
    headers,
    http,
    hygiene,
    jsonrpc,
    legacy_sse,
    lifecycle,
    logging,
    origin,
    ping,
    progress,
    schema,
    sequences,
    sessions,
    streams,
)

if TYPE_CHECKING:
    from mcpwire.check.case import Case, Family

__all__ = ["CASES", "FAMILIES"]

FAMILIES: Final[tuple[Family, ...]] = (
    jsonrpc.FAMILY,
    framing.FAMILY,
    lifecycle.FAMILY,
    discovery.FAMILY,
    ping.FAMILY,
    cancellation.FAMILY,
    progress.FAMILY,
    logging.FAMILY,
    sequences.FAMILY,
    http.FAMILY,
    headers.FAMILY,
    sessions.FAMILY,
    origin.FAMILY,
    streams.FAMILY,
    concurrency.FAMILY,
    legacy_sse.FAMILY,
    authorization.FAMILY,
    schema.FAMILY,
    hygiene.FAMILY,  # closes the shared connection: after all others
)

CASES: Final[tuple[Case, ...]] = tuple(
    case for family in FAMILIES for case in family.cases
)
