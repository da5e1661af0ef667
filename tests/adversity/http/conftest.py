"""Fixtures and import paths of the tests of faulty HTTP servers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent.parent / "over_http"))

import longer_timeouts
import pytest
import schema_checks

posted_messages_are_checked = schema_checks.posted_messages_are_checked
kept_for_long = longer_timeouts.kept_for_long
patient_close = longer_timeouts.patient_close


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """Ignore the certificates and proxies of the environment."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
