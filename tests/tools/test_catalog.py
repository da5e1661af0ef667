"""Side effects and costs of tools, and the catalog of both."""

import asyncio
import itertools
import json

import pytest
from fake_source import Shelf

from mcpwire.tools import ToolSet
from mcpwire.tools import catalog as costs_module
from mcpwire.tools.catalog import Cost, Costs, SideEffects, result_size
from mcpwire.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
    encode,
)
from mcpwire.wire.json import encode as to_json

HINTS = [
    # read-only, destructive, idempotent, open world:
    #   kind, is_destructive, is_idempotent, is_open_world
    ((None, None, None, None), ("unknown", True, False, True)),
    ((None, None, None, False), ("unknown", True, False, False)),
    ((None, None, None, True), ("unknown", True, False, True)),
    ((True, None, None, None), ("read_only", False, True, True)),
    ((True, True, False, False), ("read_only", False, True, False)),
    ((False, None, None, None), ("mutating", True, False, True)),
    ((False, False, None, None), ("mutating", False, False, True)),
    ((False, False, True, False), ("mutating", False, True, False)),
    ((False, True, True, True), ("mutating", True, True, True)),
    ((None, True, None, None), ("mutating", True, False, True)),
    ((None, False, None, None), ("mutating", False, False, True)),
    ((None, None, True, None), ("mutating", True, True, True)),
    ((None, None, False, None), ("mutating", True, False, True)),
]

RISKS = [
    # the same hints: trusted or not -> risk
    ((None, None, None, None), False, "medium"),
    ((None, None, None, None), True, "medium"),
    ((True, None, None, None), False, "medium"),
    ((True, None, None, None), True, "low"),
    ((False, None, None, None), False, "high"),
    ((False, None, None, None), True, "high"),
    ((False, False, None, None), True, "medium"),
    ((False, False, True, None), True, "medium"),
    ((False, False, True, False), False, "medium"),
    ((False, False, True, False), True, "low"),
]


def annotations(hints):
    """Return annotations with these four hints."""
    return ToolAnnotations(None, *hints)


@pytest.mark.rule("TOOL-24")
@pytest.mark.system("R09", "L-R11")
@pytest.mark.parametrize(("hints", "meaning"), HINTS)
def test_each_hint_applies_and_missing_ones_have_defaults(hints, meaning):
    effects = SideEffects.of(annotations(hints))
    assert meaning == (
        effects.kind,
        effects.is_destructive,
        effects.is_idempotent,
        effects.is_open_world,
    )


@pytest.mark.rule("TOOL-24")
def test_side_effects_of_a_tool_come_from_its_annotations():
    hints = annotations((True, None, None, None))
    tool = Tool("read", {"type": "object"}, annotations=hints)
    assert SideEffects.of(tool) == SideEffects.of(hints)
    bare = Tool("t", {"type": "object"})
    for without in (None, bare, annotations((None,) * 4)):
        assert SideEffects.of(without) == SideEffects()


@pytest.mark.rule("TOOL-07")
@pytest.mark.system("L-R3")
@pytest.mark.parametrize(("hints", "trusted", "risk"), RISKS)
def test_risk_follows_from_the_hints(hints, trusted, risk):
    assert SideEffects.of(annotations(hints), trusted=trusted).risk == risk


@pytest.mark.rule("TOOL-07")
def test_untrusted_hints_never_lower_the_risk():
    order = ["low", "medium", "high"]
    default_risk = order.index(SideEffects().risk)
    for hints in itertools.product((None, True, False), repeat=4):
        risk = SideEffects.of(annotations(hints)).risk
        assert order.index(risk) >= default_risk


@pytest.mark.system("L-R3")
def test_unknown_tool_has_the_default_cost():
    assert Costs().of("calc", "add") == Cost(500, 5.0)
    assert Costs(seconds=1.0, tokens=10).of("calc", "add") == Cost(10, 1.0, 0)


@pytest.mark.system("L-R3")
def test_cost_is_a_weighted_average_of_calls():
    costs = Costs(weight=0.5)
    costs.note("calc", "add", 1.0, 400)
    assert costs.of("calc", "add") == Cost(100, 1.0, 1)
    costs.note("calc", "add", 2.0, 800)
    assert costs.of("calc", "add") == Cost(150, 1.5, 2)
    assert costs.of("calc", "other") == Cost(500, 5.0)


def test_recorded_costs_can_be_forgotten():
    costs = Costs()
    for server in ("a", "b", "c"):
        costs.note(server, "tool", 1.0, 4)
    costs.forget("a")
    costs.forget("nothing")
    assert [costs.of(server, "tool").calls for server in "abc"] == [0, 1, 1]
    costs.forget()
    assert [costs.of(server, "tool").calls for server in "abc"] == [0, 0, 0]


def test_number_of_recorded_tools_is_bounded(monkeypatch):
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
def test_option_out_of_range_is_refused_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        Costs(**options)


