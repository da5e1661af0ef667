"""As little of an HTTP client for MCP as can try the servers of this folder."""

import itertools
import json

import httpx

ACCEPT = {"Accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28"}


class Client:
    def __init__(self, server):
        self.server = server
        self.http = httpx.Client(trust_env=False, timeout=30)
        self.ids = itertools.count(1)
        self.headers = dict(ACCEPT)

    def post(self, method, params=None, *, headers=None, **members):
        message = {"jsonrpc": "2.0", "method": method, **members}
        if params is not None:
            message["params"] = params
        headers = self.headers if headers is None else headers
        return self.http.post(self.server.url, json=message, headers=headers)

    def ask(self, method, params=None, **options):
        return self.post(method, params, id=next(self.ids), **options)

    def call(self, name, meta=None, **arguments):
        params = {"name": name, "arguments": arguments}
        if meta is not None:
            params["_meta"] = meta
        return last_message(self.ask("tools/call", params))

    def modern(self, method, params=None, **fields):
        headers = {**MODERN, "Mcp-Method": method, **fields}
        return self.ask(method, {**(params or {}), "_meta": META}, headers=headers)

    def open(self):
        client = {"name": "test", "version": "1"}
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": client,
        }
        answer = self.ask("initialize", params)
        agreed = last_message(answer)["result"]["protocolVersion"]
        self.headers["MCP-Protocol-Version"] = agreed
        if "mcp-session-id" in answer.headers:
            self.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        assert self.post("notifications/initialized").status_code == 202
        return self


def messages(answer):
    if answer.headers["content-type"] == "application/json":
        return [answer.json()]
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in data if text]


def last_message(answer):
    return messages(answer)[-1]


def text_of(message):
    return message["result"]["content"][0]["text"]
