"""Notifications: filters, subscription counts, types, the buffer of a consumer."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proportion import grows_in_proportion

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.protocol.methods import METHODS, TASKS, Kind
from mcpwire.protocol.subscriptions import (
    EventBuffer,
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


# The event buffer of one consumer: ordered, coalesced, bounded...


MESSAGE = "notifications/message"
LISTS = sorted(spec.name for spec in METHODS if spec.name.endswith("/list_changed"))


def drain(buffer):
    return [buffer.pop() for _ in range(len(buffer))]


def log(number):
    return MESSAGE, {"level": "info", "data": number}


def updated(uri, **more):
    return UPDATED, {"uri": uri, **more}


def is_kept(uri):
    return uri.startswith("kept:")


def test_pop_from_an_empty_buffer_is_an_index_error():
    with pytest.raises(IndexError, match="no notification waits"):
        EventBuffer(1).pop()


@pytest.mark.parametrize(
    "event",
    [
        *((name, None) for name in LISTS),
        updated("a:"),
        ("notifications/tasks", {"taskId": "t"}),
        ("notifications/tasks/status", {"taskId": "t"}),
        ("notifications/elicitation/complete", {"elicitationId": "e"}),
    ],
)
def test_events_of_one_subject_are_coalesced_with_the_newest_params(event):
    method, params = event
    newest = {**(params or {}), "_meta": {"n": 2}}
    buffer = EventBuffer(10)
    buffer.put(*event)
    buffer.put(*log(1))
    assert buffer.put(method, newest) is False
    assert buffer
    assert drain(buffer) == [(method, newest), log(1)]
    assert not buffer
    assert buffer.put(*event) is True


@pytest.mark.system("L-A10")
@pytest.mark.parametrize("method", LISTS)
def test_list_change_is_never_dropped(method):
    buffer = EventBuffer(2)
    buffer.put(method, None)
    for number in range(50):
        buffer.put(*log(number))
    assert drain(buffer) == [(method, None), log(48), log(49)]
    assert buffer.dropped == 48


def test_wanted_update_stays_protected_after_it_is_unwanted():
    wanted_uris = set()
    buffer = EventBuffer(1, wanted_uris.__contains__)
    buffer.put(*updated("a:"))
    wanted_uris.add("a:")
    buffer.put(*updated("a:", n=2))
    wanted_uris.clear()
    buffer.put(*updated("a:", n=3))
    buffer.put(*log(1))
    buffer.put(*log(2))
    assert drain(buffer) == [updated("a:", n=3), log(2)]


@pytest.mark.parametrize(
    "event",
    [
        (UPDATED, None),
        (UPDATED, {}),
        updated(None),
        updated(["kept:a"]),
        ("notifications/tasks", {"taskId": 7}),
        ("notifications/invented/list_changed", None),
    ],
)
def test_event_without_a_known_subject_is_ordinary(event):
    buffer = EventBuffer(2, is_kept)
    for _ in range(3):
        assert buffer.put(*event) is True
    assert drain(buffer) == [event] * 2
    assert buffer.dropped == 1


def test_clear_removes_events_and_keeps_the_counters():
    buffer = EventBuffer(1)
    for event in (log(1), log(2), (LISTS[0], None), (LISTS[0], None)):
        buffer.put(*event)
    buffer.clear()
    assert (len(buffer), buffer.dropped) == (0, 1)
    buffer.put(*log(3))
    assert drain(buffer) == [log(3)]


def flooded_buffer(count, limit):
    """Return a buffer after so many events of all kinds."""
    buffer = EventBuffer(limit, {f"kept:{n}" for n in range(10)}.__contains__)
    kinds = (
        log,
        lambda n: updated(f"kept:{n}"),
        lambda n: (f"notifications/{n}/list_changed", None),
        lambda n: ("notifications/tasks", {"taskId": str(n)}),
        lambda _: (LISTS[0], None),
    )
    for number in range(count):
        buffer.put(*kinds[number % len(kinds)](number))
    return buffer


@pytest.mark.fault("F16")
def test_cost_of_an_event_does_not_depend_on_the_buffer_size():
    def put_and_take(count):
        buffer = flooded_buffer(count, count // 8)
        assert len(buffer) <= count // 8 + 10 + 1
        drain(buffer)

    assert grows_in_proportion(put_and_take, int, 40_000)


EVENTS = st.one_of(
    st.integers(0, 9).map(log),
    st.sampled_from(["kept:a", "kept:b", "c:", "d:"]).map(updated),
    st.sampled_from(LISTS).map(lambda name: (name, None)),
)


@example(3, [log(1), updated("c:"), None, log(2), log(3), log(4), log(5), log(6)])
@example(2, [*map(updated, ("kept:a", "c:", "kept:b")), *map(log, range(5))])
@example(0, [log(1), (LISTS[0], None)])
@given(st.integers(0, 4), st.lists(st.one_of(EVENTS, st.none()), max_size=40))
def test_order_bounds_and_counters_hold_in_any_sequence(limit, steps):
    """A step is a notification to put, or None to pop one."""
    buffer = EventBuffer(limit, is_kept)
    model = []  # (event, subject or None, is ordinary), oldest first
    put_count = pop_count = coalesced = 0
    for step in steps:
        if step is None:
            if model:
                assert buffer.pop() == model.pop(0)[0]
                pop_count += 1
            continue
        put_count += 1
        method, params = step
        subject = None if method == MESSAGE else (method, (params or {}).get("uri"))
        is_protected = method in LISTS or is_kept((params or {}).get("uri") or "")
        is_coalesced = subject is not None and subject in [entry[1] for entry in model]
        assert buffer.put(method, params) is not is_coalesced
        coalesced += is_coalesced
        if not is_coalesced:
            model.append((step, subject, not is_protected))
            ordinary = [entry for entry in model if entry[2]]
            if len(ordinary) > limit:
                model.remove(ordinary[0])
    assert drain(buffer) == [entry[0] for entry in model]
    assert put_count == pop_count + len(model) + buffer.dropped + coalesced


def test_oldest_ordinary_events_are_dropped_beyond_the_byte_limit():
    buffer = EventBuffer(1_000, max_bytes=100)
    for number, size in enumerate([40, 40, 20, 30]):
        buffer.put(*log(number), size)
    assert buffer.dropped == 1
    assert drain(buffer) == [log(1), log(2), log(3)]
    buffer.put(*log(9), 101)
    assert (len(buffer), buffer.dropped) == (0, 2)
    buffer.put(*log(10), 100)
    buffer.clear()
    buffer.put(*log(11), 100)
    assert drain(buffer) == [log(11)]


def test_coalesced_event_counts_with_its_newest_size():
    buffer = EventBuffer(10, max_bytes=100)
    for size in (90, 10, 80):
        buffer.put(*updated("a:"), size)
    buffer.put(*log(1), 20)
    assert drain(buffer) == [updated("a:"), log(1)]


def test_protected_events_do_not_count_and_are_trimmed_if_large():
    buffer = EventBuffer(10, is_kept, max_bytes=10)
    buffer.put(*updated("kept:a", extra="x" * 99_000), 100_000)
    buffer.put(LISTS[0], {"_meta": {"x": "y" * 99_000}}, 100_000)
    buffer.put(*updated("kept:b", extra=1), 10)
    buffer.put(*log(1), 10)
    assert drain(buffer) == [
        updated("kept:a"),
        (LISTS[0], None),
        updated("kept:b", extra=1),
        log(1),
    ]


def test_event_that_becomes_protected_frees_its_bytes():
    wanted_uris = set()
    buffer = EventBuffer(10, wanted_uris.__contains__, max_bytes=10)
    buffer.put(*updated("a:"), 10)
    wanted_uris.add("a:")
    buffer.put(*updated("a:"), 10)
    buffer.put(*log(1), 10)
    assert drain(buffer) == [updated("a:"), log(1)]
