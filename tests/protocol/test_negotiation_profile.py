"""What an agreement means for requests; modes, and the record of a handshake."""

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


def test_empty_profile_adds_no_meta_and_disables_no_method():
    empty = Profile()
    assert not empty.offers("tools")
    assert (empty.era, empty.encoded_meta, empty.meta) == (None, None, None)
    assert not empty.disabled


@pytest.mark.parametrize("revision", REVISIONS[:-1], ids=str)
def test_session_profile_adds_no_meta(revision):
    assert profile(revision, {}).encoded_meta is None
    assert profile(revision, {}).era is Era.SESSION


@pytest.mark.rule("META-06", "META-07")
def test_stateless_profile_adds_version_capabilities_and_client_info():
    active = profile(REVISIONS[-1], {})
    assert active.era is Era.STATELESS
    assert active.meta == {
        META + "protocolVersion": "2026-07-28",
        META + "clientCapabilities": {"roots": {}},
        META + "clientInfo": {"name": "me", "version": "1"},
    }
    assert loads(encode({"_meta": active.encoded_meta})) == {"_meta": active.meta}


@pytest.mark.rule("LIFE-11")
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_only_methods_without_a_declared_capability_are_disabled(revision):
    without_capabilities, with_all = (
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
        without_capabilities.disabled.keys()
    )
    always = {"initialize", "server/discover", "ping"}
    assert not always & without_capabilities.disabled.keys()
    core_tasks = {"tasks/get", "tasks/cancel"} if revision is REVISIONS[3] else set()
    assert with_all.disabled.keys() == {
        "skills/list", "skills/get", "resources/directory/read",
        "tasks/get", "tasks/update", "tasks/cancel",
    } - core_tasks  # fmt: skip
    error = without_capabilities.refusal("tools/call")
    assert type(error) is LocalProtocolError
    assert "'tools'" in str(error)


WITH_SKILLS = Identity({"name": "me", "version": "1"}, {"extensions": {SKILLS: {}}})
SKILLS_METHODS = {"skills/list", "skills/get", "resources/directory/read"}


@pytest.mark.rule("EXT-02", "EXT-03")
@pytest.mark.parametrize(
    ("settings", "identity", "disabled"),
    [
        ({}, WITH_SKILLS, {"resources/directory/read"}),
        ({"directoryRead": False}, WITH_SKILLS, {"resources/directory/read"}),
        ({"directoryRead": True}, WITH_SKILLS, set()),
        ({"directoryRead": True}, IDENTITY, SKILLS_METHODS),
        (None, WITH_SKILLS, SKILLS_METHODS),
    ],
)
def test_extension_methods_require_both_sides_to_declare_it(
    settings, identity, disabled
):
    active = profile(REVISIONS[-1], {"extensions": {SKILLS: settings}}, identity)
    assert active.disabled.keys() & SKILLS_METHODS == disabled


@pytest.mark.parametrize("revision", REVISIONS[:-1], ids=str)
def test_extension_methods_are_disabled_in_a_session(revision):
    active = profile(revision, {"extensions": {SKILLS: {}}}, WITH_SKILLS)
    assert active.disabled.keys() >= SKILLS_METHODS


def test_session_tasks_do_not_need_an_extension():
    assert "tasks/get" not in profile(REVISIONS[3], {"tasks": {}}).disabled
    assert "tasks/get" in profile(REVISIONS[4], {"tasks": {}}).disabled


@pytest.mark.parametrize(
    ("revision", "settings", "identity", "method", "why"),
    [
        (4, None, WITH_SKILLS, "skills/list", f"the server did not declare '{SKILLS}'"),
        (4, {}, IDENTITY, "skills/get", f"client was made without the .* '{SKILLS}'"),
        (
            4,
            {},
            WITH_SKILLS,
            "resources/directory/read",
            "did not declare 'directoryRead'",
        ),
        (3, {}, WITH_SKILLS, "skills/list", "speaks 2025-11-25, not 2026-07-28"),
    ],
)
def test_refusal_names_missing_declaration(revision, settings, identity, method, why):
    active = profile(REVISIONS[revision], {"extensions": {SKILLS: settings}}, identity)
    assert method in active.disabled
    error = active.refusal(method)
    assert isinstance(error, LocalProtocolError)
    assert re.search(f"{why}, which {method} needs", str(error))


def test_log_level_is_sent_in_meta_only_in_the_stateless_era():
    def log_level_at(revision):
        active = Profile.of(profile(revision, {}).agreement, IDENTITY, log_level="info")
        return (active.meta or {}).get(META + "logLevel")

    assert [log_level_at(revision) for revision in REVISIONS] == [None] * 4 + ["info"]


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
def test_mode_lists_revisions_of_one_era_after_the_other(mode, names):
    assert [revision.name for revision in parse_mode(mode)] == names


@pytest.mark.parametrize("mode", ["", "Auto", "modern", "2026-07-29", "2026"])
def test_unknown_mode_is_refused_with_the_choices(mode):
    with pytest.raises(ValueError, match="mode must be one of") as raised:
        parse_mode(mode)
    assert repr(mode) in str(raised.value)
    assert all(name in str(raised.value) for name in (*MODES, LATEST.name))


def test_new_record_has_no_verdict():
    record = Negotiation()
    assert (record.steps, record.revision, record.era, record.reason) == (
        [],
        None,
        None,
        "",
    )
    assert str(record) == "no agreement"


def test_record_is_shown_as_verdict_and_one_line_per_step():
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


def test_record_shortens_long_details():
    record = Negotiation()
    record.note(0.0, "initialize failed", "x" * 100_000)
    assert len(record.steps[0].detail) < 300
