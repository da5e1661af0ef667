"""``python -m mcpwire.server.demo`` is the demo server on stdin and stdout."""

from __future__ import annotations

from mcpwire.server.demo import main

raise SystemExit(main())
