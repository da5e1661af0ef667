"""Fixtures and import paths of the tests of attacks on logins."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent.parent

for folder in (TESTS / "over_http", TESTS / "oauth", HERE):
    sys.path.insert(0, str(folder))

import engine_calls  # noqa: E402 - found through the lines above
import fake_network  # noqa: E402 - as above
import schema_checks  # noqa: E402 - found through the lines above

auth = engine_calls.auth
session = engine_calls.session
stateless = engine_calls.stateless
clock = engine_calls.clock
internet = fake_network.internet
no_proxies = fake_network.no_proxies
posted_messages_are_checked = schema_checks.posted_messages_are_checked
