"""What a client keeps for us between rounds: as it was made, for whom and for what."""

import base64
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.protocol.request_state import (
    ANONYMOUS,
    MAX_STATE_BYTES,
    CallState,
    RecordedAnswer,
    check_key,
    request_digest,
    seal,
    state_binding,
    unseal,
)

KEY = b"k" * 32
OTHER_KEY = b"o" * 32
OWNER = ("https://issuer.example", "client", "alice")
PARAMS = {"name": "pay", "arguments": {"amount": 5, "to": ["a", {"b": None}]}}
BINDING = state_binding(OWNER, "tools/call", PARAMS)

STATE = CallState(
    round=2,
    nonce="n1",
    expires_at=1000,
    digests={"size": "elicitation/create"},
    answers={"name": RecordedAnswer("elicitation/create", {"action": "accept"})},
    stored={"order": {"id": 7}},
)
SEALED = seal(STATE, BINDING, KEY)

leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9)
values = leaves | st.lists(leaves, max_size=3) | st.dictionaries(st.text(), leaves)


def refused(given, binding=BINDING, keys=(KEY,), now=0.0):
    with pytest.raises(InvalidParams) as caught:
        unseal(given, binding, keys, now)
    return caught.value.message


@pytest.mark.rule("MRTR-08")
@given(
    st.dictionaries(st.text(), values, max_size=3),
    st.dictionaries(st.text(), values, max_size=3),
)
def test_what_was_sealed_comes_back_as_it_was(answer, kept):
    state = attrs.evolve(
        STATE, answers={"one": RecordedAnswer("roots/list", answer)}, stored=kept
    )
    assert unseal(seal(state, BINDING, KEY), BINDING, [KEY], 0.0) == state


def test_a_state_is_read_until_the_second_in_which_it_ends():
    assert unseal(SEALED, BINDING, [KEY], 999.9) == STATE


@pytest.mark.rule("MRTR-09")
@pytest.mark.case("F16")
def test_a_state_that_is_too_old_is_refused_and_that_is_said():
    assert "too old" in refused(SEALED, now=1000.0)


def test_a_forged_state_is_never_said_to_be_too_old():
    assert refused(SEALED, now=1000.0, keys=[OTHER_KEY]) == refused("x")


@pytest.mark.rule("MRTR-08")
@given(st.data())
def test_no_flipped_bit_is_accepted(data):
    raw = bytearray(SEALED.encode())
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] ^= 1 << data.draw(st.integers(0, 6))
    refused(raw.decode())


@pytest.mark.rule("MRTR-07", "MRTR-08")
@given(st.integers(0, len(SEALED) - 1))
def test_no_truncated_state_is_accepted(length):
    refused(SEALED[:length])
    refused(SEALED[length + 1 :])


@pytest.mark.rule("MRTR-07")
@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        True,
        [SEALED],
        {"state": SEALED},
        "",
        ".",
        "..",
        "mcpwire1..",
        "é\x00\ud800.é",
        f"{SEALED}-TAMPERED",
        f" {SEALED}",
        f"{SEALED}=",
        SEALED.replace("mcpwire1", "mcpwire2"),
        "." * 10_000,
        "a" * (MAX_STATE_BYTES + 1),
    ],
)
def test_whatever_is_no_state_is_refused_alike(given):
    assert refused(given) == refused("x")


@pytest.mark.rule("MRTR-07")
@given(st.text())
def test_no_text_is_taken_for_a_state(text):
    refused(text)


@pytest.mark.rule("MRTR-09", "ELIC-17")
@pytest.mark.case("F16")
@pytest.mark.parametrize(
    ("owner", "method", "params"),
    [
        (("https://issuer.example", "client", "mallory"), "tools/call", PARAMS),
        (("https://other.example", "client", "alice"), "tools/call", PARAMS),
        (("https://issuer.example", "other", "alice"), "tools/call", PARAMS),
        (ANONYMOUS, "tools/call", PARAMS),
        (OWNER, "prompts/get", PARAMS),
        (OWNER, "tools/call", {**PARAMS, "name": "refund"}),
        (OWNER, "tools/call", {**PARAMS, "arguments": {"amount": 6}}),
        (OWNER, "tools/call", {**PARAMS, "task": {}}),
        (OWNER, "tools/call", {}),
    ],
)
def test_a_state_is_good_for_its_owner_and_its_request_only(owner, method, params):
    refused(SEALED, state_binding(owner, method, params))


@pytest.mark.rule("MRTR-09")
def test_fields_of_the_owner_do_not_run_into_each_other():
    assert state_binding(("a", "b", None), "m", {}) != state_binding(
        ("ab", "", None), "m", {}
    )
    assert state_binding((None, "a", None), "m", {}) != state_binding(
        (None, None, "a"), "m", {}
    )


def test_what_differs_from_round_to_round_is_not_bound():
    again = {
        "arguments": {"to": ["a", {"b": None}], "amount": 5},
        "name": "pay",
        "_meta": {"progressToken": 9},
        "inputResponses": {"size": {}},
        "requestState": SEALED,
    }
    assert (
        unseal(SEALED, state_binding(OWNER, "tools/call", again), [KEY], 0.0) == STATE
    )


@pytest.mark.attack("S14")
def test_params_of_any_depth_are_bound_or_refused():
    deep = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(InvalidParams, match="nested too deeply"):
        state_binding(OWNER, "tools/call", {"arguments": deep})
    at_the_bound = []
    for _ in range(250):
        at_the_bound = [at_the_bound]
    assert state_binding(OWNER, "tools/call", {"arguments": at_the_bound})


def test_an_older_key_is_read_and_the_newest_one_signs():
    assert unseal(SEALED, BINDING, [OTHER_KEY, KEY], 0.0) == STATE
    refused(SEALED, keys=[OTHER_KEY])
    refused(SEALED, keys=[])


def test_a_state_of_another_purpose_with_the_same_key_is_refused():
    """What is signed names its purpose, so that no other signature passes for it."""
    import hmac

    text = SEALED.rpartition(".")[0]
    signature = hmac.digest(KEY, BINDING + text.encode(), "sha256")
    spelled = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    refused(f"{text}.{spelled}")


def test_the_client_can_read_a_state():
    """The docstring promises no secrecy; nobody is to rely on one."""
    payload = SEALED.split(".")[1]
    members = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert members["k"] == {"order": {"id": 7}}


@pytest.mark.parametrize("kept", [{"a": "x" * MAX_STATE_BYTES}, {"a": float("nan")}])
def test_a_state_that_cannot_be_sent_is_not_made(kept):
    with pytest.raises(LocalProtocolError):
        seal(attrs.evolve(STATE, stored=kept), BINDING, KEY)


@pytest.mark.parametrize("key", [b"", b"k" * 15, "k" * 32, None, bytearray(32)])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(ValueError, match="at least 16 random bytes"):
        check_key(key)


def test_a_key_is_taken_as_it_is():
    assert check_key(KEY) is KEY


def test_a_key_that_the_author_chose_stands_for_the_question_however_worded():
    assert request_digest("roots/list", {}, is_named=True) == "roots/list"
    assert request_digest(
        "elicitation/create", {"a": 1}, is_named=True
    ) == request_digest("elicitation/create", {"a": 2}, is_named=True)


def test_a_key_that_was_counted_stands_for_one_text_only():
    def mark(method="elicitation/create", **params):
        return request_digest(method, params, is_named=False)

    assert mark(message="a", url="b") == mark(url="b", message="a")
    assert mark(message="a") != mark(message="b")
    assert mark(message="a") != mark("sampling/createMessage", message="a")
    assert mark().startswith("elicitation/create ")
