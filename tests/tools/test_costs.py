"""What is learnt of calls, and what is said before anything was."""

import pytest

from mcpwire.tools import catalog as costs_module
from mcpwire.tools.catalog import Cost, Costs, size_of
from mcpwire.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    encode,
)
from mcpwire.wire.json import encode as to_json


@pytest.mark.system("L-R3")
def test_an_unknown_tool_costs_what_was_said_at_first():
    assert Costs().of("calc", "add") == Cost(500, 5.0)
    assert Costs(seconds=1.0, tokens=10).of("calc", "add") == Cost(10, 1.0, 0)


@pytest.mark.system("L-R3")
def test_a_tool_costs_what_its_calls_took_the_latest_counting_most():
    costs = Costs(weight=0.5)
    costs.note("calc", "add", 1.0, 400)
    assert costs.of("calc", "add") == Cost(100, 1.0, 1)
    costs.note("calc", "add", 2.0, 800)
    assert costs.of("calc", "add") == Cost(150, 1.5, 2)
    assert costs.of("calc", "other") == Cost(500, 5.0)


def test_what_was_learnt_can_be_forgotten():
    costs = Costs()
    for server in ("a", "b", "c"):
        costs.note(server, "tool", 1.0, 4)
    costs.forget("a")
    costs.forget("nothing")
    assert [costs.of(server, "tool").calls for server in "abc"] == [0, 1, 1]
    costs.forget()
    assert [costs.of(server, "tool").calls for server in "abc"] == [0, 0, 0]


def test_so_many_tools_are_remembered_and_no_more(monkeypatch):
    monkeypatch.setattr(costs_module, "MAX_TOOLS", 2)
    costs = Costs()
    for name in ("a", "b", "b", "c"):
        costs.note("calc", name, 1.0, 4)
    assert [costs.of("calc", name).calls for name in "abc"] == [0, 2, 1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"tokens": -1}, "tokens"),
        ({"weight": 0}, "weight"),
        ({"weight": 1.5}, "weight"),
        ({"weight": float("nan")}, "weight"),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        Costs(**options)


def test_the_size_of_a_result_is_what_a_model_sees_of_it():
    def size(*blocks, **members):
        return size_of(CallToolResult(list(blocks), **members))

    link = ResourceLink("file:///a", "a")
    assert size() == 0
    assert size(TextContent("four"), TextContent("")) == 4
    assert size(ImageContent("AAAA", "image/png")) == 4
    assert size(EmbeddedResource(TextResourceContents("a://", "five!"))) == 5
    assert size(EmbeddedResource(BlobResourceContents("a://", "AAAAAA=="))) == 8
    assert size(link) == len(to_json(encode(link)))
    assert size(structured_content=[1]) == 3
    assert size(TextContent("a"), structured_content=[1]) == 1
