"""Calls of several rounds: kept values, input responses, limits, and request states."""

import asyncio

import attrs
import pytest
from clocks import Clock
from hypothesis import given
from hypothesis import strategies as st
from input_session import FORM, KEYS, YES, NoSession, Session, answer_all, greet, run

from mcpwire.errors import InternalError, InvalidParams, LocalProtocolError
from mcpwire.server.input_rounds import (
    InputNeeded,
    MemorySingleUse,
    StateSealer,
    deciding_error,
    finish_round,
    get_rounds,
)


async def two_steps(ctx):
    first = await ctx.elicit("One?", FORM, key="one")
    second = await ctx.elicit("Two?", FORM, key="two")
    return [first.content["text"], second.content["text"]]


@pytest.mark.rule("MRTR-03", "MRTR-05")
async def test_unanswered_elicitation_is_an_input_required_result():
    result = await NoSession().send(greet)
    state = result.pop("requestState")
    assert result == {
        "resultType": "input_required",
        "inputRequests": {
            "name": {
                "method": "elicitation/create",
                "params": {"message": "Who?", "requestedSchema": FORM},
            }
        },
    }
    assert type(state) is str


@pytest.mark.rule("MRTR-04")
async def test_concurrent_input_requests_have_distinct_keys():
    async def handler(ctx):
        return await asyncio.gather(
            ctx.elicit("A", FORM),
            ctx.sample("B"),
            ctx.elicit("C", FORM, key="elicit-2"),
            ctx.elicit("D", FORM),
            ctx.roots(),
        )

    result = await NoSession().send(handler)
    assert list(result["inputRequests"]) == [
        "elicit-1",
        "sample-1",
        "elicit-2",
        "elicit-3",
        "roots-1",
    ]


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_slightly_later_input_request_joins_the_round(turns):
    """A group stops its other tasks as soon as one needs input."""

    async def later(ctx):
        for _ in range(turns):
            await asyncio.sleep(0)
        await ctx.elicit("B", FORM)

    async def handler(ctx):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.elicit("A", FORM))
            group.create_task(later(ctx))

    result = await NoSession().send(handler)
    assert list(result["inputRequests"]) == ["elicit-1", "elicit-2"]


async def test_concurrent_requests_may_be_answered_in_separate_rounds():
    async def handler(ctx):
        answers = await asyncio.gather(
            ctx.elicit("A", FORM, key="a"), ctx.elicit("B", FORM, key="b")
        )
        return [answer.content["text"] for answer in answers]

    peer = NoSession()
    first = await peer.send(handler)
    second = await peer.retry(handler, first, {"b": YES})
    assert list(second["inputRequests"]) == ["a"]
    third = await peer.retry(handler, second, {"a": YES})
    assert third == {"value": ["yes", "yes"]}


@pytest.mark.rule("MRTR-19")
@pytest.mark.case("F16")
@pytest.mark.parametrize("responses", [{}, {"other": YES}])
async def test_missing_input_response_repeats_the_request(responses):
    peer = NoSession()
    first = await peer.send(greet)
    again = await peer.retry(greet, first, responses)
    assert again["inputRequests"] == first["inputRequests"]
    # The same without the request state.
    again = await peer.send(greet, inputResponses=responses)
    assert again["inputRequests"] == first["inputRequests"]


@pytest.mark.rule("MRTR-18")
async def test_input_responses_with_unknown_keys_are_ignored():
    peer = NoSession()
    first = await peer.send(greet)
    responses = {"name": YES, "more": {"anything": 1}, "odd": 7}
    for state in ({"requestState": first["requestState"]}, {}):
        assert await peer.send(greet, inputResponses=responses, **state) == {
            "value": "yes"
        }


@pytest.mark.rule("MRTR-18")
async def test_input_response_before_its_request_is_ignored():
    peer = NoSession()
    first = await peer.send(two_steps)
    second = await peer.retry(two_steps, first, {"one": YES, "two": YES})
    assert list(second["inputRequests"]) == ["two"]


