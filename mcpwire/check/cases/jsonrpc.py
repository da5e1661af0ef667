"""JSON-RPC: ids, errors, batches, and what is no request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, Level, since
from mcpwire.check.cases._exchange import Error, Octets, Request, exchange

if TYPE_CHECKING:
    from mcpwire.check.subject import Subject

__all__ = ["FAMILY"]

FAMILY: Final = Family("jsonrpc")
case = FAMILY.case


@case(
    "RPC-07.a",
    Level.MUST,
    "an answer has the id of its request, of the same JSON type",
    source="basic/index#result-responses",
    sends="requests with the ids 2^53+1, 0, -1, a text and an empty text",
    expects="an answer with exactly that id for each",
    why="a client cannot match the answer, and its call hangs",
)
async def ids_come_back(subject: Subject) -> None:
    for id in (2**53 + 1, 0, -1, "mcpwire-\u00e9", ""):
        await subject.request(subject.facts.barrier, id=id)


exchange(
    FAMILY,
    "RPC-31.a",
    Level.MUST,
    "an unknown method is answered with -32601",
    source="schema#MethodNotFoundError",
    send=Request("mcpwire/no-such-method"),
    expect=Error(-32601),
    why="clients probe for features by this code",
)

exchange(
    FAMILY,
    "RPC-33.a",
    Level.SHOULD,
    "broken JSON is answered with -32700",
    source="basic/index#error-codes",
    revisions=since("2025-11-25"),
    send=Octets(b'{"jsonrpc":"2.0","id":1,"method":'),
    expect=Error(-32700),
    why="the sender waits for ever for an answer to a request that was cut",
)
