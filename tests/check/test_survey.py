"""The survey at the start of a run, with servers that start slowly."""

import asyncio
import sys

import pytest

from mcpwire.check import Options, run
from mcpwire.check import runner as module
from mcpwire.transports.targets import Stdio

SERVER = """
import json, pathlib, sys
waiting, marker = [], pathlib.Path(sys.argv[2])
has_started = marker.exists()  # only the first process is slow
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
        has_started = sys.argv[1] == "modern"
    elif id is not None:
        answer(id)
    if has_started:
        marker.touch()
        while waiting:
            answer(waiting.pop(), capabilities={}, supportedVersions=["2026-07-28"])
"""


@pytest.mark.parametrize(
    ("era", "revisions", "found"),
    [
        ("modern", ("2026-07-28",), {"2026-07-28"}),
        ("legacy", ("2025-11-25", "2026-07-28"), {"2025-11-25"}),
    ],
)
def test_silence_after_discover_counts_from_the_server_start(
    monkeypatch, tmp_path, era, revisions, found
):
    monkeypatch.setattr(module, "_PROBE_TIMEOUT_S", 0.5)
    command = Stdio(sys.executable, ["-c", SERVER, era, str(tmp_path / "x")])
    options = Options(revisions=revisions, only=("schema",))
    report = asyncio.run(run(command, options))
    assert {cell.revision for cell in report.cells()} == found
