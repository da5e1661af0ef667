"""The servers of `tests/over_http`, and a small internet in front of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "over_http"))

import net

internet = net.internet
kind = net.kind
no_proxies = net.no_proxies
