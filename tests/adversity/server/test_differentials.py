"""Messages that other parsers might accept are refused and run no tool."""

import json

import pytest
from attacked_server import build
from client_paths import WAYS, opened, works
from raw_client import META

CALL = {"name": "mark", "arguments": {}}


def plain(way, **changes):
    params = {**CALL, "_meta": META} if way.version is None else dict(CALL)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    message |= changes
    return {name: value for name, value in message.items() if value is not ...}


def renamed(message, path, name):
    copy = json.loads(json.dumps(message))
    *way, old = path
    holder = copy
    for step in way:
        holder = holder[step]
    holder[name] = holder.pop(old)
    return copy


RENAMED = [
    (("jsonrpc",), "JSONRPC"),
    (("jsonrpc",), "jsonRpc"),
    (("jsonrpc",), "json\u200brpc"),
    (("method",), "Method"),
    (("method",), "METHOD"),
    (("method",), "method "),
    (("method",), "\uff4dethod"),
    (("params",), "Params"),
    (("params",), "param\u017f"),
    (("params", "name"), "Name"),
    (("params", "name"), "NAME"),
    (("params", "name"), "n\u0430me"),
]

VALUES = [
    {"jsonrpc": ...},
    {"jsonrpc": "1.0"},
    {"jsonrpc": "2"},
    {"jsonrpc": 2.0},
    {"jsonrpc": 2},
    {"jsonrpc": "2.0 "},
    {"jsonrpc": ["2.0"]},
    {"jsonrpc": None},
    {"id": None},
    {"id": True},
    {"id": 1.5},
    {"id": 1.0},
    {"id": [1]},
    {"id": {}},
    {"id": 2**64},
    {"method": None},
    {"method": ["tools/call"]},
    {"method": "TOOLS/CALL"},
    {"method": "tools/call "},
    {"method": "tools//call"},
    {"method": "tools/call\x00"},
    {"method": "tools\\/call"},
    {"params": [CALL]},
    {"params": "x"},
    {"params": None, "result": {}},
    {"result": {}},
    {"error": {"code": 1, "message": "x"}},
    {"result": {}, "error": {"code": 1, "message": "x"}},
]


@pytest.mark.attack("S18")
@pytest.mark.case("B02", "B03", "B08")
@pytest.mark.parametrize("way", WAYS)
async def test_malformed_call_runs_no_tool(way):
    ran = []
    server = build()

    @server.tool
    async def mark() -> str:
        ran.append(1)
        return "ran"

    way = await opened(way, server)
    messages = [renamed(plain(way), path, name) for path, name in RENAMED]
    messages += [plain(way, **changes) for changes in VALUES]
    for message in messages:
        answers = await way.say(message)
        assert ran == [], message
        assert len(answers) <= 1, message
        for answer in answers:
            assert answer["error"]["code"] in {-32600, -32601, -32602, -32020}, message
            sent = message.get("id")
            is_id = type(sent) in {int, str} and sent != 2**64
            # Either the same id, or no id.
            assert answer.get("id", ...) in ((sent, ...) if is_id else (..., None))
    await works(way)
    [answer] = await way.say(plain(way))
    assert (len(ran), answer["id"]) == (1, 1)
    await way.aclose()


@pytest.mark.attack("S18", "S31")
@pytest.mark.case("B08")
@pytest.mark.parametrize("way", WAYS)
async def test_responses_without_a_request_are_not_answered(way):
    way = await opened(way, build())
    for id in (0, 1, "1", None, 1.5, {}):
        for outcome in (
            {"result": {}},
            {"result": None},
            {"error": {"code": 1, "message": "x"}},
            {"error": "x"},
            {"result": {}, "error": {"code": 1, "message": "x"}},
        ):
            message = {"jsonrpc": "2.0", "id": id, **outcome}
            answers = await way.say(message)
            # An invalid message is refused over HTTP, without an id.
            assert all("id" not in each for each in answers), message
    await works(way)
    await way.aclose()
