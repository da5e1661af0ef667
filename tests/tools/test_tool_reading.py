"""Tool sets: lookup by name, hidden tools, search, transforms and confirmation."""

import pytest
from fake_source import READS, Shelf, tool

import mcpwire.tools
from mcpwire.errors import NotAllowed, UnknownTool
from mcpwire.tools import ServerRules, ToolSet, ToolTransform
from mcpwire.tools.names import NamePolicy
from mcpwire.types import Tool


@pytest.mark.system("V11", "V14", "R12")
async def test_tool_is_found_by_its_name_and_by_its_owner(made):
    tools = await made(Shelf(files=["read", "write"], web=["read"]))
    assert tools.names == ("mcp__files__read", "mcp__files__write", "mcp__web__read")
    assert len(tools) == 3
    view = tools["mcp__web__read"]
    assert (view.server, view.tool) == ("web", "read")
    assert tools.find("web", "read") is view
    assert [each.name for each in tools] == list(tools.names)
    assert tools.of_server("web") == [view]
    assert "mcp__web__read" in tools
    assert "read" not in tools
    assert tools.find("web", "write") is None
    assert repr(tools) == "<ToolSet of 3 tools of 2 servers>"
    assert repr(view) == "<ToolView 'mcp__web__read': 'read' of 'web'>"


@pytest.mark.system("R05")
async def test_unknown_tool_error_lists_similar_names(made):
    tools = await made()
    with pytest.raises(UnknownTool) as caught:
        tools["mcp__files__raed"]
    assert caught.value.tool == "mcp__files__raed"
    assert caught.value.close[0] == "mcp__files__read"
    with pytest.raises(UnknownTool):
        tools["x" * 1_000_000]


@pytest.mark.system("A70", "A72", "V40", "L-V10")
async def test_view_has_schema_title_group_and_display_name(made):
    definition = Tool(
        "now",
        {"type": "object", "$defs": {"z": {}}, "additionalProperties": False},
        title="The time",
        meta={"group": "clocks"},
    )
    tools = await made(Shelf(time=[definition, Tool("bare", {})]))
    view = tools["mcp__time__now"]
    assert view.definition is definition
    assert view.input_schema == definition.input_schema
    assert (view.title, view.description, view.group) == ("The time", "", "clocks")
    assert view.display_name == "[MCP] time.now"
    bare = tools["mcp__time__bare"]
    assert bare.input_schema == {"type": "object", "properties": {}}
    assert (bare.title, bare.group) == ("bare", "time")


@pytest.mark.system("A70")
@pytest.mark.parametrize("group", ["", 7, None])
async def test_invalid_group_defaults_to_the_server(made, group):
    tools = await made(Shelf(time=[tool("now", meta={"group": group})]))
    assert tools["mcp__time__now"].group == "time"


@pytest.mark.system("A70")
async def test_groups_option_selects_tools(made):
    shelf = Shelf(a=[tool("x", meta={"group": "g"}), "y"], b=["z"])
    tools = await made(shelf, groups=["g", "b"])
    assert tools.names == ("mcp__a__x", "mcp__b__z")
    assert tools.hidden == {"mcp__a__y": "its group is not in groups"}


@pytest.mark.system("V12", "L-V7")
@pytest.mark.parametrize(
    ("options", "rules", "hidden"),
    [
        ({"deny": "files/w*"}, {}, "deny: files/w*"),
        ({"deny": "mcp__files__write"}, {}, "deny: mcp__files__write"),
        ({"allow": "*read"}, {}, "no pattern of allow matches it"),
        ({}, {"deny": "write"}, "deny: write"),
        ({}, {"allow": ["read"]}, "no pattern of allow matches it"),
        ({"allow": "files/*"}, {"deny": "files/write"}, "deny: files/write"),
    ],
)
async def test_tool_hidden_by_a_rule_is_not_found(made, options, rules, hidden):
    shelf = Shelf(files=["read", "write"])
    shelf.server_rules["files"] = ServerRules(**rules)
    tools = await made(shelf, **options)
    assert tools.names == ("mcp__files__read",)
    assert tools.hidden == {"mcp__files__write": hidden}
    assert tools.find("files", "write") is None
    assert "mcp__files__write" not in tools
    with pytest.raises(NotAllowed) as caught:
        tools["mcp__files__write"]
    assert caught.value.rule == hidden
    with pytest.raises(UnknownTool) as unknown:
        tools["mcp__files__writ"]
    assert "mcp__files__write" not in unknown.value.close


async def test_rules_of_one_server_do_not_apply_to_another(made):
    shelf = Shelf(a=["read"], b=["read"])
    shelf.server_rules["a"] = ServerRules(deny="read")
    tools = await made(shelf)
    assert tools.names == ("mcp__b__read",)


async def test_tool_name_cannot_imitate_an_allowed_tool(made):
    tools = await made(
        Shelf(good=["read"], evil=["good/read", "mcp__good__read"]),
        allow=["good/read", "mcp__good__read"],
    )
    assert tools.names == ("mcp__good__read",)


@pytest.mark.rule("TOOL-09")
@pytest.mark.system("L-R4")
async def test_collisions_are_recorded(made):
    shelf = Shelf(**{"my.server": ["x"], "my server": ["x"]})
    tools = await made(shelf)
    (collision,) = tools.collisions
    assert collision.owners == (("my.server", "x"), ("my server", "x"))
    assert len(tools) == 2


