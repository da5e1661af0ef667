"""Notifications as users see them: typed where the method is known."""

import pytest

from mcpwire import types
from mcpwire.errors import InvalidMessage
from mcpwire.protocol.methods import METHODS, Kind
from mcpwire.protocol.subscriptions import Notification, typed_notification

NAMES = sorted({spec.name for spec in METHODS if spec.kind is Kind.NOTIFICATION})
TASK = {
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
    "tasks": {**TASK, "ttlMs": None},
    "tasks/status": {**TASK, "ttl": None},
}
META_KEY = "io.modelcontextprotocol/subscriptionId"


def params_of(name):
    """Return the smallest params that a method may have."""
    return PARAMS.get(name.removeprefix("notifications/"), {})


@pytest.mark.parametrize("name", NAMES)
def test_a_known_notification_has_the_params_its_row_names(name):
    params = params_of(name)
    notification = typed_notification(name, params)
    named = {spec.params for spec in METHODS if spec.name == name}
    assert notification.method == name
    assert type(notification.params).__name__ in named
    assert types.encode(notification.params) == params


@pytest.mark.parametrize("name", [name for name in NAMES if not params_of(name)])
def test_a_notification_that_needs_no_params_may_come_without(name):
    assert typed_notification(name, None) == typed_notification(name, {})


def test_typed_params_hold_what_was_sent():
    params = PARAMS["message"] | {"logger": "db", "x": 1, "_meta": {META_KEY: 3}}
    before = repr(params)
    typed = typed_notification("notifications/message", params).params
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
    assert typed_notification(name, params) == Notification(name, params)


@pytest.mark.parametrize(
    ("name", "params", "path"),
    [
        ("progress", None, "ProgressNotificationParams.progressToken"),
        ("progress", {"progressToken": 1}, "ProgressNotificationParams.progress"),
        ("progress", {"progressToken": 1.5, "progress": 1},
         "ProgressNotificationParams.progressToken"),
        ("message", {"level": 7, "data": 1}, "LoggingMessageNotificationParams.level"),
        ("resources/updated", {"uri": None}, "ResourceUpdatedNotificationParams.uri"),
        ("cancelled", {"requestId": True}, "CancelledNotificationParams.requestId"),
        ("tools/list_changed", {"_meta": 1}, "NotificationParams._meta"),
    ],
)  # fmt: skip
def test_params_against_the_rules_are_refused_with_their_path(name, params, path):
    with pytest.raises(InvalidMessage) as raised:
        typed_notification(f"notifications/{name}", params)
    assert raised.value.path == path
