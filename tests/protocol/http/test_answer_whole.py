"""A whole answer taken in one call is taken as one that comes by head, data and end."""

import pytest
from fed_replies import ID, JSON, SSE, Owner, answer, call, event, fields, text
from test_answer import BODIES, as_bytes
from test_answer_streams import STREAMS

from mcpwire.errors import MCPError
from mcpwire.limits import Limits
from mcpwire.protocol.http.answer import LISTEN
from mcpwire.protocol.http.resume import Resumption

ANSWER = text(answer())
ALIKE = {"_owner", "_room", "_decoder", "resumption", "error", "_doubt", "timer"}
"""What holds objects of its own; of errors the text is compared."""

WHOLE = {
    **{f"body: {name}": (JSON, as_bytes(case[0])) for name, case in BODIES.items()},
    **{f"stream: {name}": (SSE, case[0]) for name, case in STREAMS.items()},
    "by another name": ("Application/JSON; charset=utf-8", ANSWER),
    "a page": ("text/html", ANSWER),
    "no content type": (None, ANSWER),
    "too large, a body": (JSON, text(answer(result={"x": "x" * 200}))),
    "too large, a stream": (SSE, event(answer(result={"x": "x" * 200}))),
}

TAKEN = {
    "body: the answer",
    "body: an empty result",
    "body: white space",
    "stream: the answer",
    "stream: named",
    "stream: lines that end otherwise",
}
"""What comes in one call; many others might, and are too rare to be worth it."""

BEFORE = {
    "nothing": lambda reply: None,
    "it is over": lambda reply: setattr(reply, "is_over", True),
    "a stream that broke": lambda reply: (
        reply.head(200, fields(SSE)),
        reply.data(b"id: 1\ndata\n\n"),
        reply.end(),
        reply.restart(),
    ),
    "a place to go on from": lambda reply: setattr(
        reply, "resumption", Resumption(reply._owner.recovery)
    ),
}


def by_parts(reply, head, body):
    reply.head(200, head)
    reply.data(body)
    reply.end()


def in_one_call(reply, head, body):
    if not reply.whole(head, body):
        by_parts(reply, head, body)


def outcome(take, case, before, *, is_watched=False, method="tools/call"):
    """Return all that can be seen of a reply, and of its owner, once it is fed."""
    content_type, body = WHOLE[case]
    owner = Owner(is_watched=is_watched, limits=Limits(message=180))
    reply = call(owner, method)
    BEFORE[before](reply)
    raised = None
    try:
        take(reply, fields(content_type), body)
    except MCPError as error:
        raised = repr(error)
    names = {
        name for cls in type(reply).__mro__ for name in vars(cls).get("__slots__", ())
    }
    seen = {name: getattr(reply, name) for name in sorted(names - ALIKE)}
    told = (owner.told, owner.opened_streams, len(owner.doubts), owner.counted())
    return seen, repr(reply.error), raised, told, owner.stats.messages


@pytest.mark.parametrize("is_watched", [False, True], ids=["", "watched"])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("case", WHOLE)
def test_one_call_tells_the_same_as_three(case, before, is_watched):
    first, second = (
        outcome(take, case, before, is_watched=is_watched)
        for take in (by_parts, in_one_call)
    )
    assert second == first


@pytest.mark.parametrize("case", ["body: the answer", "stream: the answer"])
def test_a_stream_that_is_to_last_is_told_of(case):
    first, second = (
        outcome(take, case, "nothing", method=LISTEN)
        for take in (by_parts, in_one_call)
    )
    assert second == first


@pytest.mark.parametrize("case", WHOLE)
def test_what_is_not_taken_leaves_the_reply_as_it_was(case):
    content_type, body = WHOLE[case]
    owner = Owner(limits=Limits(message=180))
    reply = call(owner)
    is_taken = reply.whole(fields(content_type), body)
    assert is_taken == (case in TAKEN)
    assert reply.is_over == is_taken
    assert owner.stats.messages == is_taken
    assert reply.status == (200 if is_taken else 0)
    assert owner.told == []
    assert reply.id == ID
