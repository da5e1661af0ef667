"""Fetching all pages of a list: opaque cursors, and a limit for endless lists."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire.errors import (
    InternalError,
    InvalidMessage,
    InvalidParams,
    RemoteProtocolError,
)
from mcpwire.protocol.multistep import Call, fetch_pages, next_cursor


def page(*names, **members):
    return {"tools": [{"name": name} for name in names], **members}


def drive(operation, answer):
    """Perform an operation; `answer` is called with each step."""
    try:
        step = next(operation)
        while True:
            assert type(step) is Call
            try:
                outcome = answer(step)
            except (InvalidParams, InternalError) as error:
                step = operation.throw(error)
            else:
                step = operation.send(outcome)
    except StopIteration as done:
        return done.value


def scripted(*outcomes):
    """Answer with these in turn; `.received` records the params of the steps."""
    remaining = list(outcomes)

    def answer(step):
        answer.received.append(step.params)
        outcome = remaining.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    answer.received = []
    return answer


@pytest.mark.rule("PAGE-01", "PAGE-05")
@pytest.mark.pain("P38")
def test_pages_of_any_size_are_returned_in_order():
    script = [
        page("a", "b", "c", nextCursor="1"),
        page("d", nextCursor="2"),
        page("e", "f"),
    ]
    answer = scripted(*script)

    assert drive(fetch_pages("tools/list", {}), answer) == script
    assert answer.received == [{}, {"cursor": "1"}, {"cursor": "2"}]


@pytest.mark.rule("PAGE-01")
@pytest.mark.fault("F48")
def test_empty_page_with_a_cursor_is_not_the_end():
    script = [page(nextCursor="1"), page(nextCursor="2"), page("a")]

    assert drive(fetch_pages("tools/list", {}), scripted(*script)) == script


@pytest.mark.rule("PAGE-03")
def test_null_cursor_ends_the_list():
    answer = scripted(page("a", nextCursor=None))

    assert len(drive(fetch_pages("tools/list", {}), answer)) == 1


@pytest.mark.rule("PAGE-02", "PAGE-03")
@example(["", "1"])
@given(st.lists(st.text(max_size=20), unique=True, max_size=8))
def test_every_cursor_is_sent_back_unchanged(cursors):
    script = [*(page("a", nextCursor=cursor) for cursor in cursors), page("z")]
    answer = scripted(*script)

    assert drive(fetch_pages("tools/list", {}), answer) == script
    assert answer.received == [{}, *({"cursor": cursor} for cursor in cursors)]


def test_other_params_are_sent_with_every_page():
    params = {"uri": "skill://a", "_meta": {"x": 1}}
    answer = scripted(page("a", nextCursor="1"), page("b"))

    drive(fetch_pages("resources/directory/read", params), answer)

    assert answer.received == [params, {**params, "cursor": "1"}]
    assert params == {"uri": "skill://a", "_meta": {"x": 1}}


def test_params_changed_for_one_page_are_not_sent_with_the_next():
    script = [page(nextCursor="1"), page(nextCursor="2"), page()]
    remaining = list(script)
    received = []

    def stamping(step):
        received.append(dict(step.params))
        step.params["_meta"] = {"stamp": len(received)}
        return remaining.pop(0)

    drive(fetch_pages("tools/list", {}), stamping)

    assert received == [{}, {"cursor": "1"}, {"cursor": "2"}]


@pytest.mark.fault("F48")
@pytest.mark.parametrize(
    ("start", "cursors"),
    [({}, ["1", "1"]), ({}, ["1", "2", "1"]), ({}, ["", ""]), ({"cursor": "1"}, ["1"])],
)
def test_repeated_cursor_is_a_protocol_error(start, cursors):
    answer = scripted(*(page("a", nextCursor=cursor) for cursor in cursors))

    with pytest.raises(RemoteProtocolError, match="is repeated") as caught:
        drive(fetch_pages("tools/list", start), answer)

    assert repr(cursors[-1]) in str(caught.value)


@pytest.mark.fault("F48")
def test_long_repeated_cursor_is_shortened_in_the_error():
    long = "c" * 100_000
    answer = scripted(page(nextCursor=long), page(nextCursor=long))

    with pytest.raises(RemoteProtocolError) as caught:
        drive(fetch_pages("tools/list", {}), answer)

    assert len(str(caught.value)) < 250


@pytest.mark.fault("F48")
@pytest.mark.pain("P38")
def test_number_of_pages_may_reach_the_limit():
    script = [page(nextCursor="1"), page(nextCursor="2"), page()]

    assert drive(fetch_pages("tools/list", {}, limit=3), scripted(*script)) == script
    with pytest.raises(RemoteProtocolError, match="more than 2 pages") as caught:
        drive(fetch_pages("tools/list", {}, limit=2), scripted(*script))
    assert "Limits.pages" in caught.value.hint


@pytest.mark.parametrize(("cursor", "got"), [(7, "int"), (["a"], "list")])
def test_cursor_of_another_type_is_refused(cursor, got):
    with pytest.raises(InvalidMessage) as caught:
        drive(fetch_pages("tools/list", {}), scripted(page("a", nextCursor=cursor)))

    assert caught.value.path == "ListToolsResult.nextCursor"
    assert caught.value.expected == "str"
    assert caught.value.got == got


def test_cursor_of_an_unknown_list_method_is_checked():
    with pytest.raises(InvalidMessage) as caught:
        next_cursor("vendor/list", {"nextCursor": 1})

    assert caught.value.path == "PaginatedResult.nextCursor"


@pytest.mark.rule("PAGE-04")
@pytest.mark.fault("F48")
def test_refused_cursor_restarts_the_list():
    answer = scripted(
        page("old", nextCursor="1"),
        InvalidParams("unknown cursor"),
        page("a", nextCursor="1"),
        page("b"),
    )

    found = drive(fetch_pages("tools/list", {}), answer)

    assert found == [page("a", nextCursor="1"), page("b")]
    assert answer.received == [{}, {"cursor": "1"}, {}, {"cursor": "1"}]


def test_list_is_restarted_only_once():
    answer = scripted(
        page("a", nextCursor="1"),
        InvalidParams("first"),
        page("a", nextCursor="1"),
        InvalidParams("second"),
    )

    with pytest.raises(InvalidParams, match="second"):
        drive(fetch_pages("tools/list", {}), answer)


def test_refused_params_of_the_first_page_are_raised():
    with pytest.raises(InvalidParams, match="no such list"):
        drive(fetch_pages("tools/list", {}), scripted(InvalidParams("no such list")))


def test_other_errors_are_raised_at_once():
    answer = scripted(page("a", nextCursor="1"), InternalError("down"))

    with pytest.raises(InternalError):
        drive(fetch_pages("tools/list", {}), answer)
