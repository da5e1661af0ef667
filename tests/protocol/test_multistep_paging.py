"""Walking through lists: opaque cursors, and an end to lists that have none."""

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
    """Perform an operation; `answer` gets each step's params."""
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
    """Answer with these in turn; the params asked with stand in `.asked`."""
    left = list(outcomes)

    def answer(step):
        answer.asked.append(step.params)
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    answer.asked = []
    return answer


@pytest.mark.rule("PAGE-01", "PAGE-05")
@pytest.mark.pain("P38")
def test_pages_of_any_size_come_back_in_order():
    script = [
        page("a", "b", "c", nextCursor="1"),
        page("d", nextCursor="2"),
        page("e", "f"),
    ]
    answer = scripted(*script)

    assert drive(fetch_pages("tools/list", {}), answer) == script
    assert answer.asked == [{}, {"cursor": "1"}, {"cursor": "2"}]


@pytest.mark.rule("PAGE-01")
@pytest.mark.fault("F48")
def test_an_empty_page_with_a_cursor_is_not_the_end():
    script = [page(nextCursor="1"), page(nextCursor="2"), page("a")]

    assert drive(fetch_pages("tools/list", {}), scripted(*script)) == script


@pytest.mark.rule("PAGE-03")
def test_null_ends_the_list_like_a_missing_cursor():
    answer = scripted(page("a", nextCursor=None))

    assert len(drive(fetch_pages("tools/list", {}), answer)) == 1


@pytest.mark.rule("PAGE-02", "PAGE-03")
@example(["", "1"])
@given(st.lists(st.text(max_size=20), unique=True, max_size=8))
def test_every_cursor_goes_back_exactly_as_it_came(cursors):
    script = [*(page("a", nextCursor=cursor) for cursor in cursors), page("z")]
    answer = scripted(*script)

    assert drive(fetch_pages("tools/list", {}), answer) == script
    assert answer.asked == [{}, *({"cursor": cursor} for cursor in cursors)]


def test_the_other_params_are_sent_with_every_page():
    params = {"uri": "skill://a", "_meta": {"x": 1}}
    answer = scripted(page("a", nextCursor="1"), page("b"))

    drive(fetch_pages("resources/directory/read", params), answer)

    assert answer.asked == [params, {**params, "cursor": "1"}]
    assert params == {"uri": "skill://a", "_meta": {"x": 1}}


def test_what_the_shell_adds_to_one_page_is_not_in_the_next():
    script = [page(nextCursor="1"), page(nextCursor="2"), page()]
    left = list(script)
    asked = []

    def stamping(step):
        asked.append(dict(step.params))
        step.params["_meta"] = {"stamp": len(asked)}
        return left.pop(0)

    drive(fetch_pages("tools/list", {}), stamping)

    assert asked == [{}, {"cursor": "1"}, {"cursor": "2"}]


@pytest.mark.fault("F48")
@pytest.mark.parametrize(
    ("start", "cursors"),
    [({}, ["1", "1"]), ({}, ["1", "2", "1"]), ({}, ["", ""]), ({"cursor": "1"}, ["1"])],
)
def test_a_cursor_that_comes_twice_is_the_servers_fault(start, cursors):
    answer = scripted(*(page("a", nextCursor=cursor) for cursor in cursors))

    with pytest.raises(RemoteProtocolError, match="is repeated") as caught:
        drive(fetch_pages("tools/list", start), answer)

    assert repr(cursors[-1]) in str(caught.value)


@pytest.mark.fault("F48")
def test_a_long_repeated_cursor_is_shortened_in_the_error():
    long = "c" * 100_000
    answer = scripted(page(nextCursor=long), page(nextCursor=long))

    with pytest.raises(RemoteProtocolError) as caught:
        drive(fetch_pages("tools/list", {}), answer)

    assert len(str(caught.value)) < 250


@pytest.mark.fault("F48")
@pytest.mark.pain("P38")
def test_a_list_may_have_exactly_as_many_pages_as_the_limit():
    script = [page(nextCursor="1"), page(nextCursor="2"), page()]

    assert drive(fetch_pages("tools/list", {}, limit=3), scripted(*script)) == script
    with pytest.raises(RemoteProtocolError, match="more than 2 pages") as caught:
        drive(fetch_pages("tools/list", {}, limit=2), scripted(*script))
    assert "Limits.pages" in caught.value.hint


@pytest.mark.parametrize(
    ("cursor", "got"),
    [
        (7, "int"),
        (["a"], "list"),
    ],
)
def test_a_cursor_that_is_no_string_is_refused(cursor, got):
    with pytest.raises(InvalidMessage) as caught:
        drive(fetch_pages("tools/list", {}), scripted(page("a", nextCursor=cursor)))

    assert caught.value.path == "ListToolsResult.nextCursor"
    assert caught.value.expected == "str"
    assert caught.value.got == got


def test_a_list_unknown_to_the_table_can_be_walked_too():
    with pytest.raises(InvalidMessage) as caught:
        next_cursor("vendor/list", {"nextCursor": 1})

    assert caught.value.path == "PaginatedResult.nextCursor"


@pytest.mark.rule("PAGE-04")
@pytest.mark.fault("F48")
def test_a_cursor_of_a_dead_session_starts_the_list_anew():
    answer = scripted(
        page("old", nextCursor="1"),
        InvalidParams("unknown cursor"),
        page("a", nextCursor="1"),
        page("b"),
    )

    found = drive(fetch_pages("tools/list", {}), answer)

    assert found == [page("a", nextCursor="1"), page("b")]
    assert answer.asked == [{}, {"cursor": "1"}, {}, {"cursor": "1"}]


def test_a_list_starts_anew_only_once():
    answer = scripted(
        page("a", nextCursor="1"),
        InvalidParams("first"),
        page("a", nextCursor="1"),
        InvalidParams("second"),
    )

    with pytest.raises(InvalidParams, match="second"):
        drive(fetch_pages("tools/list", {}), answer)


def test_params_refused_on_the_first_page_are_the_callers_matter():
    with pytest.raises(InvalidParams, match="no such list"):
        drive(fetch_pages("tools/list", {}), scripted(InvalidParams("no such list")))


def test_other_errors_end_the_walk_at_once():
    answer = scripted(page("a", nextCursor="1"), InternalError("down"))

    with pytest.raises(InternalError):
        drive(fetch_pages("tools/list", {}), answer)
