"""Results and definitions of functions are valid by the schema of each revision."""

import pytest
import wirecheck
from hinted import Bounded, Color, Model, Named, Node, Options, Point, parameters
from test_typed_forms import BY_HAND, Attrs, Order, Titled

from mcpwire import types
from mcpwire.server.authoring.forms import form_schema
from mcpwire.server.authoring.results import (
    Audio,
    File,
    Image,
    Returns,
    prompt_result,
    read_returns,
    resource_contents,
    tool_result,
)
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS

PNG = b"\x89PNG\r\n\x1a\n"

VALUES = [
    "hi",
    None,
    3,
    [1, "a"],
    {"a": None},
    Point(1),
    b"x",
    Image(PNG),
    Audio(b"fLaC"),
    File(b"x", mime_type="text/plain"),
    types.ResourceLink(uri="test://a", name="a"),
    types.AudioContent(data="eA==", mime_type="audio/wav"),
    ["a", Image(PNG), types.TextContent("t"), {"b": 1}],
    types.CallToolResult([types.TextContent("t")], {"a": 1}),
]


@pytest.fixture(params=REVISIONS, ids=str)
def revision(request):
    return request.param


@pytest.fixture
def faults(spec_dir, revision):
    return lambda name, value: list(
        wirecheck.load(spec_dir)[revision.name].problems(name, value)
    )


def completed(result, revision):
    # The dispatcher adds resultType; these functions do not.
    return {**result, "resultType": "complete"} if revision is LATEST else result


@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize(
    ("returns", "value"),
    [
        *((Returns(), value) for value in VALUES),
        (read_returns(int | list[int]), 3),
        (read_returns(int | list[int]), [3]),
        (read_returns(Point), Point(1)),
        (read_returns(None, output_schema={"type": "array"}), [1]),
        (read_returns(None, output_schema={}), None),
    ],
)
def test_tool_result_is_valid(faults, revision, returns, value):
    result = tool_result(value, returns, revision)
    assert faults("CallToolResult", completed(result, revision)) == []


@pytest.mark.parametrize("value", [*VALUES[:-4], VALUES[-2]])
def test_prompt_result_is_valid(faults, revision, value):
    result = prompt_result([] if value is None else value, "What for", revision)
    assert faults("GetPromptResult", completed(result, revision)) == []


@pytest.mark.parametrize("value", [*VALUES[:10], ["a", b"x"]])
def test_resource_contents_are_valid(faults, revision, value):
    result = {"contents": resource_contents(value, "test://a")}
    if revision is LATEST:
        result |= {"ttlMs": 0, "cacheScope": "private"}
    assert faults("ReadResourceResult", completed(result, revision)) == []


HINTS = [int, Point, Bounded, Model, Named, Node, Options, Color, list[Point | Named]]


@pytest.mark.rule("SCH-05", "TOOL-06")
@pytest.mark.parametrize("hint", HINTS)
def test_tool_definition_is_valid(faults, hint):
    tool = {
        "name": "a",
        "inputSchema": parameters(hint).schema,
        "outputSchema": read_returns(hint).schema,
    }
    assert faults("Tool", tool) == []


FORMS = [Order, BY_HAND, str, Color, bool, None]
WITH_LISTS = [*FORMS, Attrs, Titled]


@pytest.mark.rule("ELIC-05")
@pytest.mark.parametrize(
    ("revision", "forms"),
    [(REVISIONS[2], FORMS), (LATEST_SESSION, WITH_LISTS), (LATEST, WITH_LISTS)],
    indirect=["revision"],
    ids=["first", "session", "latest"],
)
def test_form_fields_are_valid(faults, revision, forms):
    for given in forms:
        for field in form_schema(given, revision)["properties"].values():
            assert faults("PrimitiveSchemaDefinition", field) == []
