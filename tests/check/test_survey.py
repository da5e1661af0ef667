"""What a run finds out first, from servers that start slowly or know little."""

import asyncio
import sys

import pytest

from mcpwire.check import Options, run
from mcpwire.check import runner as module
from mcpwire.transports.targets import Stdio

SERVER = """
import json, sys
waiting = []
def answer(id, **result):
    print(json.dumps(dict(jsonrpc="2.0", id=id, result=result)), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message["method"]
    if method == "server/discover":
        waiting.append(id)
    elif method == "initialize":
        answer(id, capabilities={}, serverInfo=dict(name="s", version="1"),
               protocolVersion=message["params"]["protocolVersion"])
        started = True
    elif id is not None:
        answer(id)
    if sys.argv[1] == "modern" and "started" in globals():
        while waiting:
            answer(waiting.pop(), capabilities={}, supportedVersions=["2026-07-28"])
"""


@pytest.mark.parametrize(
    ("era", "revisions"),
    [("modern", {"2025-11-25", "2026-07-28"}), ("legacy", {"2025-11-25"})],
)
def test_silence_after_discover_is_read_once_the_server_has_started(
    monkeypatch, era, revisions
):
    monkeypatch.setattr(module, "_PROBE_S", 0.5)
    command = Stdio(sys.executable, ["-c", SERVER, era])
    options = Options(revisions=("2025-11-25", "2026-07-28"), only=("schema",))
    report = asyncio.run(run(command, options))
    assert {cell.revision for cell in report.cells()} == revisions
