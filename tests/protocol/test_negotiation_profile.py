"""What an agreement means for each request; modes, and the record of a handshake."""

import re

import pytest

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.methods import SKILLS
from mcpwire.protocol.negotiation import (
    MODES,
    Agreement,
    Identity,
    Negotiation,
    Profile,
    parse_mode,
)
from mcpwire.versions import LATEST, REVISIONS, Era, find_revision
from mcpwire.wire.json import encode, loads

IDENTITY = Identity({"name": "me", "version": "1"}, {"roots": {}})
META = "io.modelcontextprotocol/"


def profile(revision, capabilities, identity=IDENTITY):
    return Profile.of(
        Agreement(
            revision=revision,
            server_info=None,
            capabilities=capabilities,
            instructions=None,
            raw={},
            negotiation=Negotiation(),
        ),
        identity,
    )


def test_the_profile_of_no_connection_stamps_and_refuses_nothing():
    empty = Profile()
    assert not empty.offers("tools")
    assert (empty.era, empty.encoded_meta, empty.meta) == (None, None, None)
    assert empty.disabled == frozenset()


@pytest.mark.parametrize("revision", REVISIONS[:-1], ids=str)
def test_a_session_stamps_no_request(revision):
    assert profile(revision, {}).encoded_meta is None
    assert profile(revision, {}).era is Era.SESSION


@pytest.mark.rule("META-06", "META-07")
def test_a_stateless_revision_stamps_each_with_version_capabilities_and_name():
    made = profile(REVISIONS[-1], {})
    assert made.era is Era.STATELESS
    assert made.meta == {
        META + "protocolVersion": "2026-07-28",
        META + "clientCapabilities": {"roots": {}},
        META + "clientInfo": {"name": "me", "version": "1"},
    }
    assert loads(encode({"_meta": made.encoded_meta})) == {"_meta": made.meta}


@pytest.mark.rule("LIFE-11")
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_what_the_server_did_not_declare_is_refused_and_the_rest_is_not(revision):
    nothing, everything = (
        profile(revision, {}),
        profile(
            revision,
            {
                "tools": {},
                "prompts": {},
                "logging": {},
                "completions": {},
                "resources": {"subscribe": True},
                "tasks": {"list": {}, "cancel": {}},
            },
        ),
    )
    assert {"tools/list", "tools/call", "resources/read", "prompts/get"} <= (
        nothing.disabled
    )
    assert not {"initialize", "server/discover", "ping"} & nothing.disabled
    core_tasks = {"tasks/get", "tasks/cancel"} if revision is REVISIONS[3] else set()
    assert everything.disabled == {
        "skills/list", "skills/get", "resources/directory/read",
        "tasks/get", "tasks/update", "tasks/cancel",
    } - core_tasks  # fmt: skip
    error = nothing.refusal("tools/call")
    assert type(error) is LocalProtocolError
    assert "'tools'" in str(error)


# --- extensions

ON = Identity({"name": "me", "version": "1"}, {"extensions": {SKILLS: {}}})
VERBS = {"skills/list", "skills/get", "resources/directory/read"}


@pytest.mark.rule("EXT-02", "EXT-03")
@pytest.mark.parametrize(
    ("settings", "identity", "refused"),
    [
        ({}, ON, {"resources/directory/read"}),
        ({"directoryRead": False}, ON, {"resources/directory/read"}),
        ({"directoryRead": True}, ON, set()),
        ({"directoryRead": True}, IDENTITY, VERBS),
        (None, ON, VERBS),
    ],
)
def test_requests_of_an_extension_need_both_sides_to_name_it(
    settings, identity, refused
):
    made = profile(REVISIONS[-1], {"extensions": {SKILLS: settings}}, identity)
    assert made.disabled & VERBS == refused


@pytest.mark.parametrize("revision", REVISIONS[:-1], ids=str)
def test_a_session_refuses_the_requests_of_extensions(revision):
    made = profile(revision, {"extensions": {SKILLS: {}}}, ON)
    assert made.disabled >= VERBS


def test_the_tasks_of_a_session_are_no_extension():
    assert "tasks/get" not in profile(REVISIONS[3], {"tasks": {}}).disabled
    assert "tasks/get" in profile(REVISIONS[4], {"tasks": {}}).disabled


@pytest.mark.parametrize(
    ("revision", "settings", "identity", "method", "why"),
    [
        (4, None, ON, "skills/list", f"the server did not declare '{SKILLS}'"),
        (4, {}, IDENTITY, "skills/get", f"client was made without the .* '{SKILLS}'"),
        (4, {}, ON, "resources/directory/read", "did not declare 'directoryRead'"),
        (3, {}, ON, "skills/list", "speaks 2025-11-25, not 2026-07-28"),
    ],
)
def test_a_refusal_says_what_is_missing(revision, settings, identity, method, why):
    made = profile(REVISIONS[revision], {"extensions": {SKILLS: settings}}, identity)
    assert method in made.disabled
    error = made.refusal(method)
    assert isinstance(error, LocalProtocolError)
    assert re.search(f"{why}, which {method} needs", str(error))


def test_the_log_level_is_asked_for_with_each_request_that_can_say_so():
    def asked(revision):
        made = Profile.of(profile(revision, {}).agreement, IDENTITY, log_level="info")
        return (made.meta or {}).get(META + "logLevel")

    assert [asked(revision) for revision in REVISIONS] == [None] * 4 + ["info"]


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
