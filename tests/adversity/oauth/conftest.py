"""Fixtures of the tests of attacks on logins."""

import engine_calls
import fake_network
import schema_checks

auth = engine_calls.auth
session = engine_calls.session
stateless = engine_calls.stateless
clock = engine_calls.clock
internet = fake_network.internet
no_proxies = fake_network.no_proxies
posted_messages_are_checked = schema_checks.posted_messages_are_checked
