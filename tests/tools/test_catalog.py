"""The catalog: what is said of each tool, and where it comes from."""

import json

import pytest

from mcpwire.tools.base import ToolSetBase
from mcpwire.tools.catalog import Cost, Costs
from mcpwire.types import CallToolResult, TextContent, Tool, ToolAnnotations

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


class Servers:
    """Two servers with the same tools; nothing is ever sent."""

    def servers(self):
        return ["files", "more"]

    def rules(self, server):
        return None

    def on_change(self, callback):
        return lambda: None


class Listed(ToolSetBase):
    """A tool set that lists when it is made."""

    def __init__(self, **options):
        super().__init__(Servers(), **options)
        for server in self._source.servers():
            self._take(server, TOOLS)
        self._rebuild()


def entries(**options):
    """Return the catalog by server and tool."""
    return {(entry.server, entry.tool): entry for entry in Listed(**options).catalog()}


@pytest.mark.system("R11", "R12")
def test_each_tool_of_each_server_has_one_entry():
    tools = Listed()
    catalog = tools.catalog()
    assert [entry.name for entry in catalog] == list(tools.names)
    assert len(catalog) == 2 * len(TOOLS)
    assert set(entries()) == {
        (server, tool.name) for server in ("files", "more") for tool in TOOLS
    }


@pytest.mark.system("R11")
def test_an_entry_says_what_it_is_and_what_to_choose_it_by():
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
def test_risk_follows_from_what_a_server_says_and_whether_that_is_believed():
    unbelieved, believed = entries(), entries(trusted="files")
    risks = {tool.name: unbelieved["files", tool.name].risk for tool in TOOLS}
    assert risks == {
        "read": "medium",
        "remove": "high",
        "ping": "medium",
        "odd": "medium",
    }
    assert believed["files", "read"].risk == "low"
    assert believed["more", "read"].risk == "medium"
    assert believed["files", "read"].side_effects.kind == "read_only"


@pytest.mark.system("R08", "R11")
def test_a_contract_says_what_may_be_relied_on():
    contract = entries(trusted=True)["files", "read"].contract
    assert contract.required == ("path",)
    assert (contract.output, contract.version) == ("json", "1.0.0")
    assert (contract.timeout, contract.retry_pause) == (30.0, 1.0)
    assert contract.max_retries == 1
    assert contract.side_effects.is_assured_read_only
    # What may change something is not called again, nor by the word of a stranger.
    assert entries(trusted=True)["files", "remove"].contract.max_retries == 0
    assert entries()["files", "read"].contract.max_retries == 0
    assert entries()["files", "ping"].contract.output == "text"


def test_the_timeout_of_contracts_is_checked():
    tools = Listed()
    assert tools.catalog(timeout=None)[0].contract.timeout is None
    with pytest.raises(ValueError, match="timeout must be above zero"):
        tools.catalog(timeout=0)


@pytest.mark.system("L-R3")
def test_cost_is_what_calls_took():
    costs = Costs(seconds=1.0, tokens=100)
    tools = Listed(costs=costs)
    call = tools._outgoing(tools._prepare("mcp__files__ping", None), None, {})
    call.started -= 3.0
    tools._finished(call, CallToolResult([TextContent("x" * 400)]))
    learnt = {entry.name: entry.cost for entry in tools.catalog()}
    assert learnt["mcp__files__ping"].tokens == 100
    assert 3.0 <= learnt["mcp__files__ping"].seconds < 10.0
    assert learnt["mcp__files__ping"].calls == 1
    assert learnt["mcp__more__ping"] == Cost(100, 1.0)


def test_an_entry_can_be_written_as_json():
    entry = entries(confirm=True)["files", "read"]
    said = json.loads(json.dumps(entry.as_dict()))
    assert said["tags"] == ["mcp", "files", "reading"]
    assert said["cost"] == {"tokens": 500, "seconds": 5.0, "calls": 0}
    assert said["contract"]["side_effects"]["kind"] == "read_only"
    assert said["needs_confirmation"] is True
