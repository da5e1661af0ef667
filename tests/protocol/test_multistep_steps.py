"""The steps, and the loop that every shell drives them with."""

import asyncio

import pytest

from mcpwire.protocol.multistep import Ask, Call, Open, Sleep


def operation():
    """Take one of each step; a refused call is tried once more on a new channel."""
    answer = yield Ask("who", "elicitation/create", {"message": "Who?"})
    try:
        found = yield Call("tools/call", {"name": answer})
    except ConnectionError as error:
        channel = yield Open(str(error))
        yield Sleep(0.5)
        found = yield Call("tools/call", {"name": answer})
        return channel, found
    return None, found


def test_an_operation_is_sent_the_outcome_of_each_step():
    walk = operation()

    assert next(walk) == Ask("who", "elicitation/create", {"message": "Who?"})
    assert walk.send("me") == Call("tools/call", {"name": "me"})
    with pytest.raises(StopIteration) as done:
        walk.send({"content": []})
    assert done.value.value == (None, {"content": []})


def test_an_operation_is_thrown_what_went_wrong_in_a_step():
    walk = operation()
    next(walk)
    walk.send("me")

    assert walk.throw(ConnectionError("gone")) == Open("gone")
    assert walk.send("channel 2") == Sleep(0.5)
    assert walk.send(None) == Call("tools/call", {"name": "me"})
    with pytest.raises(StopIteration) as done:
        walk.send({})
    assert done.value.value == ("channel 2", {})


def test_a_shell_that_awaits_drives_the_same_operation():
    performed = []

    async def perform(step):
        performed.append(type(step))
        await asyncio.sleep(0)
        return "me"

    async def drive(walk):
        try:
            step = next(walk)
            while True:
                step = walk.send(await perform(step))
        except StopIteration as done:
            return done.value

    assert asyncio.run(drive(operation())) == (None, "me")
    assert performed == [Ask, Call]


@pytest.mark.parametrize(
    "step",
    [Call("ping", {}), Ask("a", "roots/list", None), Open("exited"), Sleep(1.0)],
    ids=lambda step: type(step).__name__,
)
def test_a_step_is_a_value_that_cannot_change(step):
    assert not hasattr(step, "__dict__")
    for name in type(step).__slots__:
        if not name.startswith("__"):
            with pytest.raises(AttributeError):
                setattr(step, name, None)
