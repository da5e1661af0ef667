"""What an agreement means for requests; modes, records, and answers in random order."""

import re

import attrs
import pytest
from handshakes import IDENTITY, PROBE_TIMEOUT, discovered, initialized, proposed_by
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    NegotiationError,
    RPCError,
    TransportError,
    rpc_error,
)
from mcpwire.protocol.methods import SKILLS
from mcpwire.protocol.negotiation import (
    MODERN_ERRORS,
    MODES,
    Agreement,
    Answer,
    Identity,
    Negotiation,
    Notify,
    Profile,
    Receive,
    ReceiveTimeout,
    Reopen,
    Send,
    negotiate,
    parse_mode,
)
from mcpwire.versions import LATEST, REVISIONS, Era, find_revision
from mcpwire.wire.json import encode, loads

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


MOST_STEPS = 16
NAMES = st.sampled_from([*(r.name for r in REVISIONS), "2027-03-01", ""])
BAD = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([1])
DISCOVERED = st.builds(
    lambda names, bad: discovered(*names) | bad,
    st.lists(NAMES, max_size=3),
    st.dictionaries(
        st.sampled_from(["supportedVersions", "capabilities", "resultType", "_meta"]),
        BAD,
        max_size=1,
    ),
)
INITIALIZED = st.builds(
    lambda name, bad: initialized(name) | bad,
    NAMES,
    st.dictionaries(
        st.sampled_from(["protocolVersion", "capabilities", "serverInfo"]),
        BAD,
        max_size=1,
    ),
)
DATA = BAD | st.fixed_dictionaries(
    {"supported": BAD | st.lists(NAMES | BAD, max_size=3)}
)
CODES = st.sampled_from([-32022, -32022, -32021, -32020, -32601, -32602, -32000, 0])
ERRORS = st.builds(lambda code, data: rpc_error(code, "no", data=data), CODES, DATA)
OUTCOMES = (
    DISCOVERED
    | INITIALIZED
    | ERRORS
    | st.dictionaries(st.text(max_size=3), BAD, max_size=2)
    | st.builds(ConnectionClosed, st.just("the peer closed it"))
    | st.just(InvalidMessage("message", expected="object", got="array"))
)
MODE = st.sampled_from([*MODES, *(r.name for r in REVISIONS)])


@attrs.define
class Shell:
    """Tracks the open requests, as a shell does, and checks each step against them."""

    allowed: tuple
    open: list = attrs.Factory(list)
    steps: list = attrs.Factory(list)
    is_modern: bool = False
    may_initialize: set = attrs.Factory(set)

    def perform(self, step, draw):
        self.steps.append(step)
        assert len(self.steps) <= MOST_STEPS
        if type(step) is Send:
            self.send(step)
        elif type(step) is Receive:
            return self.receive(step, draw)
        elif type(step) is Reopen:
            assert sum(type(step) is Reopen for step in self.steps) == 1
            assert not self.is_modern
            self.open.clear()
        else:
            assert step.revision in self.allowed
            assert step.revision.era is Era.SESSION
        return None

    def send(self, step):
        assert step.method not in self.open
        self.open.append(step.method)
        version = proposed_by(step)
        (revision,) = [r for r in self.allowed if r.name == version]
        if step.method == "initialize":
            # After a proof of the modern era only a named revision may be initialized.
            assert revision.era is Era.SESSION
            assert not self.is_modern or version in self.may_initialize
        else:
            assert revision.era is Era.STATELESS

    def receive(self, step, draw):
        assert self.open, "nothing is open, nothing can come"
        at = float(len(self.steps))
        if step.timeout is not None:
            assert step.timeout == PROBE_TIMEOUT
            assert self.open == ["server/discover"]
            if draw(st.booleans()):
                return ReceiveTimeout(at)
        method = draw(st.sampled_from(self.open))
        outcome = draw(OUTCOMES)
        self.learn(outcome)
        if isinstance(outcome, TransportError):
            self.open.clear()
        else:
            self.open.remove(method)
        return Answer(method, outcome, at)

    def learn(self, outcome):
        if isinstance(outcome, RPCError) and outcome.code in MODERN_ERRORS:
            self.is_modern = True
        if isinstance(outcome, dict):
            names = outcome.get("supportedVersions")
        else:
            data = getattr(outcome, "data", None)
            names = data.get("supported") if isinstance(data, dict) else None
        if isinstance(names, list):
            self.may_initialize.update(n for n in names if isinstance(n, str))


def run(mode, draw):
    """Negotiate with a server that answers as drawn; return the data to check."""
    shell = Shell(parse_mode(mode))
    record = Negotiation()
    operation = negotiate(
        IDENTITY, shell.allowed, probe_timeout=PROBE_TIMEOUT, record=record
    )
    outcome = None
    try:
        while True:
            outcome = shell.perform(operation.send(outcome), draw)
    except StopIteration as done:
        return shell, record, outcome, done.value
    except (NegotiationError, TransportError) as error:
        return shell, record, outcome, error


@pytest.mark.rule("VER-03", "VER-14", "LIFE-09", "LIFE-17")
@pytest.mark.pain("P26")
@pytest.mark.fault("F49")
@given(st.data(), MODE)
def test_any_sequence_of_answers_ends_in_an_agreement_or_a_named_error(data, mode):
    shell, record, outcome, verdict = run(mode, data.draw)
    times = [step.at for step in record.steps]
    assert times == sorted(times)
    assert str(record)
    if type(verdict) is Agreement:
        assert verdict.revision in shell.allowed
        assert record.revision is verdict.revision
        is_session = verdict.revision.era is Era.SESSION
        assert (type(shell.steps[-1]) is Notify) is is_session
        return
    assert record.revision is None
    if isinstance(verdict, TransportError):
        assert verdict is outcome.outcome
    else:
        assert verdict.negotiation is record
        assert all(type(name) is str for name in verdict.supported)
