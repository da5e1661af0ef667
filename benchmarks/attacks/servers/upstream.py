"""Stdio server with one tool, `echo`, on the standard library alone."""

import json
import sys

INFO = {"name": "upstream", "version": "1"}
TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": INFO,
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "hi"}]},
    "ping": {},
}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] in RESULTS:
            answer["result"] = RESULTS[request["method"]]
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        print(json.dumps(answer), flush=True)
