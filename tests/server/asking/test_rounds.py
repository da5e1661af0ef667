"""A call of several rounds: what is kept, what counts as an answer, and for whom."""

import asyncio

import attrs
import pytest
from asking_rig import KEYS, Alone, Session, person, run
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwire.errors import InternalError, InvalidParams, LocalProtocolError
from mcpwire.server.asking.rounds import InputNeeded, begin, deciding, finish
from mcpwire.server.asking.state import MemorySingleUse, StateKeeper

pytestmark = pytest.mark.anyio

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


async def two_steps(ctx):
    first = await ctx.elicit("One?", FORM, key="one")
    second = await ctx.elicit("Two?", FORM, key="two")
    return [first.content["text"], second.content["text"]]


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


# --- what a round looks like


@pytest.mark.rule("MRTR-03", "MRTR-05")
async def test_a_question_without_an_answer_is_the_result():
    result = await Alone().send(greet)
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
async def test_questions_asked_together_go_out_together_each_with_its_own_key():
    async def handler(ctx):
        return await asyncio.gather(
            ctx.elicit("A", FORM),
            ctx.sample("B"),
            ctx.elicit("C", FORM, key="elicit-2"),
            ctx.elicit("D", FORM),
            ctx.roots(),
        )

    result = await Alone().send(handler)
    assert list(result["inputRequests"]) == [
        "elicit-1",
        "sample-1",
        "elicit-2",
        "elicit-3",
        "roots-1",
    ]


async def test_questions_asked_one_after_the_other_take_a_round_each():
    peer = Alone(person)
    assert await peer.call(two_steps) == ["One?", "Two?"]
    rounds = [list(result.get("inputRequests", ())) for result in peer.results]
    assert rounds == [["one"], ["two"], []]
    first, second, _ = peer.results
    assert first["requestState"] != second["requestState"]


async def test_what_was_asked_together_may_be_answered_apart():
    async def handler(ctx):
        answers = await asyncio.gather(
            ctx.elicit("A", FORM, key="a"), ctx.elicit("B", FORM, key="b")
        )
        return [answer.content["text"] for answer in answers]

    peer = Alone()
    first = await peer.send(handler)
    second = await peer.send(
        handler, requestState=first["requestState"], inputResponses={"b": YES}
    )
    assert list(second["inputRequests"]) == ["a"]
    third = await peer.send(
        handler, requestState=second["requestState"], inputResponses={"a": YES}
    )
    assert third == {"value": ["yes", "yes"]}


# --- which answers count


@pytest.mark.rule("MRTR-19")
@pytest.mark.case("F16")
@pytest.mark.parametrize("responses", [{}, {"other": YES}])
async def test_a_missing_answer_is_asked_for_again(responses):
    peer = Alone()
    first = await peer.send(greet)
    again = await peer.send(
        greet, requestState=first["requestState"], inputResponses=responses
    )
    assert again["inputRequests"] == first["inputRequests"]
    # The same without the state that every client has to send back.
    again = await peer.send(greet, inputResponses=responses)
    assert again["inputRequests"] == first["inputRequests"]


@pytest.mark.rule("MRTR-18")
async def test_answers_that_nobody_asked_for_are_ignored():
    peer = Alone()
    first = await peer.send(greet)
    responses = {"name": YES, "more": {"anything": 1}, "odd": 7}
    for state in ({"requestState": first["requestState"]}, {}):
        assert await peer.send(greet, inputResponses=responses, **state) == {
            "value": "yes"
        }


@pytest.mark.rule("MRTR-18")
async def test_an_answer_given_before_its_question_does_not_count():
    peer = Alone()
    first = await peer.send(two_steps)
    second = await peer.send(
        two_steps,
        requestState=first["requestState"],
        inputResponses={"one": YES, "two": YES},
    )
    assert list(second["inputRequests"]) == ["two"]


async def test_the_first_answer_to_a_question_counts():
    """What was done on its strength was done; it cannot be changed later."""
    peer = Alone()
    first = await peer.send(two_steps)
    second = await peer.send(
        two_steps, requestState=first["requestState"], inputResponses={"one": YES}
    )
    changed = {"action": "accept", "content": {"text": "no"}}
    third = await peer.send(
        two_steps,
        requestState=second["requestState"],
        inputResponses={"one": changed, "two": YES},
    )
    assert third == {"value": ["yes", "yes"]}


@pytest.mark.rule("MRTR-17")
@pytest.mark.parametrize("responses", [None, [], "name", 7, {"name": 12345}])
async def test_malformed_responses_are_an_error(responses):
    peer = Alone()
    first = await peer.send(greet)
    for state in ({"requestState": first["requestState"]}, {}):
        with pytest.raises(InvalidParams, match=r"params\.inputResponses"):
            await peer.send(greet, inputResponses=responses, **state)


