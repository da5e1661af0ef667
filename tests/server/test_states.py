"""What a client keeps of a call: whose it is, how long and how often it counts."""

import asyncio

import attrs
import pytest
from asking_rig import KEYS, Alone, person
from clocks import Clock

from mcpwire.errors import InvalidParams
from mcpwire.server.input_rounds import MemorySingleUse, StateSealer

FORM = {"type": "object", "properties": {"text": {"type": "string"}}}

YES = {"action": "accept", "content": {"text": "yes"}}


@attrs.frozen
class Owner:
    """As much of a principal as a state is bound to."""

    key: tuple[str | None, str | None, str | None]


ALICE = Owner(("https://issuer.example", "app", "alice"))
MALLORY = Owner(("https://issuer.example", "app", "mallory"))


async def greet(ctx):
    name = await ctx.elicit("Who?", FORM, key="name")
    return name.content["text"]


@pytest.mark.rule("MRTR-08", "MRTR-07")
@pytest.mark.parametrize("change", [lambda s: s + "-TAMPERED", lambda s: s[:-1], None])
async def test_a_state_that_is_not_ours_is_refused_before_the_handler_runs(change):
    ran = []

    async def handler(ctx):
        ran.append(1)
        await greet(ctx)

    peer = Alone()
    first = await peer.send(handler)
    given = None if change is None else change(first["requestState"])
    with pytest.raises(InvalidParams, match="requestState"):
        await peer.send(handler, requestState=given, inputResponses={"name": YES})
    assert ran == [1]


@pytest.mark.rule("MRTR-09", "ELIC-17")
@pytest.mark.case("F16")
@pytest.mark.parametrize(
    "thief",
    [
        {"principal": MALLORY},
        {"principal": None},
        {"principal": ALICE, "method": "prompts/get"},
        {"principal": ALICE, "params": {"name": "tool", "arguments": {"n": 2}}},
        {"principal": ALICE, "params": {"name": "other", "arguments": {"n": 1}}},
    ],
    ids=["another user", "nobody", "method", "arguments", "tool"],
)
async def test_a_state_is_worth_nothing_elsewhere(thief):
    sealer = StateSealer(KEYS)
    first = await Alone(sealer=sealer, principal=ALICE).send(greet)
    answered = {"requestState": first["requestState"], "inputResponses": {"name": YES}}
    with pytest.raises(InvalidParams, match="requestState"):
        await Alone(sealer=sealer, **thief).send(greet, **answered)
    own = Alone(sealer=sealer, principal=ALICE)
    assert await own.send(greet, **answered) == {"value": "yes"}


@pytest.mark.rule("MRTR-09")
@pytest.mark.case("F16")
async def test_a_state_ends():
    clock = Clock()
    peer = Alone(sealer=StateSealer(KEYS, lifetime=60.0, clock=clock))
    state = (await peer.send(greet))["requestState"]
    clock.now += 59.0
    assert await peer.send(greet, requestState=state, inputResponses={"name": YES})
    clock.now += 1.0
    with pytest.raises(InvalidParams, match="too old"):
        await peer.send(greet, requestState=state, inputResponses={"name": YES})


async def test_a_key_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="at least 16"):
        StateSealer([b"short"])


@pytest.mark.rule("MRTR-10")
async def test_what_was_used_is_forgotten_when_it_would_be_refused_anyway():
    clock = Clock()
    used = MemorySingleUse(2, clock=clock)
    assert [used.use("a", 1010), used.use("b", 1020), used.use("a", 1010)] == [
        True,
        True,
        False,
    ]
    # Full: whatever comes counts as used, until there is room.
    assert not used.use("c", 1030)
    clock.now = 1010.0
    assert used.use("c", 1030)
    assert not used.use("b", 1020)


@pytest.mark.attack("X12")
@pytest.mark.rule("MRTR-10")
def test_one_client_leaves_room_for_the_used_states_of_others():
    clock = Clock()
    used = MemorySingleUse(10, clock=clock)
    assert [used.use(f"{n}.greedy", 1010) for n in range(8)] == [True] * 6 + [False] * 2
    assert [used.use(f"{n}.other", 1020) for n in range(4)] == [True] * 3 + [False]
    assert not used.use("0.greedy", 1010)
    clock.now = 1010.0
    assert used.use("6.greedy", 1030)
    assert not used.use("0.other", 1020)


@pytest.mark.attack("X12")
@pytest.mark.rule("MRTR-10")
async def test_a_state_is_used_for_the_client_that_it_was_given_to():
    class Noted:
        def __init__(self):
            self.nonces = []

        def use(self, nonce, expires_at):
            self.nonces.append(nonce)
            return True

    noted = Noted()
    peer = Alone(sealer=StateSealer(KEYS, single_use=noted))
    for _ in range(2):
        state = (await peer.send(greet))["requestState"]
        await peer.send(greet, requestState=state, inputResponses={"name": YES})
    (first, mark), (second, again) = (nonce.split(".") for nonce in noted.nonces)
    assert first != second
    assert mark == again != ""


@pytest.mark.case("F16")
async def test_loops_side_by_side_do_not_meet():
    """Each loop has its own state: whose answers go in is whose come out."""
    sealer = StateSealer(KEYS)
    peers = [Alone(person, sealer=sealer) for _ in range(20)]

    def handler_of(number):
        async def handler(ctx):
            kept = await ctx.once("number", lambda: number)
            answers = [
                (await ctx.elicit(f"{number}.{n}", FORM, key=f"q{n}")).content["text"]
                for n in range(3)
            ]
            return [kept, *answers]

        return handler

    results = await asyncio.gather(
        *(peer.call(handler_of(number)) for number, peer in enumerate(peers))
    )
    assert results == [[n, f"{n}.0", f"{n}.1", f"{n}.2"] for n in range(20)]
