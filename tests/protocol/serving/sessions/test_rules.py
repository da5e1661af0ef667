"""What the head of a request says of its session."""

import pytest

from mcpwire.errors import InvalidRequest
from mcpwire.protocol.serving.sessions.rules import check_version, lets_streams_pause
from mcpwire.versions import REVISIONS

SESSIONS = REVISIONS[:4]


@pytest.mark.rule("LHTTP-30")
def test_without_a_version_2025_03_26_is_assumed():
    assert check_version(None, REVISIONS).name == "2025-03-26"


@pytest.mark.parametrize("revision", SESSIONS, ids=str)
def test_each_revision_with_sessions_is_taken(revision):
    assert check_version(revision.name, REVISIONS) is revision


@pytest.mark.rule("LHTTP-31")
@pytest.mark.case("C05")
@pytest.mark.parametrize(
    "header", ["", "1", "2025-3-26", "2026-07-28", "2024-11-05", "x" * 1_000]
)
def test_another_version_is_refused_with_those_that_are_spoken(header):
    spoken = [r for r in REVISIONS if r.name != "2024-11-05"]
    with pytest.raises(InvalidRequest, match=r"2025-03-26, 2025-06-18") as caught:
        check_version(header, spoken)
    assert len(caught.value.message) < 200


def test_streams_pause_since_2025_11_25():
    assert [lets_streams_pause(r) for r in SESSIONS] == [False, False, False, True]