async def test_first_response_to_an_input_request_is_kept():
    """The handler has acted on it; a later response cannot change it."""
    peer = NoSession()
    first = await peer.send(two_steps)
    second = await peer.retry(two_steps, first, {"one": YES})
    changed = {"action": "accept", "content": {"text": "no"}}
    third = await peer.retry(two_steps, second, {"one": changed, "two": YES})
    assert third == {"value": ["yes", "yes"]}


@pytest.mark.rule("MRTR-17")
@pytest.mark.parametrize("responses", [None, [], "name", 7, {"name": 12345}])
async def test_malformed_responses_are_an_error(responses):
    peer = NoSession()
    first = await peer.send(greet)
    for state in ({"requestState": first["requestState"]}, {}):
        with pytest.raises(InvalidParams, match=r"inputResponses.* must be an object"):
            await peer.send(greet, inputResponses=responses, **state)


async def test_response_is_valid_only_for_the_requested_message(caplog):
    """Without an explicit key, accepting 'Delete A?' does not accept 'Delete B?'."""
    files = ["A"]

    async def handler(ctx):
        return (await ctx.elicit(f"Delete {files[0]}?", FORM)).accepted

    peer = NoSession()
    first = await peer.send(handler)
    files[0] = "B"
    again = await peer.retry(handler, first, {"elicit-1": YES})
    assert again["inputRequests"]["elicit-1"]["params"]["message"] == "Delete B?"
    assert "a key=" in caplog.text
    assert await peer.retry(handler, again, {"elicit-1": YES}) == {"value": True}


async def test_response_without_the_state_repeats_the_request():
    async def handler(ctx):
        return (await ctx.elicit("Who?", FORM)).accepted

    result = await NoSession().send(handler, inputResponses={"elicit-1": YES})
    assert list(result["inputRequests"]) == ["elicit-1"]


async def test_explicit_key_matches_a_changed_message():
    times = iter(range(9))

    async def handler(ctx):
        answer = await ctx.elicit(f"Now is {next(times)}; go?", FORM, key="go")
        return answer.accepted

    peer = NoSession(answer_all)
    assert await peer.call(handler) is True
    assert len(peer.results) == 2


@pytest.mark.rule("MRTR-11")
async def test_round_limit_applies_to_a_client_that_never_answers():
    peer = NoSession(sealer=StateSealer(KEYS, rounds=3))
    result = await peer.send(greet)
    for _ in range(2):
        result = await peer.send(greet, requestState=result["requestState"])
    with pytest.raises(InternalError):
        await peer.send(greet, requestState=result["requestState"])


async def test_oversized_request_state_fails_the_call(caplog):
    async def handler(ctx):
        await ctx.once("big", lambda: "x" * 2_000_000)
        await greet(ctx)

    with pytest.raises(InternalError, match="the handler failed"):
        await NoSession().send(handler)
    assert "the state of a call must have at most" in caplog.text


@pytest.mark.rule("MRTR-02")
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
async def test_input_needed_raised_by_a_handler_is_an_error(method, caplog):
    async def handler(ctx):
        assert ctx.rounds is not None
        raise InputNeeded

    with pytest.raises(InternalError):
        await NoSession(method=method).send(handler)

    async def immediately(ctx):
        raise InputNeeded

    with pytest.raises(InternalError):
        await NoSession(method=method).send(immediately)
    assert "raised by hand" in caplog.text


async def test_except_exception_does_not_catch_input_needed():
    async def handler(ctx):
        try:
            return (await ctx.elicit("Who?", FORM)).content["text"]
        except Exception:  # noqa: BLE001 - must not catch it
            return "caught"

    assert await NoSession(answer_all).call(handler) == "Who?"


async def test_task_group_error_precedes_an_input_request():
    async def fail():
        raise ValueError("broken")

    async def handler(ctx):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.elicit("Who?", FORM))
            group.create_task(fail())

    with pytest.raises(ValueError, match="broken"):
        await NoSession(answer_all).call(handler)


