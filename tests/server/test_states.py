"""Request states: binding to a principal, lifetime and single use."""

import asyncio

import attrs
import pytest
from clocks import Clock
from input_session import FORM, KEYS, YES, NoSession, answer_all, greet

from mcpwire.errors import InvalidParams
from mcpwire.server.input_rounds import MemorySingleUse, StateSealer


@attrs.frozen
class Owner:
    """The part of a principal that a state is bound to."""

    key: tuple[str | None, str | None, str | None]


ALICE = Owner(("https://issuer.example", "app", "alice"))
MALLORY = Owner(("https://issuer.example", "app", "mallory"))


@pytest.mark.rule("MRTR-08", "MRTR-07")
@pytest.mark.parametrize("change", [lambda s: s + "-TAMPERED", lambda s: s[:-1], None])
async def test_forged_state_is_refused_before_the_handler_runs(change):
    ran = []

    async def handler(ctx):
        ran.append(1)
        await greet(ctx)

    peer = NoSession()
    first = await peer.send(handler)
    state = None if change is None else change(first["requestState"])
    with pytest.raises(InvalidParams, match="requestState"):
        await peer.send(handler, requestState=state, inputResponses={"name": YES})
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
    ids=["another user", "no principal", "method", "arguments", "tool"],
)
async def test_state_is_bound_to_principal_method_and_params(thief):
    sealer = StateSealer(KEYS)
    first = await NoSession(sealer=sealer, principal=ALICE).send(greet)
    answered = {"requestState": first["requestState"], "inputResponses": {"name": YES}}
    with pytest.raises(InvalidParams, match="requestState"):
        await NoSession(sealer=sealer, **thief).send(greet, **answered)
    own = NoSession(sealer=sealer, principal=ALICE)
    assert await own.send(greet, **answered) == {"value": "yes"}


@pytest.mark.rule("MRTR-09")
@pytest.mark.case("F16")
async def test_state_expires():
    clock = Clock()
    peer = NoSession(sealer=StateSealer(KEYS, lifetime=60.0, clock=clock))
    state = (await peer.send(greet))["requestState"]
    clock.now += 59.0
    assert await peer.send(greet, requestState=state, inputResponses={"name": YES})
    clock.now += 1.0
    with pytest.raises(InvalidParams, match="too old"):
        await peer.send(greet, requestState=state, inputResponses={"name": YES})


async def test_short_sealing_key_is_refused():
    with pytest.raises(ValueError, match="at least 16"):
        StateSealer([b"short"])


@pytest.mark.rule("MRTR-10")
async def test_used_nonce_is_forgotten_after_it_expires():
    clock = Clock()
    used = MemorySingleUse(2, clock=clock)
    assert used.use("a", 1010)
    assert used.use("b", 1020)
    assert not used.use("a", 1010)
    # Full: every new nonce counts as used, until there is room.
    assert not used.use("c", 1030)
    clock.now = 1010.0
    assert used.use("c", 1030)
    assert not used.use("b", 1020)


@pytest.mark.attack("X12")
@pytest.mark.rule("MRTR-10")
def test_single_use_memory_is_shared_among_clients():
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
async def test_nonces_of_one_client_have_the_same_client_key():
    class RecordingSingleUse:
        def __init__(self):
            self.nonces = []

        def use(self, nonce, expires_at):
            self.nonces.append(nonce)
            return True

    recording = RecordingSingleUse()
    peer = NoSession(sealer=StateSealer(KEYS, single_use=recording))
    for _ in range(2):
        state = (await peer.send(greet))["requestState"]
        await peer.send(greet, requestState=state, inputResponses={"name": YES})
    (first, mark), (second, again) = (nonce.split(".") for nonce in recording.nonces)
    assert first != second
    assert mark == again != ""


@pytest.mark.case("F16")
async def test_concurrent_calls_do_not_share_state():
    """Each call has its own state and gets its own responses."""
    sealer = StateSealer(KEYS)
    peers = [NoSession(answer_all, sealer=sealer) for _ in range(20)]

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
