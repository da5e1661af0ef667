"""Two clients count from 0 and call at the same moments: nobody hears of the other.

`tests/soak/load.py` does ten thousand rounds of this over sockets. Here both calls of a
round are under way at once, tell their progress by the same token and are answered in
the other order, or the server asks both clients a question with the same id.
"""

import asyncio

import pytest
from by_hand import META, Hand, notice, request, session

import mcpwire

pytestmark = pytest.mark.attack("S10")

ROUNDS = 300


def server_of_pairs():
    """Return a server whose calls wait for each other; the later one goes first."""
    server = mcpwire.Server("pairs", "1")
    waiting = []

    @server.tool
    async def swap(secret: str, ctx: mcpwire.Context) -> str:
        waiting.append(asyncio.get_running_loop().create_future())
        mine, is_second = waiting[-1], len(waiting) == 2
        ctx.progress(1, message=secret)
        if is_second:
            first, _ = waiting
            waiting.clear()
            asyncio.get_running_loop().call_soon(first.set_result, None)
        else:
            await mine
        return secret

    @server.tool
    async def ask(secret: str, ctx: mcpwire.Context) -> str:
        answer = await ctx.elicit(secret, {"type": "object", "properties": {}})
        return f"{secret} {answer.action}"

    return server


def call(id, tool, secret, meta):
    params = {"name": tool, "arguments": {"secret": secret}}
    return request(id, "tools/call", params, {**meta, "progressToken": id})


def check(id, secret, told):
    """See that all of it belongs to that call: its progress, and then its answer."""
    progress, answer = told
    assert progress["params"] == {
        "progressToken": id,
        "progress": 1,
        "message": secret,
    }
    assert answer["id"] == id
    assert answer["result"]["content"] == [{"type": "text", "text": secret}]


@pytest.mark.parametrize("version", ["2025-11-25", None])
async def test_calls_of_one_id_on_two_streams_are_not_crossed(version):
    dispatcher = server_of_pairs().dispatcher
    hands = [Hand(dispatcher, version) for _ in range(2)]
    meta = {} if version else META
    for id in range(ROUNDS):
        for name, hand in zip("ab", hands, strict=True):
            hand.send(call(id, "swap", f"{name}{id}", meta))
        for name, hand in zip("ab", hands, strict=True):
            told = [await hand.next(), await hand.next()]
            check(id, f"{name}{id}", told)
    for hand in hands:
        await hand.connection.aclose()
        assert hand.rest() == []


async def test_questions_of_one_id_on_two_streams_are_not_crossed():
    dispatcher = server_of_pairs().dispatcher
    hands = []
    for _ in range(2):
        hand = Hand(dispatcher)
        opening = session()
        opening["capabilities"] = {"elicitation": {}}
        hand.send(request("init", "initialize", opening))
        hand.send(notice("notifications/initialized"))
        hand.take()
        hands.append(hand)
    for id in range(ROUNDS):
        for name, hand in zip("ab", hands, strict=True):
            hand.send(call(id, "ask", f"{name}{id}", {}))
        questions = [await hand.next() for hand in hands]
        assert questions[0]["id"] == questions[1]["id"]
        for name, question in zip("ab", questions, strict=True):
            assert question["params"]["message"] == f"{name}{id}"
        said = ["accept", "decline"]
        for action, question, hand in zip(said, questions, hands, strict=True):
            answer = {"action": action}
            if action == "accept":
                answer["content"] = {}
            hand.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        for name, action, hand in zip("ab", said, hands, strict=True):
            answer = await hand.next()
            assert answer["id"] == id
            (block,) = answer["result"]["content"]
            assert block["text"] == f"{name}{id} {action}"
    for hand in hands:
        await hand.connection.aclose()
