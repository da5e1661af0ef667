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
from mcpwire.gateway.task_ids import TaskIds, with_task_id
from mcpwire.gateway.translation import passed_error
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


KEYS = (b"k" * 32,)
ANN, BOB = ("issuer", None, "ann"), ("issuer", None, "bob")


def test_an_id_of_a_task_names_it_for_its_owner_alone():
    ids = TaskIds(KEYS, ANN)
    name = ids.claim("a", "1")
    assert name.startswith("1.")
    assert ids.claim("a", "1") == name
    assert ids.find(name, ["b", "a"]) == ("a", "1")
    assert ids.find(name, ["b"]) is None
    assert TaskIds(KEYS, BOB).find(name, ["a"]) is None
    for none in ("1", "2" + name[1:], name + "x", "\udc80", "", 1, None):
        assert ids.find(none, ["a", "b"]) is None


def test_two_servers_with_the_same_id_are_told_apart():
    ids = TaskIds(KEYS, ANN)
    names = {ids.claim(server, "1"): server for server in "ab"}
    for name, server in names.items():
        assert ids.find(name, "ab") == (server, "1")


def test_an_id_is_good_as_long_as_its_key():
    name = TaskIds(KEYS, ANN).claim("a", "1")
    newer = TaskIds((b"n" * 32, *KEYS), ANN)
    assert newer.find(name, ["a"]) == ("a", "1")
    assert newer.claim("a", "1") != name
    assert TaskIds((b"n" * 32,), ANN).find(name, ["a"]) is None


def test_the_task_that_was_used_longest_ago_is_forgotten_first():
    ids = TaskIds(KEYS, ANN, limit=2)
    for raw in ("1", "2", "1", "3"):
        ids.claim("a", raw)
    assert ids.name("a", "2") is None
    assert ids.name("b", "1") is None
    assert ids.name("a", "1") == ids.claim("a", "1")


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
