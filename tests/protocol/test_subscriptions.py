"""Filters of notifications, how many want what, and notifications with types."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.protocol.methods import METHODS, TASKS, Kind
from mcpwire.protocol.subscriptions import (
    Filter,
    Notification,
    SubscriptionCounts,
    decode_notification,
)

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"
UPDATED = "notifications/resources/updated"
TASK = "notifications/tasks"
ALL = Filter(
    tools=True, prompts=True, resources=True, uris=["b:", "a:"], task_ids=["t"]
)
ALL_PARAMS = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["a:", "b:"],
    "taskIds": ["t"],
}
FILTERS = st.builds(
    Filter,
    tools=st.booleans(),
    prompts=st.booleans(),
    resources=st.booleans(),
    uris=st.frozensets(st.sampled_from(["a:", "b:", "c:"])),
    task_ids=st.frozensets(st.sampled_from(["t", "u"])),
)


@pytest.mark.rule("SUB-01")
def test_a_filter_is_asked_for_in_the_words_of_the_specification():
    assert ALL.as_params() == ALL_PARAMS
    assert types.decode(types.SubscriptionFilter, ALL_PARAMS).extra is None
    named = {spec.listen_filter for spec in METHODS} - {None}
    assert set(ALL_PARAMS) == named


@pytest.mark.rule("SUB-01")
def test_what_is_not_wanted_is_not_named():
    assert Filter().as_params() == {}
    assert Filter(prompts=True, uris=()).as_params() == {"promptsListChanged": True}


@given(FILTERS)
def test_what_is_asked_for_reads_back(wanted):
    assert Filter.of(wanted.as_params()) == wanted


@pytest.mark.rule("SUB-08")
@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (None, Filter()),
        ([], Filter()),
        ("toolsListChanged", Filter()),
        ({"toolsListChanged": False, "x": True, "taskIds": None}, Filter()),
        ({"toolsListChanged": 1, "promptsListChanged": "true"}, Filter()),
        ({"promptsListChanged": True, "x": {}}, Filter(prompts=True)),
        ({"resourceSubscriptions": "a:"}, Filter()),
        ({"resourceSubscriptions": {"a:": True}}, Filter()),
        ({"resourceSubscriptions": ["a:", 7, None, "a:"]}, Filter(uris=["a:"])),
    ],
)
def test_an_acknowledgement_promises_only_what_it_says_clearly(raw, read):
    assert Filter.of(raw) == read


@pytest.mark.rule("SUB-08")
def test_what_was_asked_for_and_not_acknowledged_is_the_difference():
    honoured = Filter.of({"toolsListChanged": True, "resourceSubscriptions": ["a:"]})
    assert ALL.minus(honoured) == Filter(
        prompts=True, resources=True, uris=["b:"], task_ids=["t"]
    )
    assert not honoured.minus(ALL)


@pytest.mark.parametrize(
    ("capabilities", "left"),
    [
        (None, Filter()),
        ({}, Filter()),
        ({"tools": {}, "prompts": {"listChanged": False}, "resources": {}}, Filter()),
        ({"tools": {"listChanged": True}}, Filter(tools=True)),
        ({"prompts": {"listChanged": True}}, Filter(prompts=True)),
        ({"resources": {"listChanged": True}}, Filter(resources=True)),
        ({"resources": {"subscribe": True}}, Filter(uris=["a:", "b:"])),
        ({"extensions": {TASKS: {}}}, Filter(task_ids=["t"])),
        ({"tasks": {}}, Filter()),
    ],
)
def test_a_server_honours_what_it_declared(capabilities, left):
    assert ALL.restricted(capabilities) == left


@pytest.mark.parametrize(
    ("method", "params", "wanted"),
    [
        (TOOLS, None, Filter(tools=True)),
        (PROMPTS, {}, Filter(prompts=True)),
        (RESOURCES, {"x": 1}, Filter(resources=True)),
        (UPDATED, {"uri": "a:"}, Filter(uris=["a:"])),
        (TASK, {"taskId": "t"}, Filter(task_ids=["t"])),
    ],
)
def test_a_notification_is_in_the_filters_that_name_it(method, params, wanted):
    assert wanted.matches(method, params)
    assert ALL.matches(method, params)
    assert not ALL.minus(wanted).matches(method, params)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/message", {"level": "info", "data": 1}),
        ("notifications/progress", None),
        (UPDATED, None),
        (UPDATED, {}),
        (UPDATED, {"uri": ["a:"]}),
        (UPDATED, {"uri": "c:"}),
        (TASK, {"taskId": 7}),
        (TASK, {"taskId": "t/1"}),
    ],
)
def test_other_notifications_are_in_no_filter(method, params):
    assert not ALL.matches(method, params)


@pytest.mark.parametrize(
    ("uri", "is_matched"),
    [
        ("file:///d", True),
        ("file:///d/e/f", True),
        ("file:///d?x", True),
        ("file:///d#x", True),
        ("file:///dd", False),
        ("file:///", False),
        ("x:///a", True),
        ("x:///", True),
        ("x://", False),
    ],
)
def test_an_update_of_a_sub_resource_is_an_update_of_the_resource(uri, is_matched):
    wanted = Filter(uris=["file:///d", "x:///"])
    assert wanted.matches(UPDATED, {"uri": uri}) is is_matched


def test_one_string_is_no_collection_of_them():
    with pytest.raises(ValueError, match="'file:///a'"):
        Filter(uris="file:///a")


@given(FILTERS, FILTERS)
def test_filters_are_sets(one, other):
    assert one | other == other | one
    assert (one | other).minus(other) == one.minus(other)
    assert one.minus(other) | (one.minus(one.minus(other))) == one
    assert bool(one) is (one != Filter())
    assert hash(one) == hash(one | one)


def test_what_was_never_added_cannot_be_removed_and_nothing_else_is():
    counts = SubscriptionCounts()
    counts.add(Filter(tools=True))
    with pytest.raises(ValueError, match=r"wants \{'promptsListChanged': True\}$"):
        counts.remove(Filter(tools=True, prompts=True))
    assert counts.current == Filter(tools=True)
    counts.remove(Filter(tools=True))
    with pytest.raises(ValueError, match="toolsListChanged"):
        counts.remove(Filter(tools=True))


TWO_WANTS, ANOTHER = Filter(tools=True, uris=["a:"]), Filter(uris=["a:", "b:"])


def wants(wanted):
    """Return the single wants of a filter as the model counts them."""
    return {
        (name, subject)
        for name, value in wanted.as_params().items()
        for subject in (value if isinstance(value, list) else [True])
    }


@example(
    [
        *((True, wanted) for wanted in (TWO_WANTS, ANOTHER)),
        *((False, wanted) for wanted in (TWO_WANTS, ANOTHER)),
    ]
)
@given(st.lists(st.tuples(st.booleans(), FILTERS), max_size=20))
def test_counts_are_a_multiset_of_single_wants(steps):
    counts, model = SubscriptionCounts(), Counter()
    for is_added, wanted in steps:
        atoms, before = wants(wanted), set(+model)
        if is_added:
            model.update(atoms)
            assert wants(counts.add(wanted)) == atoms - before
        elif atoms <= before:
            model.subtract(atoms)
            assert wants(counts.remove(wanted)) == before - set(+model)
        else:
            with pytest.raises(ValueError, match="nobody wants"):
                counts.remove(wanted)
        assert wants(counts.current) == set(+model)


# Notifications as users see them...

NAMES = sorted({spec.name for spec in METHODS if spec.kind is Kind.NOTIFICATION})
STANDING = {
    "taskId": "t",
    "status": "working",
    "createdAt": "2025-11-25T10:00:00Z",
    "lastUpdatedAt": "2025-11-25T10:00:00Z",
}
PARAMS = {
    "cancelled": {"requestId": 7, "reason": "enough"},
    "elicitation/complete": {"elicitationId": "e"},
    "message": {"level": "info", "data": {"a": [1]}},
    "progress": {"progressToken": "p", "progress": 0.5},
    "resources/updated": {"uri": "file:///a"},
    "subscriptions/acknowledged": {"notifications": {"toolsListChanged": True}},
    "tasks": {**STANDING, "ttlMs": None},
    "tasks/status": {**STANDING, "ttl": None},
}
META_KEY = "io.modelcontextprotocol/subscriptionId"


def params_of(name):
    """Return the smallest params that a method may have."""
    return PARAMS.get(name.removeprefix("notifications/"), {})


@pytest.mark.parametrize("name", NAMES)
def test_a_known_notification_has_the_params_its_row_names(name):
    params = params_of(name)
    notification = decode_notification(name, params)
    named = {spec.params for spec in METHODS if spec.name == name}
    assert notification.method == name
    assert type(notification.params).__name__ in named
    assert types.encode(notification.params) == params


@pytest.mark.parametrize("name", [name for name in NAMES if not params_of(name)])
def test_a_notification_that_needs_no_params_may_come_without(name):
    assert decode_notification(name, None) == decode_notification(name, {})


def test_typed_params_hold_what_was_sent():
    params = PARAMS["message"] | {"logger": "db", "x": 1, "_meta": {META_KEY: 3}}
    before = repr(params)
    typed = decode_notification("notifications/message", params).params
    assert (typed.level, typed.data, typed.logger) == ("info", {"a": [1]}, "db")
    assert typed.extra == {"x": 1}
    assert typed.meta == {META_KEY: 3}
    assert repr(params) == before


@pytest.mark.rule("RPC-33")
@pytest.mark.parametrize(
    "name",
    ["notifications/x", "x", "", "notifications/tools/list", "tools/call", "ping"],
)
@pytest.mark.parametrize("params", [None, {}, {"name": 7}, {"_meta": "odd"}])
def test_an_unknown_notification_keeps_its_params_as_they_came(name, params):
    assert decode_notification(name, params) == Notification(name, params)


@pytest.mark.parametrize(
    ("name", "params", "path"),
    [
        ("progress", None, "ProgressNotificationParams.progressToken"),
        ("resources/updated", {"uri": None}, "ResourceUpdatedNotificationParams.uri"),
        ("tools/list_changed", {"_meta": 1}, "NotificationParams._meta"),
    ],
)  # fmt: skip
def test_params_against_the_rules_are_refused_with_their_path(name, params, path):
    with pytest.raises(InvalidMessage) as raised:
        decode_notification(f"notifications/{name}", params)
    assert raised.value.path == path
