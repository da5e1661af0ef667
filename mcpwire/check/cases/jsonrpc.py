"""JSON-RPC: ids, errors, batches, and what is no request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.check.case import Family, Level, since

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


@case(
    "RPC-31.a",
    Level.MUST,
    "an unknown method is answered with -32601",
    source="schema#MethodNotFoundError",
    sends="a request with a method that no revision has",
    expects="an error -32601",
    why="clients probe for features by this code",
)
async def unknown_method(subject: Subject) -> None:
    answer = await subject.request("mcpwire/no-such-method")
    subject.expect_error(answer, [-32601])


@case(
    "RPC-33.a",
    Level.SHOULD,
    "broken JSON is answered with -32700",
    source="basic/index#error-codes",
    revisions=since("2025-11-25"),
    sends="a line, or a body, that is no JSON",
    expects="an error -32700",
    why="the sender waits for ever for an answer to a request that was cut",
)
async def broken_json(subject: Subject) -> None:
    reaction = await subject.provoke(b'{"jsonrpc":"2.0","id":1,"method":')
    subject.expect(not reaction.has_ended, "the server goes on", reaction)
    subject.expect_error(reaction, [-32700])
