"""The handshake as a transition table: answers, sent messages, agreed revisions.

2026-07-28 basic/versioning and basic/transports/stdio, "Backward Compatibility".
"""

import pytest
from handshakes import (
    IDENTITY,
    INFO,
    META,
    Row,
    check,
    discovered,
    initialize_gets,
    initialized,
    play,
    probe_gets,
    refused,
    silence,
)
from wire_tables import Error, table

from mcpwire.errors import (
    ConnectionClosed,
    InvalidMessage,
    LocalProtocolError,
    NegotiationError,
    rpc_error,
)
from mcpwire.protocol.negotiation import request_meta
from mcpwire.versions import LATEST, REVISIONS, Era

PROBE = "server/discover 2026-07-28"
INITIALIZE = "initialize 2025-11-25"
MODERN = discovered("2026-07-28", "2025-11-25")
INVALID = InvalidMessage("response.id", expected="the integer 1", got="'1'")


def agreed(revision="2025-11-25"):
    return f"notifications/initialized at {revision}"


@pytest.mark.rule("VER-01", "VER-12", "META-06", "META-07")
@table(
    Row("the probe is answered", "auto", (probe_gets(MODERN, 0.25),),
        (PROBE, "wait 5 s"), "2026-07-28",
        ("0 sent server/discover", "0.25 server/discover answered", "0.25 agreed")),
    Row("only one revision is known", "auto", (probe_gets(discovered("2026-07-28")),),
        (PROBE, "wait 5 s"), "2026-07-28"),
    Row("unknown revisions beside ours", "auto",
        (probe_gets(discovered("2030-01-01", "2026-07-28", "")),),
        (PROBE, "wait 5 s"), "2026-07-28"),
    Row("mode stateless", "stateless", (probe_gets(MODERN),), (PROBE, "wait"),
        "2026-07-28"),
    Row("pinned", "2026-07-28", (probe_gets(MODERN),), (PROBE, "wait"), "2026-07-28"),
)  # fmt: skip
def test_modern_server_is_agreed_by_its_probe_answer(row):
    check(row)


