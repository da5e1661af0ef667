"""The wire check finds messages that our code must not send, and allows the rest."""

import json

import pytest
import wirecheck

from mcpwire.transports.duplex import Duplex
from mcpwire.transports.memory import memory_pair
from mcpwire.versions import REVISIONS, find_revision

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class FakeDuplex:
    """The part of a connection that the check uses."""

    def __init__(self, role="client", revision=None):
        self.role = role
        self.revision = find_revision(revision)


@pytest.fixture
def check(spec_dir):
    return wirecheck.WireCheck(wirecheck.load(spec_dir))


def line(value):
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def request(method, params=None, id=1):
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return line(message if params is None else {**message, "params": params})


def notification(method, params=None):
    message = {"jsonrpc": "2.0", "method": method}
    return line(message if params is None else {**message, "params": params})


GOOD = [
    ("client", None, request("server/discover", {"_meta": MODERN})),
    ("client", None, request("initialize", HELLO)),
    ("client", "2025-11-25", request("tools/call", {"name": "x"})),
    ("client", "2026-07-28", request("tasks/get", {"taskId": "t", "_meta": MODERN})),
    ("client", "2025-06-18", request("vendor/method", {"anything": [1]})),
    ("client", "2025-11-25", notification("notifications/cancelled", {"requestId": 1})),
    ("server", "2025-11-25", request("roots/list")),
    (
        "server",
        None,
        notification(
            "notifications/progress", {"progressToken": 1, "progress": 1, "total": 2}
        ),
    ),
    ("server", None, line({"jsonrpc": "2.0", "error": {"code": -1, "message": "x"}})),
    ("client", "2025-11-25", request("ping") + request("ping", id=2)),
    ("server", "2025-03-26", line([])),
]


@pytest.mark.parametrize(("role", "revision", "data"), GOOD)
def test_message_that_the_schema_allows_passes(check, role, revision, data):
    check.sent(FakeDuplex(role, revision), data)
    assert check.violations == []


BAD = [
    ("client", None, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "newline"),
    ("client", None, b'{"jsonrpc"\n', "is no JSON"),
    ("client", "2025-11-25", b'{"a":"\xff"}\n', "is no JSON in UTF-8"),
    ("client", "2025-11-25", line("ping"), "is no object"),
    ("client", "2025-11-25", line([]), "batch"),
    ("client", "2025-11-25", request("tools/call", {"name": 3}), "$.params.name: 3"),
    ("client", "2025-11-25", request("ping") + request("ping"), "id 1 is used again"),
    ("client", "2025-11-25", request("roots/list"), "a client may not send"),
    ("client", "2026-07-28", request("ping"), "a client may not send ping"),
    ("client", "2026-07-28", request("tools/list", {}), '"_meta" is a required'),
    ("server", None, request("roots/list"), "a server may not send"),
    ("server", "2025-11-25", line({"jsonrpc": "2.0", "id": 1, "result": {}}), "owed"),
    (
        "server",
        "2025-06-18",
        line({"jsonrpc": "2.0", "error": {"code": -1, "message": "x"}}),
        '"id" is a required',
    ),
]


@pytest.mark.parametrize(("role", "revision", "data", "complaint"), BAD)
def test_message_that_the_schema_refuses_is_found(
    check, role, revision, data, complaint
):
    check.sent(FakeDuplex(role, revision), data)
    assert any(complaint in found for found in check.violations), check.violations
    assert all(
        found.startswith(f"{role} at {revision or 'no revision'}: ")
        for found in check.violations
    )


def answer(result, id=1):
    return line({"jsonrpc": "2.0", "id": id, "result": result})