async def test_an_answer_counts_only_for_the_text_that_was_asked(caplog):
    """Without a key the author chose: an accepted 'Delete A?' is no yes to 'B?'."""
    files = ["A"]

    async def handler(ctx):
        return (await ctx.elicit(f"Delete {files[0]}?", FORM)).accepted

    peer = Alone()
    first = await peer.send(handler)
    files[0] = "B"
    again = await peer.send(
        handler, requestState=first["requestState"], inputResponses={"elicit-1": YES}
    )
    assert again["inputRequests"]["elicit-1"]["params"]["message"] == "Delete B?"
    assert "a key=" in caplog.text
    assert await peer.send(
        handler, requestState=again["requestState"], inputResponses={"elicit-1": YES}
    ) == {"value": True}


async def test_without_its_state_a_counted_question_is_asked_again():
    async def handler(ctx):
        return (await ctx.elicit("Who?", FORM)).accepted

    result = await Alone().send(handler, inputResponses={"elicit-1": YES})
    assert list(result["inputRequests"]) == ["elicit-1"]


async def test_a_key_of_the_authors_stands_for_its_question_however_worded():
    times = iter(range(9))

    async def handler(ctx):
        answer = await ctx.elicit(f"Now is {next(times)}; go?", FORM, key="go")
        return answer.accepted

    peer = Alone(person)
    assert await peer.call(handler) is True
    assert len(peer.results) == 2


# --- the state


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
    keeper = StateKeeper(KEYS)
    first = await Alone(keeper=keeper, principal=ALICE).send(greet)
    answered = {"requestState": first["requestState"], "inputResponses": {"name": YES}}
    with pytest.raises(InvalidParams, match="requestState"):
        await Alone(keeper=keeper, **thief).send(greet, **answered)
    own = Alone(keeper=keeper, principal=ALICE)
    assert await own.send(greet, **answered) == {"value": "yes"}


@pytest.mark.rule("MRTR-09")
@pytest.mark.case("F16")
async def test_a_state_ends():
    clock = Clock()
    peer = Alone(keeper=StateKeeper(KEYS, lifetime=60.0, clock=clock))
    state = (await peer.send(greet))["requestState"]
    clock.now += 59.0
    assert await peer.send(greet, requestState=state, inputResponses={"name": YES})
    clock.now += 1.0
    with pytest.raises(InvalidParams, match="too old"):
        await peer.send(greet, requestState=state, inputResponses={"name": YES})


async def test_a_state_outlives_its_process_where_keys_were_given():
    old, new = b"o" * 32, b"n" * 32
    state = (await Alone(keeper=StateKeeper([old])).send(greet))["requestState"]
    answered = {"requestState": state, "inputResponses": {"name": YES}}
    rotated = Alone(keeper=StateKeeper([new, old]))
    assert await rotated.send(greet, **answered) == {"value": "yes"}
    for keys in ([new], []):
        with pytest.raises(InvalidParams):
            await Alone(keeper=StateKeeper(keys)).send(greet, **answered)


async def test_a_key_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="at least 16"):
        StateKeeper([b"short"])


@pytest.mark.rule("MRTR-10")
async def test_a_state_is_used_once_where_that_is_asked_for():
    keeper = StateKeeper(KEYS, single_use=MemorySingleUse())
    peer = Alone(keeper=keeper)
    state = (await peer.send(greet))["requestState"]
    answered = {"requestState": state, "inputResponses": {"name": YES}}
    assert await peer.send(greet, **answered) == {"value": "yes"}
    with pytest.raises(InvalidParams, match="was used before"):
        await peer.send(greet, **answered)


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


@pytest.mark.case("F16")
async def test_loops_side_by_side_do_not_meet():
    """Each loop has its own state: whose answers go in is whose come out."""
    keeper = StateKeeper(KEYS)
    peers = [Alone(person, keeper=keeper) for _ in range(20)]

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


# --- how long it may go on


@pytest.mark.rule("MRTR-21", "MRTR-11")
@pytest.mark.case("F16")
async def test_a_call_may_ask_so_often_and_no_more(caplog):
    async def handler(ctx):
        for number in range(9):
            await ctx.elicit(f"Round {number}?", FORM)

    peer = Alone(person, keeper=StateKeeper(KEYS, rounds=3))
    with pytest.raises(InternalError, match="asked for input 3 times"):
        await peer.call(handler)
    assert len(peer.asked) == 3
    assert "Limits.input_rounds" in caplog.text


@pytest.mark.rule("MRTR-11")
async def test_a_client_that_never_answers_is_asked_so_often_and_no_more():
    peer = Alone(keeper=StateKeeper(KEYS, rounds=3))
    result = await peer.send(greet)
    for _ in range(2):
        result = await peer.send(greet, requestState=result["requestState"])
    with pytest.raises(InternalError):
        await peer.send(greet, requestState=result["requestState"])


