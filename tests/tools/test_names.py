"""Names of the tools of many servers: unique, bounded, stable, found in a table."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire.errors import NameCollision
from mcpwire.tools import names as names_module
from mcpwire.tools.names import Collision, NamePolicy, server_labels

NICE = re.compile(r"[A-Za-z0-9_-]{1,64}")
PARTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["a", "a_", "_a", "__", "a__b", "b", "a b", "a.b", "a-b", ""]),
    st.sampled_from(["a" * 60 + "x", "a" * 60 + "y", "a" * 90, "b_" * 30]),
)
OWNERS = st.lists(st.tuples(PARTS, PARTS), max_size=8)
POLICIES = st.builds(
    NamePolicy,
    st.sampled_from(
        ["mcp__{server}__{tool}", "{server}_{tool}", "{tool}", "{tool}-{server}"]
    ),
    max_length=st.sampled_from([16, 17, 20, 26, 27, 64]),
)


def by_owner(table, owners):
    return {owner: table.name_of(*owner) for owner in owners}


NAMES = [
    (NamePolicy(), "time", "now", "mcp__time__now"),
    (NamePolicy.bare(), "time", "now", "now"),
    (NamePolicy("{{x_{tool}", normalise="none"), "time", "now", "{x_now"),
    (NamePolicy("{tool}.{server}", charset="a-z0-9_."), "t", "n", "n.t"),
    (NamePolicy(), "a__b", "c__d", "mcp__a__b__c__d"),
    (NamePolicy(), "my-server", "x", "mcp__my-server__x"),
    (NamePolicy(), "my server", "x", "mcp__my_server__x"),
    (NamePolicy(), "my.server", "x", "mcp__my_server__x"),
    (NamePolicy(charset="A-Za-z0-9_"), "my-server", "x", "mcp__my_server__x"),
    (NamePolicy(charset="A-Za-z0-9_"), "my server", "x", "mcp__my_server__x"),
    (NamePolicy(charset="A-Za-z0-9_"), "my.server", "x", "mcp__my_server__x"),
    (NamePolicy(), "naïve", "größe", "mcp__na_ve__gr__e"),
    (NamePolicy(), "", "", "mcp____"),
    (NamePolicy(), "{server}", "{tool}", "mcp___server____tool_"),
    (NamePolicy(), "\ud800", "x", "mcp_____x"),
    (NamePolicy.bare(), "a", "日", "_"),
    (NamePolicy("{tool}", normalise="none"), "a", "größe x", "größe x"),
    (NamePolicy(normalise=str.upper), "my.server", "x", "mcp__MY_SERVER__X"),
]


@pytest.mark.system("V11", "A70", "L-A17", "L-R14", "R07")
@pytest.mark.parametrize(("policy", "server", "tool", "name"), NAMES)
def test_name_follows_the_template_and_charset(policy, server, tool, name):
    table = policy.table([(server, tool)])
    assert list(table) == [name]
    assert table.find(name) == (server, tool)
    assert (table.collisions, table.shortened) == ((), ())


def test_each_preset_is_a_template():
    presets = (NamePolicy.claude, NamePolicy.plain, NamePolicy.proxy, NamePolicy.bare)
    assert [preset().template for preset in presets] == [
        "mcp__{server}__{tool}",
        "{server}__{tool}",
        "{server}_{tool}",
        "{tool}",
    ]


def test_label_replaces_the_tool_name_but_not_the_owner():
    owners = [("a", "x"), ("a", "y")]
    table = NamePolicy().table(owners, labels={("a", "x"): "y2"})
    assert by_owner(table, owners) == {
        ("a", "x"): "mcp__a__y2",
        ("a", "y"): "mcp__a__y",
    }


def test_unknown_name_or_owner_is_not_found():
    table = NamePolicy().table([("a", "x")])
    assert table.find("mcp__b__x") is None
    assert table.name_of("b", "x") is None
    assert len(table) == 1


@pytest.mark.system("L-R14", "L-A17")
@pytest.mark.parametrize("length", [1, 53, 54, 55, 64, 200, 10_000])
def test_long_name_is_shortened_and_recorded(length):
    tool = "t" * length
    table = NamePolicy().table([("srv", tool)])
    (name,) = table
    full = f"mcp__srv__{tool}"
    assert len(name) == min(len(full), 64)
    assert table.shortened == ((name,) if len(full) > 64 else ())
    assert table.find(name) == ("srv", tool)


@pytest.mark.system("L-R14")
def test_shortened_names_keep_prefix_and_distinct_suffix():
    same = "get_the_" + "very_" * 40
    owners = [("srv", same + end) for end in ("document_by_id", "document_by_name")]
    table = NamePolicy().table(owners)
    first, second = table
    assert first.startswith("mcp__srv__")
    assert first.endswith("_very_document_by_id")
    assert second.endswith("_very_document_by_name")
    assert table.collisions == ()


def test_names_are_not_shortened_without_a_limit():
    policy = NamePolicy(max_length=None)
    table = policy.table([("a", "x" * 500), ("a.b", "y" * 500), ("a b", "y" * 500)])
    assert max(map(len, table)) > 500
    assert table.shortened == ()
    assert len(table) == 3


def test_a_shortened_name_is_the_same_in_every_run():
    (name,) = NamePolicy().table([("server", "x" * 100)])
    assert name == "mcp__server__xxxxx_94150538_" + "x" * 36


COLLIDING = [("my.server", "x"), ("my server", "x"), ("other", "x")]


@pytest.mark.rule("TOOL-09")
@pytest.mark.system("L-R4", "A71")
def test_colliding_names_each_get_a_suffix():
    table = NamePolicy().table(COLLIDING)
    first, second, third = table
    assert re.fullmatch(r"mcp__my_server__x_[0-9a-f]{8}", first)
    assert re.fullmatch(r"mcp__my_server__x_[0-9a-f]{8}", second)
    assert first != second
    assert third == "mcp__other__x"
    assert table.collisions == (
        Collision("mcp__my_server__x", tuple(COLLIDING[:2]), "suffix"),
    )
    assert str(table.collisions[0]) == (
        "'mcp__my_server__x' would be 'x' of 'my.server', 'x' of 'my server': suffix"
    )


@pytest.mark.system("L-R4")
def test_on_collision_raise_reports_the_collision():
    with pytest.raises(NameCollision) as caught:
        NamePolicy(on_collision="raise").table(COLLIDING)
    assert caught.value.name == "mcp__my_server__x"
    assert caught.value.owners == tuple(COLLIDING[:2])


@pytest.mark.system("A71", "R14")
def test_on_collision_first_gives_the_name_to_the_first():
    table = NamePolicy(on_collision="first").table(COLLIDING)
    assert list(table) == ["mcp__my_server__x", "mcp__other__x"]
    assert table.find("mcp__my_server__x") == ("my.server", "x")
    assert table.name_of("my server", "x") is None
    assert [each.resolution for each in table.collisions] == ["first"]


@pytest.mark.system("A71", "R14")
@pytest.mark.parametrize("rule", ["suffix", "first", "raise"])
def test_reserved_name_is_not_assigned(rule):
    policy = NamePolicy("{tool}", on_collision=rule)
    if rule == "raise":
        with pytest.raises(NameCollision):
            policy.table([("a", "edit")], reserved=["edit"])
        return
    table = policy.table([("a", "edit"), ("a", "view")], reserved=["edit"])
    assert table.find("edit") is None
    assert len(table) == (2 if rule == "suffix" else 1)
    (collision,) = table.collisions
    assert collision.owners == (("", "edit"), ("a", "edit"))


def test_tool_named_like_a_suffixed_name_stays_distinct():
    first = NamePolicy().table(COLLIDING)
    spoof = first.name_of("my.server", "x").removeprefix("mcp__my_server__")
    owners = [*COLLIDING, ("my_server", spoof)]
    table = NamePolicy().table(owners)
    assert len(set(table)) == 4
    for owner in owners:
        assert table.find(table.name_of(*owner)) == owner


@pytest.mark.parametrize(
    "policy", [NamePolicy("{tool}"), NamePolicy("{tool}", max_length=None)]
)
def test_server_cannot_block_names_of_another_server(policy):
    victim = ("good", "x")
    names = [victim, ("evil", "x")]
    # It takes the name that the other tool will get, with ever more of its hash.
    for _ in range(len(names_module.HASH_LENGTHS)):
        names.append(("evil", policy.table(names).name_of(*victim)))
    tables = [policy.table(each) for each in (names, names[::-1])]
    assert by_owner(tables[0], names) == by_owner(tables[1], names)
    for table in tables:
        assert len(table) == len(names)
        for owner in names:
            assert table.find(table.name_of(*owner)) == owner


def test_collision_of_the_full_hash_is_an_error():
    policy = NamePolicy("{tool}", max_length=None)
    reserved = ["x"]
    for _ in names_module.HASH_LENGTHS:
        reserved.append(policy.table([("a", "x")], reserved=reserved).name_of("a", "x"))
    with pytest.raises(NameCollision):
        policy.table([("a", "x")], reserved=reserved)


def test_equal_hashes_are_a_name_collision(monkeypatch):
    same = SimpleNamespace(hexdigest=lambda: "0" * 64)
    monkeypatch.setattr("hashlib.sha256", lambda _: same)
    with pytest.raises(NameCollision):
        NamePolicy().table(COLLIDING)
    assert len(NamePolicy().table(COLLIDING[1:])) == 2


@pytest.mark.system("L-V9")
@given(POLICIES, OWNERS)
@example(NamePolicy.bare(), [("a", "")])
@example(NamePolicy(), [("a__b", "c"), ("a", "b__c")])
@example(NamePolicy(max_length=16), [("a", "b" * 40), ("a", "c" * 40)])
def test_names_and_tools_map_one_to_one(policy, owners):
    table = policy.table(owners)
    assert len(table) == len(set(owners)) == len(set(table))
    for owner in owners:
        assert table.find(table.name_of(*owner)) == owner
    for name in table:
        assert len(name) <= policy.max_length
        assert NICE.fullmatch(name)


@given(POLICIES, OWNERS, st.randoms(use_true_random=False))
def test_names_do_not_depend_on_the_order_of_servers(policy, owners, random):
    shuffled = list(owners)
    random.shuffle(shuffled)
    assert by_owner(policy.table(owners), owners) == by_owner(
        policy.table(shuffled), owners
    )


@given(POLICIES, OWNERS, OWNERS)
def test_names_stay_when_tools_without_collisions_are_added(policy, owners, more):
    before = policy.table(owners)
    after = policy.table([*owners, *more])
    touched = {owner for collision in after.collisions for owner in collision.owners}
    for owner in set(owners) - touched:
        assert after.name_of(*owner) == before.name_of(*owner)


@given(OWNERS)
def test_on_collision_first_follows_the_order_of_owners(owners):
    policy = NamePolicy(on_collision="first")
    table = policy.table(owners)
    for index, owner in enumerate(owners):
        alone = policy.table([owner])
        taken = {table.name_of(*each) for each in owners[:index]} - {None}
        (name,) = alone
        if owner not in owners[:index]:
            assert table.name_of(*owner) == (None if name in taken else name)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"template": "{server}"}, "template must have {tool}, got '{server}'"),
        ({"template": "{tool}{x}"}, "nothing else in braces, got '{tool}{x}'"),
        ({"template": "{tool}{}"}, "nothing else in braces"),
        ({"template": "{tool!r}"}, "nothing else in braces"),
        ({"template": "{tool:9}"}, "nothing else in braces"),
        ({"template": "{tool"}, "template is not a format string, got '{tool'"),
        ({"template": "a.{tool}"}, "what charset lacks, in 'a.' of 'a.{tool}'"),
        ({"max_length": 15}, "max_length must be 16 or more, or None, got 15"),
        ({"max_length": True}, "max_length must be 16"),
        ({"max_length": 20.0}, "max_length must be 16"),
        ({"charset": "a-z"}, "charset must have 0-9, a-f and '_', got 'a-z'"),
        ({"charset": "z-a"}, "the inside of a character class, got 'z-a'"),
        ({"normalise": "utf-8"}, "normalise must be 'ascii', 'none' or a function"),
        ({"on_collision": "last"}, "on_collision must be 'suffix', 'raise' or 'first'"),
    ],
)
def test_invalid_name_policy_is_refused(arguments, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        NamePolicy(**arguments)


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({}, []),
        ({"a": ("my_time.srv", "1")}, ["my-time-srv"]),
        ({"a": ("x", "1"), "b": ("y", "1")}, ["x", "y"]),
        ({"a": ("x", "1.0"), "b": ("x", "2")}, ["x-1-0", "x-2"]),
        (
            {"a": ("x", "1"), "b": ("x", "2"), "c": ("x", "1"), "d": ("x", "1")},
            ["x-1-1", "x-2", "x-1-2", "x-1-3"],
        ),
    ],
)
def test_server_labels_come_from_name_and_version(said, names):
    assert list(server_labels(said).values()) == names


def test_servers_option_replaces_the_server_name():
    table = NamePolicy.proxy().table([("a", "x"), ("b", "x")], servers={"a": "mine"})
    assert list(table) == ["mine_x", "b_x"]
    assert table.find("mine_x") == ("a", "x")
