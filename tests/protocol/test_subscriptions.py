"""Notification filters, subscription counts, and typed notifications."""

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
def test_filter_params_have_the_names_of_the_specification():
    assert ALL.as_params() == ALL_PARAMS
    assert types.decode(types.SubscriptionFilter, ALL_PARAMS).extra is None
    named = {spec.listen_filter for spec in METHODS} - {None}
    assert set(ALL_PARAMS) == named


@pytest.mark.rule("SUB-01")
def test_unwanted_notifications_are_absent_from_the_params():
    assert Filter().as_params() == {}
    assert Filter(prompts=True, uris=()).as_params() == {"promptsListChanged": True}


@given(FILTERS)
def test_filter_params_are_parsed_back(wanted_filter):
    assert Filter.of(wanted_filter.as_params()) == wanted_filter


@pytest.mark.rule("SUB-08")
@pytest.mark.parametrize(
    ("raw", "expected"),
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
def test_only_well_formed_members_of_an_acknowledgement_count(raw, expected):
    assert Filter.of(raw) == expected


@pytest.mark.rule("SUB-08")
def test_minus_returns_the_unacknowledged_part():
    honoured = Filter.of({"toolsListChanged": True, "resourceSubscriptions": ["a:"]})
    assert ALL.minus(honoured) == Filter(
        prompts=True, resources=True, uris=["b:"], task_ids=["t"]
    )
    assert not honoured.minus(ALL)


@pytest.mark.parametrize(
    ("capabilities", "restricted"),
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
def test_filter_is_restricted_to_the_declared_capabilities(capabilities, restricted):
    assert ALL.restricted(capabilities) == restricted


@pytest.mark.parametrize(
    ("method", "params", "wanted_filter"),
    [
        (TOOLS, None, Filter(tools=True)),
        (PROMPTS, {}, Filter(prompts=True)),
        (RESOURCES, {"x": 1}, Filter(resources=True)),
        (UPDATED, {"uri": "a:"}, Filter(uris=["a:"])),
        (TASK, {"taskId": "t"}, Filter(task_ids=["t"])),
    ],
)
def test_notification_matches_the_filter_that_names_it(method, params, wanted_filter):
    assert wanted_filter.matches(method, params)
    assert ALL.matches(method, params)
    assert not ALL.minus(wanted_filter).matches(method, params)


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
def test_other_notifications_match_no_filter(method, params):
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
def test_update_of_a_sub_resource_matches_the_resource(uri, is_matched):
    wanted_filter = Filter(uris=["file:///d", "x:///"])
    assert wanted_filter.matches(UPDATED, {"uri": uri}) is is_matched


def test_single_string_is_refused_as_a_collection():
    with pytest.raises(ValueError, match="'file:///a'"):
        Filter(uris="file:///a")


@given(FILTERS, FILTERS)
def test_filters_behave_like_sets(one, other):
    assert one | other == other | one
    assert (one | other).minus(other) == one.minus(other)
    assert one.minus(other) | (one.minus(one.minus(other))) == one
    assert bool(one) is (one != Filter())
    assert hash(one) == hash(one | one)


def test_removing_an_unknown_subscription_changes_no_count():
    counts = SubscriptionCounts()
    counts.add(Filter(tools=True))
    with pytest.raises(
        ValueError, match=r"not subscribed: \{'promptsListChanged': True\}$"
    ):
        counts.remove(Filter(tools=True, prompts=True))
    assert counts.current == Filter(tools=True)
    counts.remove(Filter(tools=True))
    with pytest.raises(ValueError, match="toolsListChanged"):
        counts.remove(Filter(tools=True))


FIRST, SECOND = Filter(tools=True, uris=["a:"]), Filter(uris=["a:", "b:"])


def atoms_of(wanted_filter):
    """Return the single subscriptions of a filter, as the model counts them."""
    return {
        (name, subject)
        for name, value in wanted_filter.as_params().items()
        for subject in (value if isinstance(value, list) else [True])
    }


@example(
    [
        *((True, wanted_filter) for wanted_filter in (FIRST, SECOND)),
        *((False, wanted_filter) for wanted_filter in (FIRST, SECOND)),
    ]
)
@given(st.lists(st.tuples(st.booleans(), FILTERS), max_size=20))
def test_counts_are_a_multiset_of_single_subscriptions(steps):
    counts, model = SubscriptionCounts(), Counter()
    for is_added, wanted_filter in steps:
        atoms, before = atoms_of(wanted_filter), set(+model)
        if is_added:
            model.update(atoms)
            assert atoms_of(counts.add(wanted_filter)) == atoms - before
        elif atoms <= before:
            model.subtract(atoms)
            assert atoms_of(counts.remove(wanted_filter)) == before - set(+model)
        else:
            with pytest.raises(ValueError, match="not subscribed"):
                counts.remove(wanted_filter)
        assert atoms_of(counts.current) == set(+model)


# Notifications decoded for users...

NAMES = sorted({spec.name for spec in METHODS if spec.kind is Kind.NOTIFICATION})
TASK_STATE = {
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
    "tasks": {**TASK_STATE, "ttlMs": None},
    "tasks/status": {**TASK_STATE, "ttl": None},
}
META_KEY = "io.modelcontextprotocol/subscriptionId"


def params_of(name):
    """Return the smallest valid params of a method."""
    return PARAMS.get(name.removeprefix("notifications/"), {})


@pytest.mark.parametrize("name", NAMES)
def test_known_notification_has_the_params_type_of_its_row(name):
    params = params_of(name)
    notification = decode_notification(name, params)
    named = {spec.params for spec in METHODS if spec.name == name}
    assert notification.method == name
    assert type(notification.params).__name__ in named
    assert types.encode(notification.params) == params


@pytest.mark.parametrize("name", [name for name in NAMES if not params_of(name)])
def test_optional_params_may_be_absent(name):
    assert decode_notification(name, None) == decode_notification(name, {})


def test_typed_params_hold_all_sent_members():
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
def test_unknown_notification_keeps_its_params(name, params):
    assert decode_notification(name, params) == Notification(name, params)


@pytest.mark.parametrize(
    ("name", "params", "path"),
    [
        ("progress", None, "ProgressNotificationParams.progressToken"),
        ("resources/updated", {"uri": None}, "ResourceUpdatedNotificationParams.uri"),
        ("tools/list_changed", {"_meta": 1}, "NotificationParams._meta"),
    ],
)  # fmt: skip
def test_invalid_params_are_refused_with_their_path(name, params, path):
    with pytest.raises(InvalidMessage) as raised:
        decode_notification(f"notifications/{name}", params)
    assert raised.value.path == path