@pytest.mark.system("A71", "R14")
async def test_reserved_names_are_not_used(made):
    tools = await made(
        Shelf(files=["edit", "view"]),
        names=NamePolicy("{tool}", on_collision="first"),
        reserved=["edit"],
    )
    assert tools.names == ("view",)
    assert len(tools.collisions) == 1


async def test_search_matches_words_of_names_and_descriptions(made):
    shelf = Shelf(
        files=[tool("read", description="Read a File."), tool("list", title="Files")]
    )
    tools = await made(shelf)
    assert [view.tool for view in tools.search("FILE read")] == ["read"]
    assert len(tools.search("files")) == 2
    assert len(tools.search("")) == 2
    assert tools.search("nothing") == []


async def test_transform_changes_name_texts_and_arguments(made):
    change = ToolTransform(
        name="open", title="Open", description="Opens it.", fixed={"mode": "r"}
    )
    tools = await made(transforms={"files/read": change})
    assert tools.names == ("mcp__files__open", "mcp__files__write")
    view = tools["mcp__files__open"]
    assert (view.tool, view.title, view.description) == ("read", "Open", "Opens it.")
    assert list(view.input_schema["properties"]) == ["path"]
    assert list(view.definition.input_schema["properties"]) == ["path", "mode"]
    assert tools.find("files", "read") is view


async def test_first_matching_transform_is_applied(made):
    tools = await made(
        transforms={
            "mcp__files__read": ToolTransform(description="one"),
            "files/*": ToolTransform(description=""),
        }
    )
    assert [view.description for view in tools] == ["one", ""]
    assert [view.title for view in tools] == ["read", "write"]


@pytest.mark.system("L-V7")
@pytest.mark.parametrize("deny", ["files/read", "mcp__files__read", "mcp__files__open"])
async def test_rule_matches_a_renamed_tool_by_all_its_names(made, deny):
    change = ToolTransform(name="open")
    tools = await made(transforms={"files/read": change}, deny=deny)
    assert tools.names == ("mcp__files__write",)
    for name in ("mcp__files__open", "mcp__files__read", "files/read", "open"):
        with pytest.raises((NotAllowed, UnknownTool)):
            await tools.call(name, {"path": "x"})


async def test_renaming_resolves_a_collision(made):
    tools = await made(
        Shelf(a=["x"], b=["x"]),
        names=NamePolicy("{tool}", on_collision="raise"),
        transforms={"b/x": ToolTransform(name="y")},
    )
    assert tools.names == ("x", "y")


@pytest.mark.rule("TOOL-07")
@pytest.mark.system("R09", "R15")
@pytest.mark.parametrize(
    ("trusted", "needs"),
    [
        ((), {"look": True, "unknown": True}),
        ("other", {"look": True, "unknown": True}),
        ("fi*", {"look": False, "unknown": True}),
        (True, {"look": False, "unknown": True}),
        (False, {"look": True, "unknown": True}),
    ],
)
async def test_annotations_count_only_for_trusted_servers(made, trusted, needs):
    shelf = Shelf(files=[tool("look", annotations=READS), "unknown"])
    tools = await made(shelf, confirm="mutating", trusted=trusted)
    assert {view.tool: view.needs_confirmation for view in tools} == needs
    effects = tools["mcp__files__look"].side_effects
    assert effects.kind == "read_only"
    assert effects.trusted == (not needs["look"])


@pytest.mark.system("V13")
async def test_needs_confirmation_is_looked_up_by_name(made):
    shelf = Shelf(a=["x", "y"], b=["x"])
    shelf.server_rules["b"] = ServerRules(confirm=True)
    tools = await made(shelf, confirm=["a/y"])
    assert [view.needs_confirmation for view in tools] == [False, True, True]
    assert tools.needs_confirmation("mcp__a__y")
    assert tools.needs_confirmation("mcp__b__x")
    assert not tools.needs_confirmation("mcp__a__x")
    assert not tools.needs_confirmation("nobody")
    assert not tools.needs_confirmation("a/y")


@pytest.mark.parametrize(
    "export",
    [
        lambda tools: tools.export()[0],
        lambda tools: tools.to_anthropic()[0],
        lambda tools: tools.to_openai()[0]["function"],
        lambda tools: tools.to_openai_responses()[0],
        lambda tools: tools.to_gemini()[0],
        lambda tools: {"name": tools.catalog()[0].name},
    ],
)
async def test_tools_are_exported_for_each_api(made, export):
    tools = await made(deny="files/write")
    assert export(tools)["name"] == "mcp__files__read"


# Invalid options are refused by name when a set is made...


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"errors": "ignore"}, ValueError, "errors must be 'raise' or 'result'"),
        ({"max_result_bytes": 0}, ValueError, "an integer above 0, got 0"),
        ({"max_result_bytes": True}, ValueError, "an integer above 0, got True"),
        ({"allow": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"deny": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"confirm": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"strip_arguments": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"groups": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"trusted": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"names": "{tool}"}, TypeError, "'names' must be"),
        ({"approve": "yes"}, TypeError, "'approve' must be callable"),
        ({"transforms": {"a/*": "x"}}, TypeError, r"transforms\['a/\*'\] must be a"),
        ({"alow": "x"}, TypeError, "unexpected keyword argument 'alow'"),
    ],
)
def test_invalid_option_is_refused(options, error, problem):
    with pytest.raises(error, match=problem):
        ToolSet(Shelf(), **options)


def test_package_exports_only_its_public_names():
    for name in mcpwire.tools.__all__:
        assert getattr(mcpwire.tools, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Toolset'"):
        mcpwire.tools.Toolset  # noqa: B018 - raises
