"""All conformance cases, by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.cases import (
    authorization,
    caching,
    cancellation,
    changes,
    client_requests,
    completions,
    concurrency,
    discovery,
    framing,
    fuzz,
    headers,
    http,
    hygiene,
    input_rounds,
    jsonrpc,
    legacy_sse,
    lifecycle,
    logging,
    meta,
    origin,
    paging,
    ping,
    progress,
    prompts,
    resources,
    schema,
    sequences,
    sessions,
    skills,
    streams,
    subscriptions,
    task_extension,
    tasks,
    tools,
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
    tools.FAMILY,
    resources.FAMILY,
    prompts.FAMILY,
    completions.FAMILY,
    paging.FAMILY,
    caching.FAMILY,
    changes.FAMILY,
    subscriptions.FAMILY,
    client_requests.FAMILY,
    input_rounds.FAMILY,
    tasks.FAMILY,
    task_extension.FAMILY,
    skills.FAMILY,
    meta.FAMILY,
    fuzz.FAMILY,
    hygiene.FAMILY,  # last: it closes the shared connection
)

CASES: Final[tuple[Case, ...]] = tuple(
    case for family in FAMILIES for case in family.cases
)
