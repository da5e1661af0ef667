"""A value of ours that cannot be encoded is a local error with its path."""

from __future__ import annotations

import pytest

from mcpwire import types
from mcpwire.errors import LocalProtocolError
from mcpwire.types import encode

TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("value", "path", "got"),
    [
        (types.CallToolResult([TEXT]), "CallToolResult.content[0]", "dict"),
        (types.CallToolResult(None), "CallToolResult.content", "NoneType"),
        (types.ListToolsResult(5), "ListToolsResult.tools", "int"),
        (
            types.ListToolsResult([types.TextContent("")]),
            "ListToolsResult.tools[0]",
            "TextContent",
        ),
        (
            types.CallToolResult([types.TextContent("a", annotations={"priority": 1})]),
            "CallToolResult.content[0].annotations",
            "dict",
        ),
        (
            types.InputRequiredResult(input_requests=[1]),
            "InputRequiredResult.input_requests",
            "list",
        ),
        (
            types.InputRequiredResult({"k": types.TextContent("a")}),
            "InputRequiredResult.input_requests.k",
            "TextContent",
        ),
        (
            types.ReadResourceResult([types.TextContent("")]),
            "ReadResourceResult.contents[0]",
            "TextContent",
        ),
        (
            types.SamplingMessage("user", [{"type": "text"}]),
            "SamplingMessage.content[0]",
            "dict",
        ),
        (types.SamplingMessage("user", "hi"), "SamplingMessage.content", "str"),
        (
            types.CallToolRequestParams(
                "a", None, {"k": types.ElicitResult("cancel")}, task={"ttl": 1}
            ),
            "CallToolRequestParams.task",
            "dict",
        ),
        (types.TextContent("a", extra=5), "TextContent.extra", "int"),
    ],
)
def test_field_of_the_wrong_type_is_a_local_error_with_its_path(value, path, got):
    with pytest.raises(LocalProtocolError) as caught:
        encode(value)
    assert str(caught.value).startswith(f"{path}: expected ")
    assert str(caught.value).endswith(f", got {got}")
    assert caught.value.__cause__ is not None


def test_error_without_a_faulty_field_is_raised_unchanged():
    class Strange(str):
        __slots__ = ()

        def __ne__(self, other):
            raise KeyError("mine")

    result = types.CallToolResult([types.TextContent("a")], result_type=Strange("x"))
    with pytest.raises(KeyError, match="mine") as caught:
        encode(result)
    assert caught.value.__cause__ is None


def test_tuple_is_accepted_as_a_list():
    result = types.CallToolResult((types.TextContent("hi"),), is_error=True)
    assert encode(result)["content"] == [TEXT]