async def test_a_state_that_grows_too_long_ends_the_call(caplog):
    async def handler(ctx):
        await ctx.once("big", lambda: "x" * 2_000_000)
        await greet(ctx)

    with pytest.raises(InternalError, match="the handler failed"):
        await Alone().send(handler)
    assert "the state of a call must have at most" in caplog.text


@pytest.mark.rule("MRTR-02")
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
async def test_who_needs_input_without_having_asked_fails(method, caplog):
    async def handler(ctx):
        assert ctx.rounds is not None
        raise InputNeeded

    with pytest.raises(InternalError):
        await Alone(method=method).send(handler)

    async def at_once(ctx):
        raise InputNeeded

    with pytest.raises(InternalError):
        await Alone(method=method).send(at_once)
    assert "raised by hand" in caplog.text


# --- once

CLIENTS = pytest.mark.parametrize("client", [Session, Alone])


@CLIENTS
@pytest.mark.parametrize("kind", ["plain", "async", "thread"])
async def test_what_is_done_once_is_not_done_again_in_later_rounds(client, kind):
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

    peer = client(person)
    assert await peer.call(in_thread if kind == "thread" else handler) == [
        {"order": [7, None]},
        {"order": [7, None]},
    ]
    assert done == [1]


@CLIENTS
async def test_what_is_kept_is_nobody_elses_to_change(client):
    async def handler(ctx):
        (await ctx.once("list", lambda: [1])).append(2)
        return await ctx.once("list", lambda: None)

    assert await client(person).call(handler) == [1]


@CLIENTS
async def test_tasks_that_want_the_same_value_get_one(client):
    done = []

    async def act():
        done.append(1)
        await asyncio.sleep(0)
        return len(done)

    async def handler(ctx):
        return await asyncio.gather(*(ctx.once("n", act) for _ in range(3)))

    assert await client(person).call(handler) == [1, 1, 1]


@CLIENTS
async def test_what_failed_was_not_done(client):
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

    assert await client(person).call(handler) == "yes"


@CLIENTS
async def test_what_is_no_json_cannot_be_kept(client):
    async def handler(ctx):
        await ctx.once("n", lambda: {1, 2})

    with pytest.raises(LocalProtocolError):
        await client(person).call(handler)


async def test_a_question_inside_of_what_is_done_once_is_asked():
    async def act_with(ctx):
        return (await ctx.elicit("Who?", FORM)).content

    async def handler(ctx):
        return await ctx.once("who", lambda: act_with(ctx))

    assert await Alone(person).call(handler) == {"text": "Who?"}


# --- what ends a run


async def test_a_handler_that_catches_exceptions_does_not_catch_a_question():
    async def handler(ctx):
        try:
            return (await ctx.elicit("Who?", FORM)).content["text"]
        except Exception:  # noqa: BLE001 - what is shown not to happen
            return "caught"

    assert await Alone(person).call(handler) == "Who?"


async def test_of_a_group_a_real_failure_counts_before_a_question():
    async def fail():
        raise ValueError("broken")

    async def handler(ctx):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.elicit("Who?", FORM))
            group.create_task(fail())

    with pytest.raises(ValueError, match="broken"):
        await Alone(person).call(handler)


def test_of_groups_in_groups_the_first_counts():
    needed, other = InputNeeded("a"), InputNeeded("b")
    broken = ValueError("x")
    inner = BaseExceptionGroup("inner", [needed, other])
    assert deciding(BaseExceptionGroup("outer", [inner])) is needed
    assert deciding(BaseExceptionGroup("outer", [inner, broken])) is broken


async def test_what_a_plain_call_costs_is_no_rounds_at_all():
    async def handler(ctx):
        return ctx.request.rounds

    assert await Alone().call(handler) is None
    assert await Session().call(handler) is None


async def test_the_rounds_of_a_request_are_begun_once():
    peer = Alone()
    context = peer.context()
    begun = begin(context.request, peer.services.keeper)
    assert begin(context.request, peer.services.keeper) is begun
    assert context.rounds is begun


async def test_finishing_twice_gives_states_of_their_own():
    """Two copies of a request in flight do not share a nonce."""
    peer = Alone()
    context = peer.context()
    first = await run(greet, context)
    assert finish(context.request)["requestState"] != first["requestState"]


@given(
    st.dictionaries(st.text(max_size=5), st.none() | st.text() | st.lists(st.none()))
)
@settings(max_examples=40)
async def test_no_response_of_any_shape_gets_past_its_check(responses):
    peer = Alone()
    first = await peer.send(greet)
    if "name" in responses:
        responses["name"] = None
        with pytest.raises(InvalidParams):
            await peer.send(
                greet, requestState=first["requestState"], inputResponses=responses
            )
    else:
        again = await peer.send(
            greet, requestState=first["requestState"], inputResponses=responses
        )
        assert list(again["inputRequests"]) == ["name"]
