"""The known findings of servers of other libraries, pinned exactly."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from real_servers import NODE_PACKAGES, PEERS, node

from mcpwire.check import Options, Verdict, run
from mcpwire.check.case import Level
from mcpwire.transports.targets import Stdio

pytestmark = pytest.mark.servers

SERVERS = Path(__file__).parents[2] / "conformance/subjects/servers"
DEAD = {Verdict.CRASH, Verdict.HANG}
NO_BATCHES = {("RPC-13.a", "fail")}
EVERYTHING = str(NODE_PACKAGES / "server-everything/dist/index.js")


def found(target, **options):
    """Return the broken MUST cases, and all crashes and hangs."""
    report = asyncio.run(run(target, Options(**options)))
    return {
        (r.case, r.verdict.value)
        for r in report.results
        if r.verdict in DEAD or (r.verdict is Verdict.FAIL and r.level is Level.MUST)
    }


SERVERS = {
    # It logs lines that are not messages of its revision, arrays too.
    "python-sdk": (PEERS / "python-sdk/bin/python", [SERVERS / "python_sdk.py"], set()),
    "fastmcp": (PEERS / "fastmcp/bin/python", [SERVERS / "fast.py"], set()),
    "time": (PEERS / "servers/bin/python", ["-m", "mcp_server_time"], set()),
    # JavaScript reads 2^53+1 as 2^53; links to resources are of 2025-06-18 on.
    "everything": (
        node(),
        [EVERYTHING, "stdio"],
        {("RPC-07.b", "hang"), ("SCHEMA.CallToolResult", "fail")},
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_check_finds_the_known_findings_and_no_others(name, warm):
    program, arguments, known = SERVERS[name]
    missing = next(
        (
            str(p)
            for p in (program, *arguments)
            if "/" in str(p) and not Path(p).exists()
        ),
        None,
    )
    if missing is not None:
        pytest.skip(f"make peers has not installed {missing}")
    env = {"FASTMCP_CHECK_FOR_UPDATES": "off"}
    program, *words = warm([str(program), *map(str, arguments)])
    assert found(Stdio(program, words, env=env)) == known | NO_BATCHES


def test_git_server_has_no_finding_but_batches(tmp_path, warm):
    program = PEERS / "servers/bin/python"
    if not program.exists():
        pytest.skip(f"make peers has not installed {program}")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    arguments = ["-m", "mcp_server_git", "--repository", str(tmp_path)]
    program, *words = warm([str(program), *arguments])
    assert found(Stdio(program, words)) == NO_BATCHES
