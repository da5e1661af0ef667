"""Shared code of both Python clients: recording, results, and using each server.

The argument of each is JSON, `{"stdio": [program, ...], "http": url}`; they write JSON.
"""

import json
import sys
import warnings

import anyio

warnings.simplefilter("ignore")  # features deprecated at 2026-07-28 are used too

NOTE = "note://today"
TIMEOUT_S = 30.0


class Recorder:
    """Records the notifications of the server."""

    def __init__(self):
        self.logs = []
        self.steps = []
        self.changes = set()
        self.changed = anyio.Event()

    def add_change(self, change):
        self.changes.add(change)
        if len(self.changes) == 2:
            self.changed.set()

    async def log(self, message):
        self.logs.append([message.level, message.data])

    async def progress(self, progress, total, message):
        self.steps.append([progress, total, message])

    async def both(self):
        with anyio.fail_after(TIMEOUT_S):
            await self.changed.wait()
        return sorted(self.changes)


def outcome(result):
    return {
        "text": result.content[0].text,
        "structured": result.structured_content,
        "is_error": bool(result.is_error),
    }


def run(use, stdio):
    """Use each server in both eras; `stdio` makes a target from a command."""

    async def main():
        where = json.loads(sys.argv[1])
        command, *arguments = where["stdio"]
        results = {}
        for mode in ("legacy", "auto"):
            results[f"stdio {mode}"] = await use(stdio(command, arguments), mode)
            results[f"http {mode}"] = await use(where["http"], mode)
        sys.stdout.write(json.dumps(results))

    anyio.run(main)