def legacy(name, answer):
    """Make the row of a probe answer that proves no era."""
    return Row(
        name, "auto", (probe_gets(answer, 1.0), initialize_gets(initialized(), 2.0)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", agreed()), "2025-11-25",
    )  # fmt: skip


@pytest.mark.rule("VER-11", "RPC-25", "LIFE-02", "LIFE-04", "LIFE-07", "VER-14")
@pytest.mark.pain("P26")
@table(
    *(legacy(str(code), refused(code))
      for code in (-32601, -32602, -32600, -32000, -32700, -32603, 0, 404, -32002)),
    # Codes of drafts, which must not be interpreted.
    *(legacy(str(code), refused(code)) for code in (-32001, -32003, -32004)),
    legacy("-32602 that names modern revisions", refused(-32602, "2026-07-28")),
    legacy("an answer with another type of id", INVALID),
    legacy("an empty result", {}),
    legacy("supportedVersions is text", discovered() | {"supportedVersions": "x"}),
    legacy("supportedVersions holds a number", discovered("2026-07-28", 1)),
    legacy("supportedVersions is null", discovered() | {"supportedVersions": None}),
    legacy("capabilities are an array", discovered("2026-07-28", capabilities=[])),
    legacy("an unknown resultType", discovered("2026-07-28", resultType="task")),
    legacy("a resultType that is no text", discovered("2026-07-28", resultType=[1])),
    legacy("an InitializeResult", initialized("2026-07-28")),
)  # fmt: skip
def test_any_other_probe_answer_leads_to_initialize(row):
    check(row)


@table(
    Row("both", "prefer-session", (initialize_gets(initialized()),),
        (INITIALIZE, "wait", agreed()), "2025-11-25"),
    Row("an unknown method", "prefer-session",
        (initialize_gets(refused(-32601), 1), probe_gets(MODERN, 2)),
        (INITIALIZE, "wait", PROBE, "wait"), "2026-07-28"),
    Row("a version error that names a version", "prefer-session",
        (initialize_gets(refused(-32022, "2026-07-28"), 1), probe_gets(MODERN, 2)),
        (INITIALIZE, "wait", PROBE, "wait"), "2026-07-28"),
    Row("a version error that names none", "prefer-session",
        (initialize_gets(refused(-32022), 1), probe_gets(MODERN, 2)),
        (INITIALIZE, "wait", PROBE, "wait"), "2026-07-28"),
    Row("another session version", "prefer-session",
        (initialize_gets(refused(-32602, "2025-03-26"), 1),
         initialize_gets(initialized("2025-03-26"), 2)),
        (INITIALIZE, "wait", "initialize 2025-03-26", "wait", agreed("2025-03-26")),
        "2025-03-26"),
)  # fmt: skip
def test_prefer_session_mode_sends_initialize_first(row):
    check(row)


def test_prefer_session_mode_fails_if_both_requests_are_refused():
    played = play(
        "prefer-session",
        initialize_gets(refused(-32601), 1),
        probe_gets(refused(-32601), 2),
    )
    assert played.transcript == [INITIALIZE, "wait", PROBE, "wait"]
    assert "refused the handshake" in str(played.error)


@pytest.mark.rule("RPC-17")
def test_a_discover_result_without_a_type_is_complete():
    result = discovered("2026-07-28")
    del result["resultType"]
    assert play("auto", probe_gets(result)).agreement.revision is LATEST


@pytest.mark.rule("VER-03")
@table(
    Row("the same again", "auto",
        (probe_gets(refused(-32022, "2026-07-28")), probe_gets(MODERN, 2)),
        (PROBE, "wait 5 s", PROBE, "wait"), "2026-07-28",
        ("0 sent server/discover", "1 server/discover failed", "1 sent server/discover",
         "2 server/discover answered", "2 agreed")),
    Row("beside older ones", "auto",
        (probe_gets(refused(-32022, "2025-06-18", "2026-07-28")),
         probe_gets(MODERN, 2)),
        (PROBE, "wait 5 s", PROBE, "wait"), "2026-07-28"),
    Row("in mode stateless", "stateless",
        (probe_gets(refused(-32022, "2026-07-28")), probe_gets(MODERN, 2)),
        (PROBE, "wait", PROBE, "wait"), "2026-07-28"),
)  # fmt: skip
def test_version_error_with_a_modern_revision_repeats_the_probe(row):
    check(row)


@pytest.mark.rule("VER-03", "LIFE-07")
@table(
    Row("in the version error", "auto",
        (probe_gets(refused(-32022, "2025-03-26", "2025-06-18", "1999-01-01")),
         initialize_gets(initialized("2025-06-18"))),
        (PROBE, "wait 5 s", "initialize 2025-06-18", "wait", agreed("2025-06-18")),
        "2025-06-18"),
    Row("in the DiscoverResult", "auto",
        (probe_gets(discovered("2024-11-05", "2025-06-18")),
         initialize_gets(initialized("2025-06-18"))),
        (PROBE, "wait 5 s", "initialize 2025-06-18", "wait", agreed("2025-06-18")),
        "2025-06-18"),
    Row("in both, after the second probe", "auto",
        (probe_gets(refused(-32022, "2026-07-28", "2025-06-18")),
         probe_gets(refused(-32022, "2026-07-28", "2025-06-18")),
         initialize_gets(initialized("2025-06-18"))),
        (PROBE, "wait 5 s", PROBE, "wait", "initialize 2025-06-18", "wait",
         agreed("2025-06-18")), "2025-06-18"),
    Row("in the DiscoverResult, with initialize open", "auto",
        (silence(), probe_gets(discovered("2025-06-18"), 6),
         initialize_gets(initialized("2025-06-18"), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait", agreed("2025-06-18")),
        "2025-06-18"),
    Row("in the version error, with initialize open", "auto",
        (silence(), probe_gets(refused(-32022, "2025-06-18"), 6),
         initialize_gets(initialized("2025-06-18"), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait", agreed("2025-06-18")),
        "2025-06-18"),
    Row("in the DiscoverResult, with initialize refused", "auto",
        (silence(), initialize_gets(refused(-32603), 6),
         probe_gets(discovered("2025-06-18"), 7),
         initialize_gets(initialized("2025-06-18"), 8)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait", "initialize 2025-06-18", "wait",
         agreed("2025-06-18")), "2025-06-18"),
)  # fmt: skip
def test_newest_mutual_legacy_revision_is_initialized(row):
    check(row)


@pytest.mark.rule("VER-03", "LIFE-07", "LIFE-17")
@table(
    Row("-32602, as legacy servers say it", "session",
        (initialize_gets(refused(-32602, "2024-11-05", "2025-03-26"), 1),
         initialize_gets(initialized("2025-03-26"), 2)),
        (INITIALIZE, "wait", "initialize 2025-03-26", "wait", agreed("2025-03-26")),
        "2025-03-26"),
    Row("-32022, as modern servers say it", "session",
        (initialize_gets(refused(-32022, "2026-07-28", "2025-06-18"), 1),
         initialize_gets(initialized("2025-06-18"), 2)),
        (INITIALIZE, "wait", "initialize 2025-06-18", "wait", agreed("2025-06-18")),
        "2025-06-18"),
    Row("-32602 after the probe was refused", "auto",
        (probe_gets(refused(-32601)), initialize_gets(refused(-32602, "2024-11-05"), 2),
         initialize_gets(initialized("2024-11-05"), 3)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "initialize 2024-11-05", "wait",
         agreed("2024-11-05")), "2024-11-05"),
    Row("-32022 after the probe was refused", "auto",
        (probe_gets(refused(-32601)), initialize_gets(refused(-32022, "2024-11-05"), 2),
         initialize_gets(initialized("2024-11-05"), 3)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "initialize 2024-11-05", "wait",
         agreed("2024-11-05")), "2024-11-05"),
)  # fmt: skip
def test_revision_named_by_a_refused_initialize_is_proposed_once(row):
    check(row)


@pytest.mark.rule("VER-03")
@table(
    Row("the probe is sent again", "auto",
        (probe_gets(refused(-32601)),
         initialize_gets(refused(-32022, "2026-07-28", "2025-06-18"), 2),
         probe_gets(MODERN, 3)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", PROBE, "wait"), "2026-07-28",
        ("0 sent server/discover", "1 server/discover failed", "1 sent initialize",
         "2 initialize failed", "2 sent server/discover", "3 server/discover answered",
         "3 agreed")),
    Row("the open probe is awaited", "auto",
        (silence(), initialize_gets(refused(-32022, "2026-07-28"), 6),
         probe_gets(MODERN, 60)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), "2026-07-28",
        ("0 sent server/discover", "5 silence", "5 sent initialize",
         "6 initialize failed", "6 the server is modern", "60 server/discover answered",
         "60 agreed")),
    Row("the open probe is awaited, whatever the modern code", "auto",
        (silence(), initialize_gets(refused(-32020), 6), probe_gets(MODERN, 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), "2026-07-28"),
)  # fmt: skip
def test_modern_error_to_initialize_proves_the_modern_era(row):
    check(row)


@table(
    Row("the probe's answer comes first", "auto",
        (silence(), probe_gets(MODERN, 30)),
        (PROBE, "wait 5 s", INITIALIZE, "wait"), "2026-07-28",
        ("0 sent server/discover", "5 silence", "5 sent initialize",
         "30 server/discover answered", "30 agreed")),
    Row("initialize's answer comes first", "auto",
        (silence(), initialize_gets(initialized(), 30)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", agreed()), "2025-11-25",
        ("0 sent server/discover", "5 silence", "5 sent initialize",
         "30 initialize answered", "30 agreed")),
    Row("the probe is refused late", "auto",
        (silence(), probe_gets(refused(-32601), 6), initialize_gets(initialized(), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait", agreed()), "2025-11-25"),
    Row("initialize is refused, the probe's answer comes later", "auto",
        (silence(), initialize_gets(refused(-32601), 6), probe_gets(MODERN, 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), "2026-07-28"),
    Row("initialize's answer is broken, the probe's comes later", "auto",
        (silence(), initialize_gets({}, 6), probe_gets(MODERN, 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), "2026-07-28"),
)  # fmt: skip
def test_first_conclusive_answer_decides_after_silence(row):
    check(row)


@pytest.mark.rule("LIFE-02", "LIFE-07", "LIFE-08")
@pytest.mark.pain("P26")
@table(
    Row("mode session", "session", (initialize_gets(initialized()),),
        (INITIALIZE, "wait", agreed()), "2025-11-25",
        ("0 sent initialize", "2 initialize answered", "2 agreed")),
    *(Row(f"{revision} in answer to the newest", "session",
          (initialize_gets(initialized(revision.name)),),
          (INITIALIZE, "wait", agreed(revision)), revision.name)
      for revision in REVISIONS if revision.era is Era.SESSION),
    *(Row(f"pinned {revision}", revision.name,
          (initialize_gets(initialized(revision.name)),),
          (f"initialize {revision}", "wait", agreed(revision)), revision.name)
      for revision in REVISIONS if revision.era is Era.SESSION),
)  # fmt: skip
def test_initialize_opens_a_session_at_a_common_revision(row):
    check(row)


@pytest.mark.rule("META-06", "META-07", "VER-01")
def test_probe_carries_version_capabilities_and_client_info():
    step = play("auto", probe_gets(MODERN)).steps[0]
    assert step.params == {"_meta": request_meta(LATEST, IDENTITY)}


@pytest.mark.rule("LIFE-02", "VER-14")
def test_initialize_carries_version_capabilities_and_client_info():
    step = play("session", initialize_gets(initialized())).steps[0]
    assert step.params == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "me", "version": "1"},
    }


def agreement_of(era, members):
    """Return the agreement when the server's result has these members."""
    if era is Era.STATELESS:
        return play("auto", probe_gets(discovered("2026-07-28") | members)).agreement
    return play("session", initialize_gets(initialized() | members)).agreement


ERAS = pytest.mark.parametrize("era", list(Era))


@ERAS
def test_agreement_holds_everything_the_server_declared(era):
    agreement = agreement_of(era, {"instructions": "Be kind.", "x": 1})
    assert agreement.server_info == INFO
    assert agreement.capabilities == {"tools": {}}
    assert agreement.instructions == "Be kind."
    assert agreement.raw["x"] == 1
    assert agreement.revision.era is era
    assert agreement.negotiation.era is era


@pytest.mark.fault("F49")
@ERAS
@pytest.mark.parametrize("value", [None, 7, "text", [], True])
def test_malformed_instructions_and_server_info_are_ignored(era, value):
    name = "serverInfo" if era is Era.SESSION else "_meta"
    agreement = agreement_of(era, {name: value, "instructions": value})
    assert agreement.server_info is None
    assert agreement.instructions == (value if value == "text" else None)


@pytest.mark.fault("F49")
def test_stateless_server_info_is_read_from_meta_only():
    members = {"serverInfo": {"name": "elsewhere"}, "_meta": {META + "serverInfo": 7}}
    assert agreement_of(Era.STATELESS, members).server_info is None


@pytest.mark.fault("F49")
@ERAS
def test_absent_or_null_capabilities_are_empty(era):
    assert agreement_of(era, {"capabilities": None}).capabilities == {}
    result = discovered("2026-07-28") if era is Era.STATELESS else initialized()
    del result["capabilities"]
    gets = probe_gets if era is Era.STATELESS else initialize_gets
    mode = "auto" if era is Era.STATELESS else "session"
    assert play(mode, gets(result)).agreement.capabilities == {}


AGREED = "notifications/initialized at 2025-11-25"
CLOSED = ConnectionClosed("the peer closed it")
CRASHED = ConnectionClosed("the child exited", exit_code=1)
FUTURE = ("2027-03-01", "2030-01-01")
NOT_COMMON = Error(NegotiationError, supported=FUTURE)
REFUSED = Error(NegotiationError, supported=())


@pytest.mark.rule("VER-03", "LIFE-17")
@table(
    Row("-32022 to the probe", "auto", (probe_gets(refused(-32022, *FUTURE)),),
        (PROBE, "wait 5 s"), NOT_COMMON,
        ("0 sent server/discover", "1 server/discover failed")),
    Row("DiscoverResult", "auto", (probe_gets(discovered(*FUTURE)),),
        (PROBE, "wait 5 s"), NOT_COMMON),
    Row("DiscoverResult, in mode stateless", "stateless",
        (probe_gets(discovered("2025-11-25")),), (PROBE, "wait"),
        Error(NegotiationError, supported=("2025-11-25",))),
    Row("a DiscoverResult that names nothing", "auto", (probe_gets(discovered()),),
        (PROBE, "wait 5 s"), REFUSED),
    Row("-32022 to initialize", "session", (initialize_gets(refused(-32022, *FUTURE)),),
        (INITIALIZE, "wait"), NOT_COMMON),
    Row("-32022 to initialize names what is not allowed", "session",
        (initialize_gets(refused(-32022, "2026-07-28")),), (INITIALIZE, "wait"),
        Error(NegotiationError, supported=("2026-07-28",))),
    Row("-32602 to initialize", "session", (initialize_gets(refused(-32602, *FUTURE)),),
        (INITIALIZE, "wait"), NOT_COMMON),
    Row("unknown revision in answer to initialize", "session",
        (initialize_gets(initialized("2027-03-01")),), (INITIALIZE, "wait"),
        Error(NegotiationError, supported=("2027-03-01",))),
    Row("another revision than the pinned one", "2025-06-18",
        (initialize_gets(initialized("2025-11-25")),),
        ("initialize 2025-06-18", "wait"),
        Error(NegotiationError, supported=("2025-11-25",))),
    Row("an empty revision", "session", (initialize_gets(initialized("")),),
        (INITIALIZE, "wait"), Error(NegotiationError, supported=("",))),
)  # fmt: skip
def test_error_without_a_common_revision_names_the_server_versions(row):
    check(row)


@pytest.mark.rule("LIFE-09", "VER-14")
@pytest.mark.pain("P26")
@table(
    *(Row(f"in mode {mode}", mode, script,
          steps, Error(NegotiationError, supported=("2026-07-28",)))
      for mode, script, steps in (
          ("session", (initialize_gets(initialized("2026-07-28")),),
           (INITIALIZE, "wait")),
          ("auto", (probe_gets(refused(-32601)),
                    initialize_gets(initialized("2026-07-28"))),
           (PROBE, "wait 5 s", INITIALIZE, "wait")),
      )),
    Row("beside the open probe", "auto",
        (silence(), initialize_gets(initialized("2026-07-28"), 6)),
        (PROBE, "wait 5 s", INITIALIZE, "wait"),
        Error(NegotiationError, supported=("2026-07-28",))),
)  # fmt: skip
def test_modern_revision_in_an_initialize_result_is_refused(row):
    check(row)


def test_error_messages_name_the_versions_of_both_sides():
    error = play("session", initialize_gets(initialized("2027-03-01"))).error
    assert str(error) == (
        "no common revision: we allow 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05; "
        "the server speaks 2027-03-01"
    )
    error = play("session", initialize_gets(initialized("2026-07-28"))).error
    assert "answered initialize with 2026-07-28" in str(error)
    error = play("stateless", probe_gets(refused(-32022, "2027-03-01"))).error
    assert str(error).endswith("we allow 2026-07-28; the server speaks 2027-03-01")
    error = play("2025-11-25", initialize_gets(refused(-32022, "2025-11-25"))).error
    assert str(error).startswith("the server refused the handshake: no (JSON-RPC error")
    error = play("stateless", probe_gets(discovered())).error
    assert str(error).endswith("we allow 2026-07-28; the server speaks none")


def test_error_for_very_long_server_data_is_short():
    names = [f"{number:0100}" for number in range(1_000)]
    error = play("auto", probe_gets(discovered(*names))).error
    assert len(error.supported) == 1_000
    assert len(str(error)) < 1_000
    assert len(str(error.negotiation)) < 2_000
    error = play("session", initialize_gets(initialized("9" * 100_000))).error
    assert len(str(error)) < 1_000
    for broken in ({"protocolVersion": ["x"] * 9_999}, {"capabilities": "x" * 9_999}):
        error = play("session", initialize_gets(initialized() | broken)).error
        assert len(str(error)) < 1_000
    error = play("session", initialize_gets(rpc_error(-1, "x" * 9_999))).error
    assert len(str(error)) < 1_000
    assert len(str(error.negotiation)) < 1_000


@pytest.mark.rule("VER-03")
@table(
    *(Row(f"{code} to the probe", mode, (probe_gets(refused(code)),),
          (PROBE, wait), REFUSED)
      for code in (-32020, -32021, -32022)
      for mode, wait in (("auto", "wait 5 s"), ("stateless", "wait"))),
    Row("-32022 twice", "auto",
        (probe_gets(refused(-32022, "2026-07-28")),
         probe_gets(refused(-32022, "2026-07-28"), 2)),
        (PROBE, "wait 5 s", PROBE, "wait"),
        Error(NegotiationError, supported=("2026-07-28",))),
    Row("-32022, then something else", "auto",
        (probe_gets(refused(-32022, "2026-07-28")), probe_gets(refused(-32601), 2)),
        (PROBE, "wait 5 s", PROBE, "wait"),
        Error(NegotiationError, supported=("2026-07-28",))),
    Row("to the open probe, after initialize was refused", "auto",
        (silence(), initialize_gets(refused(-32601), 6),
         probe_gets(refused(-32021), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), REFUSED),
    Row("to initialize, and the open probe is refused too", "auto",
        (silence(), initialize_gets(refused(-32022), 6),
         probe_gets(refused(-32601), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), REFUSED),
    Row("to initialize, pinned", "2025-06-18", (initialize_gets(refused(-32021)),),
        ("initialize 2025-06-18", "wait"), REFUSED),
)  # fmt: skip
def test_modern_error_rules_out_initialize(row):
    check(row)


@pytest.mark.rule("LIFE-17")
@table(
    Row("the probe, in mode stateless", "stateless", (probe_gets(refused(-32601)),),
        (PROBE, "wait"), REFUSED),
    Row("the probe, pinned", "2026-07-28", (probe_gets({}),), (PROBE, "wait"), REFUSED),
    Row("initialize", "session", (initialize_gets(refused(-32603)),),
        (INITIALIZE, "wait"), REFUSED),
    Row("both", "auto", (probe_gets(refused(-32601)), initialize_gets(refused(-32603))),
        (PROBE, "wait 5 s", INITIALIZE, "wait"), REFUSED,
        ("0 sent server/discover", "1 server/discover failed", "1 sent initialize",
         "2 initialize failed")),
    Row("both, after silence", "auto",
        (silence(), probe_gets(refused(-32601), 6), initialize_gets(refused(-1), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "wait"), REFUSED),
    Row("initialize twice", "session",
        (initialize_gets(refused(-32602, "2025-06-18")),
         initialize_gets(refused(-32602, "2025-03-26"), 3)),
        (INITIALIZE, "wait", "initialize 2025-06-18", "wait"),
        Error(NegotiationError, supported=("2025-03-26",))),
    Row("initialize, naming what was proposed", "session",
        (initialize_gets(refused(-32022, "2025-11-25")),), (INITIALIZE, "wait"),
        Error(NegotiationError, supported=("2025-11-25",))),
    Row("initialize, with odd data", "session",
        (initialize_gets(refused(-32602, 7, None)),), (INITIALIZE, "wait"), REFUSED),
)  # fmt: skip
def test_server_that_refuses_everything_ends_the_handshake(row):
    check(row)


def broken(name, result, path, got):
    """Make the row of a broken InitializeResult and the path of the fault."""
    return pytest.param(result, path, got, id=name)


VERSION = "InitializeResult.protocolVersion"


@pytest.mark.fault("F49")
@pytest.mark.parametrize(
    ("result", "path", "got"),
    [
        broken("no version", {}, VERSION, "nothing"),
        broken("version is null", initialized(None), VERSION, "None"),
        broken("version is a number", initialized(20251125), VERSION, "20251125"),
        broken("version is an array", initialized(["2025-11-25"]), VERSION,
               "['2025-11-25']"),
        broken("capabilities are an array", initialized(capabilities=[1]),
               "InitializeResult.capabilities", "[1]"),
        broken("capabilities are true", initialized(capabilities=True),
               "InitializeResult.capabilities", "True"),
    ],
)  # fmt: skip
def test_broken_initialize_result_ends_the_handshake_with_its_path(result, path, got):
    played = play("session", initialize_gets(result))
    assert played.transcript == [INITIALIZE, "wait"]
    assert played.error == Error(NegotiationError, supported=())
    assert played.error.__cause__ == Error(InvalidMessage, path=path, got=got)
    assert path in str(played.error)


@pytest.mark.parametrize(
    ("result", "path"),
    [
        ({}, "DiscoverResult.supportedVersions"),
        (discovered("2026-07-28", capabilities=7), "DiscoverResult.capabilities"),
        (discovered("2026-07-28", resultType="x"), "DiscoverResult.resultType"),
    ],
)
def test_broken_discover_result_is_refused_with_its_path(result, path):
    error = play("stateless", probe_gets(result)).error
    assert error.__cause__ == Error(InvalidMessage, path=path)


def test_refusal_of_initialize_is_the_cause_and_not_that_of_the_probe():
    error = play(
        "auto", probe_gets(refused(-32601)), initialize_gets(refused(-32603))
    ).error
    assert error.__cause__ == Error(type(refused(-32603)), code=-32603)


def lost(name, mode, script, steps, verdict=CLOSED):
    return Row(name, mode, script, steps, Same(verdict))


class Same:
    """Equal only to that very exception object."""

    __hash__ = None

    def __init__(self, error):
        self.error = error

    def __eq__(self, other):
        return other is self.error


@pytest.mark.rule("LIFE-17")
@table(
    lost("during the probe, in mode stateless", "stateless", (probe_gets(CLOSED),),
         (PROBE, "wait")),
    lost("during initialize, in mode session", "session", (initialize_gets(CLOSED),),
         (INITIALIZE, "wait")),
    lost("pinned", "2024-11-05", (initialize_gets(CLOSED),),
         ("initialize 2024-11-05", "wait")),
    lost("twice", "auto", (probe_gets(CRASHED), initialize_gets(CLOSED)),
         (PROBE, "wait 5 s", "reopen", INITIALIZE, "wait")),
    lost("after a modern error to the probe", "auto",
         (probe_gets(refused(-32022, "2026-07-28")), probe_gets(CLOSED, 2)),
         (PROBE, "wait 5 s", PROBE, "wait")),
    lost("after a modern error to initialize", "auto",
         (silence(), initialize_gets(refused(-32022), 6), probe_gets(CLOSED, 7)),
         (PROBE, "wait 5 s", INITIALIZE, "wait", "wait")),
    lost("after another revision was proposed on the new connection", "auto",
         (probe_gets(CRASHED), initialize_gets(refused(-32602, "2025-06-18"), 2),
          initialize_gets(CLOSED, 3)),
         (PROBE, "wait 5 s", "reopen", INITIALIZE, "wait", "initialize 2025-06-18",
          "wait")),
)  # fmt: skip
def test_lost_connection_error_is_raised_unchanged(row):
    check(row)


@pytest.mark.rule("VER-11")
@pytest.mark.pain("P26")
@table(
    Row("during the probe", "auto",
        (probe_gets(CRASHED, 0.5), initialize_gets(initialized(), 1)),
        (PROBE, "wait 5 s", "reopen", INITIALIZE, "wait", AGREED), "2025-11-25",
        ("0 sent server/discover", "0.5 the connection ended", "0.5 sent initialize",
         "1 initialize answered", "1 agreed")),
    Row("with both open", "auto",
        (silence(), initialize_gets(CLOSED, 6), initialize_gets(initialized(), 7)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "reopen", INITIALIZE, "wait", AGREED),
        "2025-11-25"),
    Row("during initialize, after the probe was refused", "auto",
        (probe_gets(refused(-32601)), initialize_gets(CLOSED), initialize_gets(
            initialized(), 3)),
        (PROBE, "wait 5 s", INITIALIZE, "wait", "reopen", INITIALIZE, "wait", AGREED),
        "2025-11-25"),
    Row("during initialize at a revision the server named", "auto",
        (probe_gets(discovered("2025-03-26")), initialize_gets(CLOSED),
         initialize_gets(initialized("2025-03-26"), 3)),
        (PROBE, "wait 5 s", "initialize 2025-03-26", "wait", "reopen",
         "initialize 2025-03-26", "wait", "notifications/initialized at 2025-03-26"),
        "2025-03-26"),
)  # fmt: skip
def test_lost_connection_is_reopened_once_for_initialize(row):
    check(row)


def test_error_in_our_own_request_is_raised_unchanged():
    error = LocalProtocolError("cannot send $.params.capabilities.x: no JSON")
    for mode, gets in (("auto", probe_gets), ("session", initialize_gets)):
        played = play(mode, gets(error))
        assert played.error is error
        assert len(played.steps) == 2
