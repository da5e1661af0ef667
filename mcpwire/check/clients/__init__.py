"""Conformance cases for clients: any client program, over stdio and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.cases import CASES as SERVER_CASES
from mcpwire.check.clients.cases import (
    authorization,
    client_requests,
    discovery,
    framing,
    http,
    items,
    jsonrpc,
    lifecycle,
    rounds,
    schema,
    sessions,
    stateless,
    streams,
    utilities,
)

if TYPE_CHECKING:
    from mcpwire.check.case import Case, Family

FAMILIES: Final[tuple[Family, ...]] = (
    lifecycle.FAMILY,
    jsonrpc.FAMILY,
    framing.FAMILY,
    utilities.FAMILY,
    http.FAMILY,
    sessions.FAMILY,
    streams.FAMILY,
    items.FAMILY,
    client_requests.FAMILY,
    schema.FAMILY,
    stateless.FAMILY,
    discovery.FAMILY,
    rounds.FAMILY,
    authorization.FAMILY,
)

CASES: Final[tuple[Case, ...]] = tuple(
    case for family in FAMILIES for case in family.cases
)
"""The cases for clients; their ids begin with ``C-``."""

ALL_CASES: Final = (*SERVER_CASES, *CASES)
