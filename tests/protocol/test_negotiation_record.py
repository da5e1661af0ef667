"""The words of a handshake: modes, the metadata of requests, the record it leaves."""

import pytest

from mcpwire.protocol.negotiation import (
    MODES,
    Identity,
    Negotiation,
    NegotiationStep,
    parse_mode,
    request_meta,
)
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS, Era, find_revision


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("auto", [r.name for r in reversed(REVISIONS)]),
        ("session", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]),
        ("stateless", ["2026-07-28"]),
        (
            "prefer-session",
            ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2026-07-28"],
        ),
        *((r.name, [r.name]) for r in REVISIONS),
    ],
)
def test_a_mode_allows_revisions_of_one_era_after_the_other(mode, names):
    assert [revision.name for revision in parse_mode(mode)] == names


@pytest.mark.parametrize("mode", ["", "Auto", "modern", "2026-07-29", "2026"])
def test_an_unknown_mode_is_refused_by_name_and_with_the_choice(mode):
    with pytest.raises(ValueError, match="mode must be one of") as raised:
        parse_mode(mode)
    assert repr(mode) in str(raised.value)
    assert all(name in str(raised.value) for name in (*MODES, LATEST.name))


@pytest.mark.rule("META-06", "META-07", "VER-01")
def test_each_request_names_revision_capabilities_and_client():
    identity = Identity(info={"name": "me", "version": "1"}, capabilities={"roots": {}})
    meta = request_meta(LATEST, identity)
    assert meta == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"},
    }
    meta["io.modelcontextprotocol/clientInfo"]["name"] = "changed"
    assert identity.info["name"] == "me"


@pytest.mark.rule("META-06")
def test_no_capabilities_are_named_too():
    meta = request_meta(LATEST, Identity(info={}, capabilities={}))
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}


# The record...


def test_a_record_begins_without_a_verdict():
    record = Negotiation()
    assert (record.steps, record.revision, record.era, record.reason) == (
        [],
        None,
        None,
        "",
    )
    assert str(record) == "no agreement"


def test_a_record_keeps_its_steps_in_order():
    record = Negotiation()
    record.note(0.0, "sent server/discover", "as 2026-07-28")
    record.note(1.25, "silence")
    assert record.steps == [
        NegotiationStep(0.0, "sent server/discover", "as 2026-07-28"),
        NegotiationStep(1.25, "silence"),
    ]


@pytest.mark.parametrize(
    ("revision", "era"), [(LATEST, Era.STATELESS), (LATEST_SESSION, Era.SESSION)]
)
def test_the_verdict_tells_the_era(revision, era):
    record = Negotiation()
    record.revision = revision
    assert record.era is era


def test_a_record_reads_as_the_verdict_and_a_line_for_each_step():
    record = Negotiation()
    record.note(0.0, "sent initialize", "proposing 2025-11-25")
    record.note(0.0314, "initialize answered")
    record.reason = "the server refused"
    assert str(record).splitlines() == [
        "no agreement: the server refused",
        "  0.000 s  sent initialize: proposing 2025-11-25",
        "  0.031 s  initialize answered",
    ]
    record.revision = find_revision("2025-06-18")
    record.reason = "the server answered initialize"
    assert str(record).startswith("2025-06-18: the server answered initialize\n")
    assert str(Negotiation(revision=LATEST)) == "2026-07-28"


def test_a_record_keeps_no_long_texts():
    record = Negotiation()
    record.note(0.0, "initialize failed", "x" * 100_000)
    assert len(record.steps[0].detail) < 300
