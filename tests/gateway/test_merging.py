"""Lists of many servers as one: names, URIs, pages."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import NameCollision
from mcpwire.gateway.merging import (
    alias_of,
    combine_pages,
    has_links,
    merge_capabilities,
    merge_instructions,
    merge_named,
    merge_uris,
    read_alias,
    replace_links,
    replace_uris,
)
from mcpwire.tools.names import NamePolicy
from mcpwire.tools.rules import Rules, ServerRules
from mcpwire.tools.transforms import ToolTransform
from mcpwire.versions import REVISIONS, find_revision
from mcpwire.wire.uri_template import is_uri

PROXY = NamePolicy.proxy()


resources_of = partial(merge_uris, key="uri", has_aliases=True)
templates_of = partial(merge_uris, key="uriTemplate", has_aliases=False)


def tools(server, *names, page=None, **options):
    items = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return combine_pages(server, [{"tools": items, **(page or {})}], "tools", **options)


def names(merged):
    return [item["name"] for item in merged.items]


def test_pages_are_combined_without_invalid_items():
    pages = [{"tools": [{"name": "a"}, 5, None]}, {"tools": {}}, {}, {"tools": [{}]}]
    assert combine_pages("s", pages, "tools").items == ({"name": "a"}, {})


@pytest.mark.parametrize(
    ("pages", "ttl", "is_public"),
    [
        ([], 0, True),
        ([{"ttlMs": 5, "cacheScope": "public"}], 5, True),
        ([{"ttlMs": 5}, {"ttlMs": 3, "cacheScope": "public"}], 3, False),
        ([{"ttlMs": -1, "cacheScope": "private"}], 0, False),
        ([{"ttlMs": True}, {"ttlMs": 1.5}], 0, False),
    ],
)
def test_combined_pages_have_the_shortest_ttl_and_the_narrowest_scope(
    pages, ttl, is_public
):
    found = combine_pages("s", pages, "tools")
    assert (found.ttl, found.is_public) == (ttl, is_public)


def test_merged_list_has_the_shortest_ttl_and_the_narrowest_scope():
    one = tools("a", page={"ttlMs": 9, "cacheScope": "public", "_meta": {"k": 1}})
    two = tools("b", page={"ttlMs": 4, "cacheScope": "public", "_meta": {"k": 2}})
    stamped = {"io.modelcontextprotocol/serverInfo": {}, "l": 3}
    both = merge_named([one, two, tools("c", page={"_meta": stamped})], PROXY)
    assert both.hints == {
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"k": 1, "l": 3},
    }
    assert merge_named([one, two], PROXY).hints["ttlMs"] == 4
    assert merge_named([one, two], PROXY).hints["cacheScope"] == "public"
    assert merge_named([], PROXY).hints == {"ttlMs": 0, "cacheScope": "private"}


@pytest.mark.system("O40", "O42")
def test_tools_are_named_by_the_policy_and_sorted_by_name():
    merged = merge_named([tools("b", "x", "a"), tools("a", "x")], PROXY)
    assert names(merged) == ["a_x", "b_a", "b_x"]
    assert merged.owners["b_x"] == ("b", "x")
    assert merged.names["a", "x"] == "a_x"


def test_merged_items_keep_all_other_members_and_originals_are_unchanged():
    item = {"name": "x", "z": [1], "_meta": {"q": None}, "annotations": {}}
    found = combine_pages("a", [{"tools": [item, {"name": 5}, {}]}], "tools")
    [merged] = merge_named([found], PROXY).items
    assert merged == {**item, "name": "a_x"}
    assert list(merged) == list(item)
    assert item["name"] == "x"


def test_item_with_an_unchanged_name_is_the_same_object():
    found = tools("a", "x")
    assert merge_named([found], NamePolicy.bare()).items[0] is found.items[0]


@pytest.mark.system("O42")
@given(st.permutations(["a_b", "a", "b"]))
def test_names_do_not_depend_on_the_order_of_servers(order):
    lists = {"a_b": tools("a_b", "c"), "a": tools("a", "b_c", "d"), "b": tools("b")}
    merged = merge_named([lists[server] for server in order], PROXY)
    sorted_merge = merge_named([lists[server] for server in sorted(lists)], PROXY)
    assert merged.owners == sorted_merge.owners
    assert len(merged.collisions) == 1
    assert len(set(names(merged))) == 3


def test_on_collision_raise_is_an_error_and_first_keeps_the_first():
    lists = [tools("a_b", "c"), tools("a", "b_c")]
    with pytest.raises(NameCollision):
        merge_named(lists, NamePolicy("{server}_{tool}", on_collision="raise"))
    first = merge_named(lists, NamePolicy("{server}_{tool}", on_collision="first"))
    assert first.owners == {"a_b_c": ("a_b", "c")}


@pytest.mark.system("O47")
def test_kept_names_take_precedence_and_the_first_of_two_wins():
    own = tools("local", "a_x", "only", keeps_names=True)
    merged = merge_named(
        [tools("a", "x", "y"), own, tools("too", "only", keeps_names=True)], PROXY
    )
    assert merged.owners["a_x"] == ("local", "a_x")
    assert merged.owners["only"] == ("local", "only")
    assert merged.owners["a_y"] == ("a", "y")
    [other] = [n for n in names(merged) if merged.owners[n] == ("a", "x")]
    assert other != "a_x"
    assert len(merged.items) == 4


@pytest.mark.parametrize(
    ("rules", "server_rules", "left"),
    [
        (Rules(allow="a_*"), {}, ["a_x", "a_y"]),
        (Rules(deny="*_x"), {}, ["a_y"]),
        (Rules(deny="a/x"), {}, ["a_y", "b_x"]),
        (Rules(), {"a": ServerRules(allow="x")}, ["a_x", "b_x"]),
        (Rules(allow="a_*"), {"a": ServerRules(deny="a/y")}, ["a_x"]),
    ],
)
def test_tool_hidden_by_a_rule_has_no_owner(rules, server_rules, left):
    none = ServerRules()
    lists = [
        tools("a", "x", "y", rules=server_rules.get("a", none)),
        tools("b", "x", rules=none),
    ]
    merged = merge_named(lists, PROXY, rules=rules)
    assert names(merged) == left
    assert set(merged.owners) == set(left)


def test_transforms_change_names_descriptions_and_schemas():
    schema = {"type": "object", "properties": {"p": {}, "q": {}}, "required": ["p"]}
    item = {"name": "x", "description": "old", "inputSchema": schema, "k": 1}
    lists = [combine_pages("a", [{"tools": [item]}], "tools"), tools("b", "x")]
    new = ToolTransform(name="n", title="T", description="D", rename={"r": "p"})
    merged = merge_named(
        lists, PROXY, transforms={"a/*": new, "b_x": ToolTransform(title="U")}
    )
    assert merged.items[0] == {
        "name": "a_n",
        "title": "T",
        "description": "D",
        "inputSchema": {
            "type": "object",
            "properties": {"r": {}, "q": {}},
            "required": ["r"],
        },
        "k": 1,
    }
    assert merged.items[1]["title"] == "U"
    assert merged.transforms == {"a_n": new}
    assert schema["required"] == ["p"]


def test_transforms_apply_to_servers_that_keep_their_names():
    merged = merge_named(
        [tools("local", "x", "y", keeps_names=True)],
        PROXY,
        transforms={"local/x": ToolTransform(name="n"), "other": ToolTransform()},
    )
    assert names(merged) == ["n", "y"]


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        (Rules(deny="a_x"), ["y"]),
        (Rules(deny="x"), ["y"]),
        (Rules(deny="a/x"), ["y"]),
        (Rules(allow="a_*"), ["x", "y"]),
        (Rules(allow="b_*"), []),
    ],
)
def test_rules_for_the_policy_name_apply_to_a_kept_name(rules, left):
    merged = merge_named([tools("a", "x", "y", keeps_names=True)], PROXY, rules=rules)
    assert names(merged) == left
    new = ToolTransform(title="T")
    merged = merge_named(
        [tools("a", "x", keeps_names=True)], PROXY, transforms={"a_x": new}
    )
    assert merged.items[0]["title"] == "T"


def test_rule_for_the_name_before_a_transform_still_applies():
    merged = merge_named(
        [tools("a", "x")],
        PROXY,
        rules=Rules(deny="a_x"),
        transforms={"a/x": ToolTransform(name="n")},
    )
    assert names(merged) == []


def test_extras_are_listed_unless_the_server_has_a_tool_of_that_name():
    extras = ({"name": "x", "extra": 1}, {"name": "y", "extra": 1})
    merged = merge_named([tools("a", "x", extras=extras)], PROXY)
    assert names(merged) == ["a_x", "a_y"]
    assert "extra" not in merged.items[0]
    assert merged.extras == {"a_y"}


def resources(server, *uris):
    page = {"resources": [{"uri": uri, "name": server} for uri in uris]}
    return combine_pages(server, [page], "resources")


@pytest.mark.system("O41", "L-O9")
def test_uris_are_unchanged_and_a_second_owner_gets_an_alias():
    merged = resources_of([resources("b", "x:2", "x:1"), resources("a", "x:1")])
    assert [item["uri"] for item in merged.items] == ["mcpgw://a/x%3A1", "x:1", "x:2"]
    assert merged.owners["x:1"] == ("b", "x:1")
    assert merged.owners["mcpgw://a/x%3A1"] == ("a", "x:1")
    assert merged.names["a", "x:1"] == "mcpgw://a/x%3A1"
    [collision] = merged.collisions
    assert collision.owners == (("b", "x:1"), ("a", "x:1"))


def test_resource_without_a_uri_or_with_a_repeated_uri_is_left_out():
    page = {"resources": [{"uri": "x:1", "n": 1}, {"uri": "x:1"}, {"uri": 5}, {}]}
    merged = resources_of([combine_pages("a", [page], "resources")])
    assert merged.items == ({"uri": "x:1", "n": 1},)


def test_first_of_equal_templates_is_listed_and_all_owners_are_recorded():
    def templates(server, *texts):
        page = {"t": [{"uriTemplate": text, "name": server} for text in texts]}
        return combine_pages(server, [page], "t")

    merged = templates_of(
        [templates("b", "x:{y}", "x:{y}"), templates("a", "x:{y}", "a:{y}")]
    )
    assert [(t["uriTemplate"], t["name"]) for t in merged.items] == [
        ("a:{y}", "a"),
        ("x:{y}", "b"),
    ]
    assert merged.owners["x:{y}"] == ("b", "x:{y}")
    assert set(merged.names) == {("b", "x:{y}"), ("a", "x:{y}"), ("a", "a:{y}")}
    invalid = templates_of([combine_pages("a", [{"t": [{}, {"uriTemplate": 1}]}], "t")])
    assert invalid.items == ()


NEWEST, OLDEST = REVISIONS[-1], find_revision("2024-11-05")


@pytest.mark.system("O48")
@pytest.mark.parametrize(
    ("declared", "merged"),
    [
        ([], {}),
        (
            [{"tools": {}}, {"tools": {"listChanged": True}, "prompts": {}}],
            {"tools": {"listChanged": True}, "prompts": {}},
        ),
        (
            [{"resources": {"subscribe": True}}, {"resources": {"listChanged": True}}],
            {"resources": {"subscribe": True, "listChanged": True}},
        ),
        ([{"tools": {"listChanged": False, "x": 1}}], {"tools": {}}),
        ([{"tools": None, "prompts": False, "logging": True}], {"logging": {}}),
        ([{"experimental": {"a": {}}, "completions": {}}], {"completions": {}}),
    ],
)
def test_merged_capabilities_are_those_of_any_server(declared, merged):
    assert merge_capabilities(declared, NEWEST) == merged


def test_extra_capabilities_are_added_and_unsupported_ones_removed():
    declared = [{"completions": {}, "tools": {"listChanged": True}}]
    extra = {"tools": {}, "extensions": {"x/y": {}}}
    assert merge_capabilities(declared, NEWEST, extra=extra) == {
        "tools": {"listChanged": True},
        "completions": {},
        "extensions": {"x/y": {}},
    }
    assert merge_capabilities(declared, OLDEST) == {"tools": {"listChanged": True}}


@pytest.mark.parametrize(
    ("said", "merged"),
    [
        ([], None),
        ([("a", None), ("b", "")], None),
        ([("a", "one"), ("b", None)], "one"),
        ([("a", "one"), ("b", "two")], "# a\n\none\n\n# b\n\ntwo"),
    ],
)
def test_instructions_of_servers_are_joined_under_headings(said, merged):
    assert merge_instructions(said) == merged


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXT, TEXT)
def test_alias_is_a_uri_and_round_trips_server_and_uri(server, uri):
    alias = alias_of(server, uri)
    assert read_alias(alias) == (server, uri)
    assert is_uri(alias)


@pytest.mark.system("L-O9")
def test_alias_contains_the_server_and_the_encoded_uri():
    assert alias_of("files", "file:///a b") == "mcpgw://files/file%3A%2F%2F%2Fa%20b"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///a",
        "mcpgw:",
        "mcpgw://files",
        "mcpgw://files/%ff",
        "mcpgw://files/file:///a",
        "mcpgw://files/a%2fb",
        "mcpgw://a/b/c",
        "MCPGW://files/a",
    ],
)
def test_uri_not_in_the_canonical_form_is_not_an_alias(uri):
    assert read_alias(uri) is None


NAMES = {"a:b": "mcpgw://x/a%3Ab"}


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([{"uri": "a:b", "text": "1"}], [{"uri": "mcpgw://x/a%3Ab", "text": "1"}]),
        ([{"uri": "c:d"}, 5, {"uri": 5}, {}], None),
        ([], None),
        (None, None),
        ({"uri": "a:b"}, None),
    ],
)
def test_contents_get_the_uris_that_clients_know(contents, expected):
    result = {"contents": contents}
    renamed = replace_uris(result, "contents", NAMES)
    if expected is None:
        assert renamed is result
    else:
        assert renamed == {"contents": expected}


LINK = {"type": "resource_link", "uri": "a:b", "name": "n"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a:b", "text": "1"}}
OTHER = {"type": "text", "text": "a:b"}


@pytest.mark.system("L-O9")
def test_links_and_embedded_resources_of_a_result_get_the_alias():
    assert has_links({"content": [OTHER, LINK]})
    assert has_links({"content": [EMBEDDED]})
    result = {"content": [LINK, EMBEDDED, OTHER, 5, {"type": "resource"}], "x": 1}
    changed = replace_links(result, NAMES)
    assert changed == {
        "content": [
            {**LINK, "uri": "mcpgw://x/a%3Ab"},
            {"type": "resource", "resource": {"uri": "mcpgw://x/a%3Ab", "text": "1"}},
            OTHER,
            5,
            {"type": "resource"},
        ],
        "x": 1,
    }
    assert result["content"][0] is LINK


@pytest.mark.parametrize(
    "result", [{}, {"content": None}, {"content": []}, {"content": [OTHER]}]
)
def test_result_without_such_links_is_the_same_object(result):
    assert replace_links(result, NAMES) is result
    assert not has_links(result)
