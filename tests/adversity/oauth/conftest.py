"""Fixtures and import paths of the tests of attacks on logins."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent.parent

for folder in (TESTS / "over_http", TESTS / "oauth", HERE):
    sys.path.insert(0, str(folder))

import checked  # noqa: E402 - found through the lines above
import net  # noqa: E402 - as above

internet = net.internet
no_proxies = net.no_proxies
posted_messages_are_checked = checked.posted_messages_are_checked
