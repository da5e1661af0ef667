"""Fixtures of the HTTP engines and their channels."""

import http_fixtures
import legacy_channels
import schema_checks

posted_messages_are_checked = schema_checks.posted_messages_are_checked
no_environment = http_fixtures.no_environment
kept_for_long = http_fixtures.kept_for_long
black_hole = http_fixtures.black_hole
engine = legacy_channels.engine
gate = legacy_channels.gate
