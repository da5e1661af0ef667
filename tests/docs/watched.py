"""Records the traffic of clients while an example runs.

`sitecustomize` installs it in each Python that the examples start.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import attrs

from mcpwire.client.connection import Connection
from mcpwire.transports.http.streamable import HttpChannel

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "WATCHED_FOLDER"
KEPT = frozenset({"send", "receive", "status"})


def install(folder: Path, set_attribute: Any = setattr) -> None:
    """Let each client of this process write its traffic to a folder."""
    make, original_trace_head = Connection.__init__, HttpChannel.trace_head
    numbers = itertools.count()

    def watched_make(self, opener, settings):
        name, hook = f"{os.getpid()}-{next(numbers)}", settings.trace

        def trace(event, data):
            if event in KEPT:
                text = data if event == "status" else data.decode(errors="replace")
                with (folder / name).open("a", encoding="utf-8") as file:
                    file.write(json.dumps([event, text]) + "\n")
            if hook is not None and event != "status":
                hook(event, data)

        make(self, opener, attrs.evolve(settings, trace=trace))

    @functools.wraps(original_trace_head)
    def watched_head(self, reply):
        # The server's own stream may not be opened in time: nothing waits for it.
        if reply.what != "GET":
            self._trace("status", f"{reply.what} {reply.status}")
        original_trace_head(self, reply)

    set_attribute(Connection, "__init__", watched_make)
    set_attribute(HttpChannel, "trace_head", watched_head)
