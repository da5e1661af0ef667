"""What lists have told of tools, and what of a result breaks it."""

import pytest

from mcpwire.errors import RemoteProtocolError
from mcpwire.protocol.output_validation import KnownTools
from mcpwire.types import CallToolResult, Tool

SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
}


def tool(name, schema=None):
    given = {} if schema is None else {"output_schema": schema}
    return Tool(name=name, input_schema={"type": "object"}, **given)


def result(content=None, **options):
    given = {} if content is None else {"structured_content": content}
    return CallToolResult(content=[], **given, **options)


@pytest.fixture
def known():
    made = KnownTools(lambda *_: None)
    made.learn([tool("plain"), tool("counts", SCHEMA)])
    return made


def test_a_tool_is_known_from_the_list_that_told_of_it(known):
    assert known.get("counts").output_schema == SCHEMA
    assert known.get("other") is None


def test_a_result_that_keeps_its_promise_has_no_problem(known):
    for number in range(2):
        assert known.problem("counts", result({"count": number})) is None


def test_a_result_that_breaks_its_promise_is_told(known):
    assert "count" in known.problem("counts", result({"count": "many"}))


def test_a_result_without_what_the_schema_demands_is_told(known):
    assert known.problem("counts", result()) == (
        "it has no structured content, which its output schema demands"
    )


@pytest.mark.parametrize("name", ["plain", "other"])
def test_who_promised_nothing_breaks_nothing(known, name):
    assert known.problem(name, result({"count": "many"})) is None


def test_a_failure_is_bound_by_no_schema(known):
    assert known.problem("counts", result(is_error=True)) is None


def test_a_tool_that_is_listed_again_promises_what_it_says_now(known):
    assert known.problem("counts", result({"count": "many"})) is not None
    known.learn([tool("counts", {"type": "object"})])
    assert known.problem("counts", result({"count": "many"})) is None


def test_a_schema_that_cannot_be_used_says_why(known):
    known.learn([tool("odd", {"type": 7})])
    with pytest.raises(RemoteProtocolError):
        known.problem("odd", result({}))


def test_when_the_tools_changed_nothing_is_known_any_more(known):
    known.invalidate("notifications/resources/list_changed", None)
    assert known.get("plain") is not None
    known.invalidate("notifications/tools/list_changed", None)
    assert known.get("plain") is known.get("counts") is None


def test_a_schema_with_patterns_that_are_skipped_says_so_once():
    told = []
    known = KnownTools(lambda *skipped: told.append(skipped))
    known.learn([tool("odd", {"pattern": "(?=a)b"})])
    for _ in range(2):
        assert known.problem("odd", result({})) is None
    assert told == [("odd", ("(?=a)b",))]