def test_deciding_error_of_nested_groups_is_the_first():
    needed, other = InputNeeded("a"), InputNeeded("b")
    broken = ValueError("x")
    inner = BaseExceptionGroup("inner", [needed, other])
    assert deciding_error(BaseExceptionGroup("outer", [inner])) is needed
    assert deciding_error(BaseExceptionGroup("outer", [inner, broken])) is broken


async def test_call_without_input_creates_no_rounds():
    async def handler(ctx):
        return ctx.request.rounds

    assert await NoSession().call(handler) is None
    assert await Session().call(handler) is None


async def test_get_rounds_returns_one_object_per_request():
    peer = NoSession()
    context = peer.context()
    rounds = get_rounds(context.request, peer.services.sealer)
    assert get_rounds(context.request, peer.services.sealer) is rounds
    assert context.rounds is rounds


async def test_finishing_a_round_twice_gives_different_states():
    """Two copies of a request in flight do not share a nonce."""
    peer = NoSession()
    context = peer.context()
    first = await run(greet, context)
    assert finish_round(context.request)["requestState"] != first["requestState"]


@given(
    st.dictionaries(st.text(max_size=5), st.none() | st.text() | st.lists(st.none()))
)
async def test_random_input_responses_never_complete_the_call(responses):
    peer = NoSession()
    first = await peer.send(greet)
    if "name" in responses:
        responses["name"] = None
        with pytest.raises(InvalidParams):
            await peer.retry(greet, first, responses)
    else:
        again = await peer.retry(greet, first, responses)
        assert list(again["inputRequests"]) == ["name"]


CLIENTS = pytest.mark.parametrize("client", [Session, NoSession])


@CLIENTS
@pytest.mark.parametrize("kind", ["plain", "async", "thread"])
async def test_once_does_not_run_again_in_later_rounds(client, kind):
    done = []

    def act():
        done.append(1)
        return {"order": (7, None)}

    async def act_async():
        return act()

    async def handler(ctx):
        values = [await ctx.once("order", act if kind == "plain" else act_async)]
        await ctx.elicit("One?", FORM)
        await ctx.elicit("Two?", FORM)
        values.append(await ctx.once("order", act))
        return values

    def in_thread(ctx):
        values = [ctx.sync.once("order", act)]
        ctx.sync.elicit("One?", FORM)
        values.append(ctx.sync.once("order", act_async))
        return values

    peer = client(answer_all)
    assert await peer.call(in_thread if kind == "thread" else handler) == [
        {"order": [7, None]},
        {"order": [7, None]},
    ]
    assert done == [1]


@CLIENTS
async def test_kept_value_is_a_copy_of_the_result_and_returned_as_a_copy(client):
    data = [1]

    async def handler(ctx):
        (await ctx.once("list", lambda: data)).append(2)
        data.append(2)
        return await ctx.once("list", lambda: None)

    assert await client(answer_all).call(handler) == [1]


@CLIENTS
async def test_concurrent_once_calls_share_one_result(client):
    done = []

    async def act():
        done.append(1)
        await asyncio.sleep(0)
        return len(done)

    async def handler(ctx):
        return await asyncio.gather(*(ctx.once("n", act) for _ in range(3)))

    assert await client(answer_all).call(handler) == [1, 1, 1]


@CLIENTS
async def test_failed_once_function_runs_again(client):
    outcomes = iter([ValueError("no"), "yes"])

    def act():
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def handler(ctx):
        with pytest.raises(ValueError, match="no"):
            await ctx.once("n", act)
        return await ctx.once("n", act)

    assert await client(answer_all).call(handler) == "yes"


@CLIENTS
async def test_once_result_must_be_json(client):
    async def handler(ctx):
        await ctx.once("n", lambda: {1, 2})

    with pytest.raises(LocalProtocolError):
        await client(answer_all).call(handler)


async def test_elicitation_inside_once_is_sent():
    async def act_with(ctx):
        return (await ctx.elicit("Who?", FORM)).content

    async def handler(ctx):
        return await ctx.once("who", lambda: act_with(ctx))

    assert await NoSession(answer_all).call(handler) == {"text": "Who?"}


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