TASK = {
    "taskId": "t",
    "status": "working",
    "createdAt": "2025-12-01T10:00:00Z",
    "lastUpdatedAt": "2025-12-01T10:00:00Z",
    "ttl": None,
}
ASKS = {"name": "x", "task": {}}
TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
ANSWERS = [
    ("2025-11-25", "tools/list", {}, {}, '"tools" is a required'),
    ("2025-11-25", "vendor/x", {}, {"a": 1}, None),
    (None, "tools/list", {"_meta": MODERN}, {**TOOLS, **HINTS}, None),
    ("2025-11-25", "tools/call", ASKS, {"task": TASK}, None),
    ("2025-11-25", "tools/call", ASKS, {"content": []}, None),
    ("2025-11-25", "tools/call", ASKS, {"task": {}}, '"taskId" is a required'),
    ("2025-11-25", "tools/call", {"name": "x"}, {"task": TASK}, '"content" is a'),
    ("2025-06-18", "tools/call", ASKS, {"task": TASK}, '"content" is a required'),
    (None, "tools/list", {"_meta": MODERN}, TOOLS, '"resultType" is a required'),
    (
        None,
        "initialize",
        HELLO,
        {"protocolVersion": "2024-11-05"},
        '"serverInfo" is a required',
    ),
]


@pytest.mark.parametrize("case", ANSWERS)
def test_a_result_is_checked_against_its_requests_definition(check, case):
    revision, method, params, result, complaint = case
    server = FakeDuplex("server", revision)
    check.requested(server, 1, method, params)
    check.sent(server, answer(result))
    if complaint is None:
        assert check.violations == []
    else:
        assert any(complaint in found for found in check.violations), check.violations


def test_second_response_and_response_after_cancel_are_found(check):
    server = FakeDuplex("server", "2025-11-25")
    check.requested(server, 1, "ping", None)
    check.requested(server, "1", "ping", None)
    check.withdrawn(server, "1")
    check.sent(server, answer({}))
    assert check.violations == []
    check.sent(server, answer({}))
    check.sent(server, answer({}, id="1"))
    assert ["not owed" in found for found in check.violations] == [True, True]


def test_ids_are_tracked_per_connection(check):
    for _ in range(2):
        check.sent(FakeDuplex("client", "2025-11-25"), request("ping"))
    assert check.violations == []
    assert check.checked == 2


class Silent:
    """An `Inbound` that answers pings and records the rest."""

    def __init__(self):
        self.received = []

    def notification(self, method, params, call):
        self.received.append(method)

    def request(self, id, method, params, reply, call):
        reply({} if method == "ping" else {"tools": 3})

    def cancelled(self, id):
        self.received.append(id)

    def lost(self, error):
        self.received.append(error)


@pytest.fixture
async def pair(anyio_backend):
    near, far = memory_pair(Silent(), Silent())
    near.revision = far.revision = REVISIONS[3]
    yield near
    await near.aclose()
    await far.aclose()


async def test_both_ends_of_a_real_connection_are_checked(spec_dir, wire_check, pair):
    await pair.call("ping", None, deadline=None)
    assert wire_check.checked == 2
    assert wire_check.violations == []


async def test_bad_message_on_a_real_connection_is_found_on_both_ends(
    spec_dir, wire_check, pair
):
    await pair.call("tools/list", {"cursor": 7}, deadline=None)
    found, wire_check.violations = wire_check.violations, []
    assert len(found) == 2
    assert found[0].startswith("client at 2025-11-25: $.params.cursor: 7 is not of")
    assert found[1].startswith("server at 2025-11-25: $.result.tools: 3 is not of")


@pytest.mark.unchecked_wire("shows that the marker switches the check off")
async def test_marker_with_a_reason_disables_the_check(wire_check, pair):
    assert wire_check is None
    await pair.call("tools/list", {"cursor": 7}, deadline=None)


def all_duplexes(cls=Duplex):
    yield cls
    for sub in cls.__subclasses__():
        yield from all_duplexes(sub)


def test_no_transport_bypasses_the_check():
    import mcpwire.transports.stdio  # noqa: F401 - so that its class is defined

    watched = {"_send", "requested", "withdrawn"}
    for cls in all_duplexes():
        assert cls is Duplex or not watched & vars(cls).keys(), cls
