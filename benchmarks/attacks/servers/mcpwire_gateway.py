"""mcpwire gateway for two stdio servers; OPTIONS holds its limits as JSON."""

import json
import os
import sys
from pathlib import Path

import mcpwire
from mcpwire.gateway import Gateway

options = json.loads(os.environ.get("OPTIONS", "{}"))
upstream = str(Path(__file__).resolve().parent / "upstream.py")
gateway = Gateway(
    {name: mcpwire.Stdio(sys.executable, [upstream]) for name in ("one", "two")},
    **({"max_upstream_sets": options["sets"]} if "sets" in options else {}),
)

if __name__ == "__main__":
    gateway.run(
        quiet=True,
        http=f"127.0.0.1:{os.environ['PORT']}",
        announce=lambda _: None,
        session_idle=options["idle"],
        drain_timeout=options["drain"],
    )
