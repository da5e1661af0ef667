"""What a POST of a session holds."""

import pytest

from mcpwire.errors import InvalidRequest
from mcpwire.protocol.serving.sessions.batches import (
    Malformed,
    check_batch,
    read_message,
)
from mcpwire.versions import REVISIONS
from mcpwire.wire import jsonrpc

BATCHING = REVISIONS[1]


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
