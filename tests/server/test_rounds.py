"""A call of several rounds: what is kept, what counts as an answer, and for whom."""

import asyncio

import pytest
from asking_rig import KEYS, Alone, Session, person, run
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InternalError, InvalidParams
from mcpwire.server.input_rounds import (
    InputNeeded,
    StateSealer,
    deciding_error,
    finish_round,
    get_rounds,
)

FORM = {"type": "object", "properties": {"text": {"type": "string"}}}

YES = {"action": "accept", "content": {"text": "yes"}}


async def greet(ctx):
    name = await ctx.elicit("Who?", FORM, key="name")
    return name.content["text"]


async def two_steps(ctx):
    first = await ctx.elicit("One?", FORM, key="one")
    second = await ctx.elicit("Two?", FORM, key="two")
    return [first.content["text"], second.content["text"]]


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


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_question_that_comes_a_little_later_goes_out_with_the_others(turns):
    """A group stops its other tasks as soon as one needs input."""

    async def later(ctx):
        for _ in range(turns):
            await asyncio.sleep(0)
        await ctx.elicit("B", FORM)

    async def handler(ctx):
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.elicit("A", FORM))
            group.create_task(later(ctx))

    result = await Alone().send(handler)
    assert list(result["inputRequests"]) == ["elicit-1", "elicit-2"]


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
    second = await peer.go_on(handler, first, {"b": YES})
    assert list(second["inputRequests"]) == ["a"]
    third = await peer.go_on(handler, second, {"a": YES})
    assert third == {"value": ["yes", "yes"]}


# --- which answers count


@pytest.mark.rule("MRTR-19")
@pytest.mark.case("F16")
@pytest.mark.parametrize("responses", [{}, {"other": YES}])
async def test_a_missing_answer_is_asked_for_again(responses):
    peer = Alone()
    first = await peer.send(greet)
    again = await peer.go_on(greet, first, responses)
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
    second = await peer.go_on(two_steps, first, {"one": YES, "two": YES})
    assert list(second["inputRequests"]) == ["two"]


async def test_the_first_answer_to_a_question_counts():
    """What was done on its strength was done; it cannot be changed later."""
    peer = Alone()
    first = await peer.send(two_steps)
    second = await peer.go_on(two_steps, first, {"one": YES})
    changed = {"action": "accept", "content": {"text": "no"}}
    third = await peer.go_on(two_steps, second, {"one": changed, "two": YES})
    assert third == {"value": ["yes", "yes"]}


@pytest.mark.rule("MRTR-17")
@pytest.mark.parametrize("responses", [None, [], "name", 7, {"name": 12345}])
async def test_malformed_responses_are_an_error(responses):
    peer = Alone()
    first = await peer.send(greet)
    for state in ({"requestState": first["requestState"]}, {}):
        with pytest.raises(InvalidParams, match=r"inputResponses.* must be an object"):
            await peer.send(greet, inputResponses=responses, **state)


async def test_an_answer_counts_only_for_the_text_that_was_asked(caplog):
    """Without a key the author chose: an accepted 'Delete A?' is no yes to 'B?'."""
    files = ["A"]

    async def handler(ctx):
        return (await ctx.elicit(f"Delete {files[0]}?", FORM)).accepted

    peer = Alone()
    first = await peer.send(handler)
    files[0] = "B"
    again = await peer.go_on(handler, first, {"elicit-1": YES})
    assert again["inputRequests"]["elicit-1"]["params"]["message"] == "Delete B?"
    assert "a key=" in caplog.text
    assert await peer.go_on(handler, again, {"elicit-1": YES}) == {"value": True}


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


# --- how long it may go on


@pytest.mark.rule("MRTR-21", "MRTR-11")
@pytest.mark.case("F16")
async def test_a_call_may_ask_so_often_and_no_more(caplog):
    async def handler(ctx):
        for number in range(9):
            await ctx.elicit(f"Round {number}?", FORM)

    peer = Alone(person, sealer=StateSealer(KEYS, rounds=3))
    with pytest.raises(InternalError, match="asked for input 3 times"):
        await peer.call(handler)
    assert len(peer.asked) == 3
    assert "Limits.input_rounds" in caplog.text


@pytest.mark.rule("MRTR-11")
async def test_a_client_that_never_answers_is_asked_so_often_and_no_more():
    peer = Alone(sealer=StateSealer(KEYS, rounds=3))
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
    assert deciding_error(BaseExceptionGroup("outer", [inner])) is needed
    assert deciding_error(BaseExceptionGroup("outer", [inner, broken])) is broken


async def test_what_a_plain_call_costs_is_no_rounds_at_all():
    async def handler(ctx):
        return ctx.request.rounds

    assert await Alone().call(handler) is None
    assert await Session().call(handler) is None


async def test_the_rounds_of_a_request_are_begun_once():
    peer = Alone()
    context = peer.context()
    begun = get_rounds(context.request, peer.services.sealer)
    assert get_rounds(context.request, peer.services.sealer) is begun
    assert context.rounds is begun


async def test_finishing_twice_gives_states_of_their_own():
    """Two copies of a request in flight do not share a nonce."""
    peer = Alone()
    context = peer.context()
    first = await run(greet, context)
    assert finish_round(context.request)["requestState"] != first["requestState"]


@given(
    st.dictionaries(st.text(max_size=5), st.none() | st.text() | st.lists(st.none()))
)
async def test_no_response_of_any_shape_gets_past_its_check(responses):
    peer = Alone()
    first = await peer.send(greet)
    if "name" in responses:
        responses["name"] = None
        with pytest.raises(InvalidParams):
            await peer.go_on(greet, first, responses)
    else:
        again = await peer.go_on(greet, first, responses)
        assert list(again["inputRequests"]) == ["name"]
