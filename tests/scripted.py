"""Scripted child servers: a few lines of Python as an MCP server."""

import sys
from typing import Any

from mcpwire import Stdio

PRELUDE = r"""
import json, os, signal, sys, time
def send(message):
    raw((json.dumps(message) + "\n").encode())
def raw(data):
    while data:
        data = data[os.write(1, data):]
def recv():
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})
def text(request, text):
    answer(request, {"content": [{"type": "text", "text": text}]})
def handshake(version="2025-11-25", capabilities={"tools": {}}):
    while True:
        m = recv()
        if m["method"] == "server/discover":
            send({"jsonrpc": "2.0", "id": m["id"],
                  "error": {"code": -32601, "message": "Method not found"}})
        elif m["method"] == "initialize":
            answer(m, {"protocolVersion": version, "capabilities": capabilities,
                       "serverInfo": {"name": "scripted", "version": str(os.getpid())}})
        elif m["method"] == "notifications/initialized":
            return
def discover(capabilities={"tools": {}}):
    m = recv()
    assert m["method"] == "server/discover", m
    answer(m, {"resultType": "complete", "supportedVersions": ["2026-07-28"],
               "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"})
"""

ECHO_LOOP = r"""
while True:
    m = recv()
    if "id" in m:
        text(m, str(m.get("params", {}).get("arguments", {}).get("text", "")))
"""

SHUFFLE_LOOP = r"""
import random, select
waiting, buffer = [], b""
while True:
    # It answers in any order what has come, once nothing more comes or much has.
    ready, _, _ = select.select([0], [], [], 0.0 if waiting else None)
    if ready:
        data = os.read(0, 65536)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        waiting += [m for m in map(json.loads, lines) if "id" in m]
    if waiting and (not ready or len(waiting) > 100):
        random.shuffle(waiting)
        raw(b"".join(
            (json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"content": [
                {"type": "text", "text": m["params"]["arguments"]["text"]}]}})
             + "\n").encode() for m in waiting))
        waiting.clear()
"""


def pid_of(client: Any) -> int:
    """Return the id of the child: `handshake` names it as the server's version."""
    return int(client.server_info.version)


def scripted(body: str, *args: str, **options: object) -> Stdio:
    """Return a target that runs these lines after the prelude."""
    return Stdio(sys.executable, ["-S", "-c", PRELUDE + body, *args], **options)
