"""What both Python clients do alike: hear, tell what came, and use each place in turn.

The argument of each is JSON, `{"stdio": [program, ...], "http": url}`; they write JSON.
"""

import json
import sys
import warnings

import anyio

warnings.simplefilter("ignore")  # what is deprecated at 2026-07-28 is tried too

NOTE = "note://today"
PATIENCE = 30.0


class Ears:
    """What the server sends of its own."""

    def __init__(self):
        self.logs = []
        self.steps = []
        self.changes = set()
        self.changed = anyio.Event()

    def hear(self, change):
        self.changes.add(change)
        if len(self.changes) == 2:
            self.changed.set()

    async def log(self, message):
        self.logs.append([message.level, message.data])

    async def progress(self, progress, total, message):
        self.steps.append([progress, total, message])

    async def both(self):
        """Wait for both changes, and return them."""
        with anyio.fail_after(PATIENCE):
            await self.changed.wait()
        return sorted(self.changes)


def outcome(result):
    return {
        "text": result.content[0].text,
        "structured": result.structured_content,
        "is_error": bool(result.is_error),
    }


def run(use, stdio):
    """Use each place in both eras; `stdio` makes a target of a command."""

    async def main():
        where = json.loads(sys.argv[1])
        command, *arguments = where["stdio"]
        results = {}
        for mode in ("legacy", "auto"):
            results[f"stdio {mode}"] = await use(stdio(command, arguments), mode)
            results[f"http {mode}"] = await use(where["http"], mode)
        sys.stdout.write(json.dumps(results))

    anyio.run(main)
