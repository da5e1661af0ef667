"""Fixtures of the tests of faulty HTTP servers."""

import http_fixtures
import schema_checks

posted_messages_are_checked = schema_checks.posted_messages_are_checked
no_environment = http_fixtures.no_environment
kept_for_long = http_fixtures.kept_for_long
patient_close = http_fixtures.patient_close
