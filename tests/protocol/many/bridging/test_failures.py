"""What went wrong behind the gateway, in an error that a client can read."""

from __future__ import annotations

import pytest

from mcpwire.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
)
from mcpwire.protocol.many.bridging.failures import passed_error
from mcpwire.protocol.many.bridging.ids import TaskIds, with_task_id
from mcpwire.types.meta import RELATED_TASK


def test_what_the_server_answered_goes_through():
    error = RPCError("no", code=-31999, data={"a": [1, None]})
    passed = passed_error("up", "tools/call", error)
    assert (passed.code, passed.message, passed.data) == (-31999, "no", error.data)
    assert passed is not error


@pytest.mark.parametrize(
    ("error", "kind", "data"),
    [
        (LocalProtocolError("inf at $.a"), InvalidParams, None),
        (
            ConnectionClosed("gone", sent=True),
            InternalError,
            {"server": "up", "error": "ConnectionClosed", "sent": True},
        ),
        (
            RequestTimeout(method="tools/call", timeout=2.0, elapsed=2.1),
            InternalError,
            {"server": "up", "error": "RequestTimeout", "timeout": 2.0},
        ),
        (
            RemoteProtocolError("nonsense"),
            InternalError,
            {"server": "up", "error": "RemoteProtocolError"},
        ),
    ],
)
def test_what_failed_on_the_way_says_what_it_was(error, kind, data):
    passed = passed_error("up", "tools/call", error)
    assert type(passed) is kind
    assert passed.data == data
    assert "'up'" in passed.message
    assert "tools/call" in passed.message


def test_an_id_of_a_task_stays_what_its_server_calls_it():
    ids = TaskIds()
    assert ids.claim("a", "1") == "1"
    assert ids.claim("a", "1") == "1"
    assert ids.owner("1") == ("a", "1")
    assert len(ids) == 1
    assert ids.owner("2") is None
    assert ids.owner(1) is None


def test_two_servers_with_the_same_id_are_told_apart():
    ids = TaskIds()
    ids.claim("a", "b/1")
    ids.claim("a", "1")
    assert ids.claim("b", "1") == "b/b/1"
    assert ids.owner("b/b/1") == ("b", "1")
    assert ids.owner("1") == ("a", "1")


def test_the_task_that_was_used_longest_ago_is_forgotten_first():
    ids = TaskIds(limit=2)
    ids.claim("a", "1")
    ids.claim("a", "2")
    ids.owner("1")
    ids.claim("a", "3")
    assert ids.owner("2") is None
    assert ids.owner("1") == ("a", "1")
    assert len(ids) == 2


def test_what_says_something_of_a_task_says_it_under_the_name_that_clients_know():
    plain = {"taskId": "1", "status": "working"}
    assert with_task_id(plain, "1", "1") is plain
    assert with_task_id(plain, "1", "b/1") == {"taskId": "b/1", "status": "working"}
    created = {"task": {"taskId": "1", "ttl": None}}
    assert with_task_id(created, "1", "b/1") == {"task": {"taskId": "b/1", "ttl": None}}
    related = {"content": [], "_meta": {RELATED_TASK: {"taskId": "1"}, "k": 1}}
    assert with_task_id(related, "1", "b/1") == {
        "content": [],
        "_meta": {RELATED_TASK: {"taskId": "b/1"}, "k": 1},
    }
    others = {"taskId": "2", "task": 5, "_meta": {RELATED_TASK: 5}}
    assert with_task_id(others, "1", "b/1") == others
    assert with_task_id({"task": {"taskId": "2"}, "_meta": 5}, "1", "b/1") == {
        "task": {"taskId": "2"},
        "_meta": 5,
    }
