"""What a request says of its session, and what a POST of a session may hold."""

import pytest

from mcpwire.errors import InvalidRequest
from mcpwire.server.http.sessions import (
    Malformed,
    check_batch,
    check_version,
    lets_streams_pause,
    read_message,
)
from mcpwire.versions import REVISIONS
from mcpwire.wire import jsonrpc

SESSIONS = REVISIONS[:4]
BATCHING = REVISIONS[1]


@pytest.mark.rule("LHTTP-30")
def test_without_a_version_2025_03_26_is_assumed():
    assert check_version(None, REVISIONS).name == "2025-03-26"


@pytest.mark.parametrize("revision", SESSIONS, ids=str)
def test_each_revision_with_sessions_is_taken(revision):
    assert check_version(revision.name, REVISIONS) is revision


@pytest.mark.rule("LHTTP-31")
@pytest.mark.case("C05")
@pytest.mark.parametrize(
    "header", ["", "1", "2025-3-26", "2026-07-28", "2024-11-05", "x" * 1_000]
)
def test_another_version_is_refused_with_those_that_are_spoken(header):
    spoken = [r for r in REVISIONS if r.name != "2024-11-05"]
    with pytest.raises(InvalidRequest, match=r"2025-03-26, 2025-06-18") as caught:
        check_version(header, spoken)
    assert len(caught.value.message) < 200


def test_streams_pause_since_2025_11_25():
    assert [lets_streams_pause(r) for r in SESSIONS] == [False, False, False, True]


def test_a_message_is_read_as_what_it_is():
    value = jsonrpc.request(1, "ping")
    assert read_message(value) == jsonrpc.Request(1, "ping")


@pytest.mark.parametrize(
    ("value", "id", "is_request"),
    [
        (1, None, False),
        ([], None, False),
        ({}, None, False),
        ({"jsonrpc": "2.0", "id": 1, "method": 2}, 1, True),
        ({"jsonrpc": "2.0", "id": "1", "method": "m", "params": []}, "1", True),
        ({"jsonrpc": "2.0", "id": None, "method": "m"}, None, False),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, None, False),
        ({"jsonrpc": "2.0", "id": 1.0, "method": "m"}, None, False),
        ({"jsonrpc": "2.0", "id": 4, "result": []}, 4, False),
    ],
)
def test_what_is_no_message_is_answered_where_it_names_a_request(value, id, is_request):
    read = read_message(value)
    assert isinstance(read, Malformed)
    assert (read.id, read.is_request) == (id, is_request)
    assert read.refusal.code == -32600
    assert read.refusal.message == str(read.error)


@pytest.mark.rule("RPC-13", "RPC-15")
@pytest.mark.case("B06")
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_one_revision_has_batches(revision):
    if revision is BATCHING:
        check_batch([1], revision, 10)
        return
    with pytest.raises(InvalidRequest, match="2025-03-26 only"):
        check_batch([1], revision, 10)


@pytest.mark.attack("S13")
def test_a_batch_is_neither_empty_nor_too_long():
    with pytest.raises(InvalidRequest, match="must not be empty"):
        check_batch([], BATCHING, 10)
    check_batch([0] * 10, BATCHING, 10)
    with pytest.raises(InvalidRequest, match="longer than 10"):
        check_batch([0] * 11, BATCHING, 10)