def test_result_size_counts_the_content_a_model_sees():
    def size(*blocks, **members):
        return result_size(CallToolResult(list(blocks), **members))

    link = ResourceLink("file:///a", "a")
    assert size() == 0
    assert size(TextContent("four"), TextContent("")) == 4
    assert size(ImageContent("AAAA", "image/png")) == 4
    assert size(EmbeddedResource(TextResourceContents("a://", "five!"))) == 5
    assert size(EmbeddedResource(BlobResourceContents("a://", "AAAAAA=="))) == 8
    assert size(link) == len(to_json(encode(link)))
    assert size(structured_content=[1]) == 3
    assert size(TextContent("a"), structured_content=[1]) == 1


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path", 5],
}

TOOLS = [
    Tool(
        "read",
        SCHEMA,
        description="Read a file.",
        annotations=ToolAnnotations(read_only_hint=True),
        output_schema={"type": "object"},
        meta={"group": "reading"},
    ),
    Tool("remove", SCHEMA, annotations=ToolAnnotations(read_only_hint=False)),
    Tool("ping", {"type": "object"}),
    Tool("odd", {"type": "object", "required": "path"}),
]


def listed(**options):
    """Return a set of the same tools of two servers; no calls are sent."""

    async def made():
        tools = ToolSet(Shelf(files=TOOLS, more=TOOLS), **options)
        await tools.refresh()
        return tools

    return asyncio.run(made())


def entries(**options):
    """Return the catalog by server and tool."""
    return {(entry.server, entry.tool): entry for entry in listed(**options).catalog()}


@pytest.mark.system("R11", "R12")
def test_catalog_has_one_entry_per_tool():
    tools = listed()
    catalog = tools.catalog()
    assert [entry.name for entry in catalog] == list(tools.names)
    assert len(catalog) == 2 * len(TOOLS)
    assert set(entries()) == {
        (server, tool.name) for server in ("files", "more") for tool in TOOLS
    }


@pytest.mark.system("R11")
def test_entry_has_description_hint_tags_and_required():
    entry = entries()["files", "read"]
    assert entry.name == "mcp__files__read"
    assert entry.title == "read"
    assert entry.description == entry.hint == "Read a file."
    assert entry.tags == ("mcp", "files", "reading")
    assert entry.required == ("path",)
    bare = entries()["more", "ping"]
    assert bare.description == ""
    assert bare.hint == "MCP tool 'ping' of the server 'more'"
    assert bare.tags == ("mcp", "more")
    assert bare.required == entries()["more", "odd"].required == ()


@pytest.mark.system("R09", "R11", "L-R3", "L-R11")
@pytest.mark.rule("TOOL-07")
def test_risk_of_an_entry_depends_on_annotations_and_trust():
    untrusted, trusted = entries(), entries(trusted="files")
    risks = {tool.name: untrusted["files", tool.name].risk for tool in TOOLS}
    assert risks == {
        "read": "medium",
        "remove": "high",
        "ping": "medium",
        "odd": "medium",
    }
    assert trusted["files", "read"].risk == "low"
    assert trusted["more", "read"].risk == "medium"
    assert trusted["files", "read"].side_effects.kind == "read_only"


@pytest.mark.system("R08", "R11")
def test_contract_has_output_timeout_and_retries():
    contract = entries(trusted=True)["files", "read"].contract
    assert contract.required == ("path",)
    assert (contract.output, contract.version) == ("json", "1.0.0")
    assert (contract.timeout, contract.retry_pause) == (30.0, 1.0)
    assert contract.max_retries == 1
    assert contract.side_effects.trusted
    # Mutating tools are not retried, nor tools of untrusted servers.
    assert entries(trusted=True)["files", "remove"].contract.max_retries == 0
    assert entries()["files", "read"].contract.max_retries == 0
    assert entries()["files", "ping"].contract.output == "text"


def test_contract_timeout_must_be_positive():
    tools = listed()
    assert tools.catalog(timeout=None)[0].contract.timeout is None
    with pytest.raises(ValueError, match="timeout must be above zero"):
        tools.catalog(timeout=0)


@pytest.mark.system("L-R3")
def test_entry_cost_comes_from_recorded_calls():
    costs = Costs(seconds=1.0, tokens=100)
    tools = listed(costs=costs)
    costs.note("files", "ping", 3.0, 400)
    recorded = {entry.name: entry.cost for entry in tools.catalog()}
    assert recorded["mcp__files__ping"].tokens == 100
    assert recorded["mcp__files__ping"].seconds == 3.0
    assert recorded["mcp__files__ping"].calls == 1
    assert recorded["mcp__more__ping"] == Cost(100, 1.0)


def test_entry_can_be_serialised_as_json():
    entry = entries(confirm=True)["files", "read"]
    decoded = json.loads(json.dumps(entry.as_dict()))
    assert decoded["tags"] == ["mcp", "files", "reading"]
    assert decoded["cost"] == {"tokens": 500, "seconds": 5.0, "calls": 0}
    assert decoded["contract"]["side_effects"]["kind"] == "read_only"
    assert decoded["needs_confirmation"] is True
