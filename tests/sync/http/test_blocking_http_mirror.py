"""What is mirrored into headers while other threads list the tools anew."""

import pytest

from mcpwire.protocol.http import mirror as module
from mcpwire.protocol.http.mirror import Mirror

TOOL = {
    "name": "query",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}
CALL = {"name": "query", "arguments": {"region": "eu"}}


@pytest.mark.pain("P29")
def test_a_list_that_is_learnt_takes_no_tool_away_meanwhile(monkeypatch):
    mirror = Mirror(lambda *_: None)
    mirror.learn({"tools": [TOOL]})
    before = mirror.lines("tools/call", CALL)
    assert b"region" in before
    seen = []
    find = module.find_param_headers

    def find_while_another_thread_calls(schema):
        seen.append(mirror.lines("tools/call", CALL))
        return find(schema)

    monkeypatch.setattr(module, "find_param_headers", find_while_another_thread_calls)
    mirror.learn({"tools": [TOOL]})
    assert seen == [before]


def test_the_lines_that_are_kept_stay_bounded_whoever_adds_at_once():
    mirror = Mirror(lambda *_: None)
    for number in range(module._LINES_MAX + 5):  # as threads do that look at once
        mirror._lines["name", str(number)] = b""
    mirror.lines("tools/call", CALL)
    assert len(mirror._lines) < 10
