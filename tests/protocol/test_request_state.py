"""Request state that a client keeps between rounds: integrity, binding, expiry."""

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


def refusal_of(given, binding=BINDING, keys=(KEY,), now=0.0):
    with pytest.raises(InvalidParams) as caught:
        unseal(given, binding, keys, now)
    return caught.value.message


@pytest.mark.rule("MRTR-08")
@given(
    st.dictionaries(st.text(), values, max_size=3),
    st.dictionaries(st.text(), values, max_size=3),
)
def test_sealed_state_is_restored(answer, stored):
    state = attrs.evolve(
        STATE, answers={"one": RecordedAnswer("roots/list", answer)}, stored=stored
    )
    assert unseal(seal(state, BINDING, KEY), BINDING, [KEY], 0.0) == state


def test_state_is_valid_until_its_last_second():
    assert unseal(SEALED, BINDING, [KEY], 999.9) == STATE


@pytest.mark.rule("MRTR-09")
@pytest.mark.case("F16")
def test_expired_state_is_refused_as_too_old():
    assert "too old" in refusal_of(SEALED, now=1000.0)


def test_forged_state_is_not_called_too_old():
    assert refusal_of(SEALED, now=1000.0, keys=[OTHER_KEY]) == refusal_of("x")


@pytest.mark.rule("MRTR-08")
@given(st.data())
def test_state_with_a_flipped_bit_is_refused(data):
    raw = bytearray(SEALED.encode())
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] ^= 1 << data.draw(st.integers(0, 6))
    refusal_of(raw.decode())


@pytest.mark.rule("MRTR-07", "MRTR-08")
@given(st.integers(0, len(SEALED) - 1))
def test_truncated_state_is_refused(length):
    refusal_of(SEALED[:length])
    refusal_of(SEALED[length + 1 :])


@pytest.mark.rule("MRTR-07")
@pytest.mark.parametrize(
    "sealed",
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
def test_invalid_states_are_refused_with_the_same_message(sealed):
    assert refusal_of(sealed) == refusal_of("x")


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
def test_state_is_valid_only_for_its_owner_and_request(owner, method, params):
    refusal_of(SEALED, state_binding(owner, method, params))


@pytest.mark.rule("MRTR-09")
def test_fields_of_the_owner_are_separated_in_the_binding():
    assert state_binding(("a", "b", None), "m", {}) != state_binding(
        ("ab", "", None), "m", {}
    )
    assert state_binding((None, "a", None), "m", {}) != state_binding(
        (None, None, "a"), "m", {}
    )


def test_binding_ignores_members_that_change_between_rounds():
    params = {
        "arguments": {"to": ["a", {"b": None}], "amount": 5},
        "name": "pay",
        "_meta": {"progressToken": 9},
        "inputResponses": {"size": {}},
        "requestState": SEALED,
    }
    assert (
        unseal(SEALED, state_binding(OWNER, "tools/call", params), [KEY], 0.0) == STATE
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


def test_older_keys_still_unseal():
    assert unseal(SEALED, BINDING, [OTHER_KEY, KEY], 0.0) == STATE
    refusal_of(SEALED, keys=[OTHER_KEY])
    refusal_of(SEALED, keys=[])


def test_signature_made_for_another_purpose_is_refused():
    """The signed text names its purpose, so that no other signature passes for it."""
    import hmac

    text = SEALED.rpartition(".")[0]
    signature = hmac.digest(KEY, BINDING + text.encode(), "sha256")
    spelled = base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
    refusal_of(f"{text}.{spelled}")


def test_sealed_state_is_readable_by_the_client():
    """The docstring promises no secrecy; nobody should rely on it."""
    payload = SEALED.split(".")[1]
    members = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert members["k"] == {"order": {"id": 7}}


@pytest.mark.parametrize("stored", [{"a": "x" * MAX_STATE_BYTES}, {"a": float("nan")}])
def test_state_too_large_or_unencodable_is_not_sealed(stored):
    with pytest.raises(LocalProtocolError):
        seal(attrs.evolve(STATE, stored=stored), BINDING, KEY)


@pytest.mark.parametrize("key", [b"", b"k" * 15, "k" * 32, None, bytearray(32)])
def test_invalid_key_is_refused(key):
    with pytest.raises(ValueError, match="at least 16 random bytes"):
        check_key(key)


def test_valid_key_is_returned_unchanged():
    assert check_key(KEY) is KEY


def test_named_request_has_a_digest_independent_of_its_params():
    assert request_digest("roots/list", {}, is_named=True) == "roots/list"
    assert request_digest(
        "elicitation/create", {"a": 1}, is_named=True
    ) == request_digest("elicitation/create", {"a": 2}, is_named=True)


def test_unnamed_request_has_a_digest_of_its_params():
    def mark(method="elicitation/create", **params):
        return request_digest(method, params, is_named=False)

    assert mark(message="a", url="b") == mark(url="b", message="a")
    assert mark(message="a") != mark(message="b")
    assert mark(message="a") != mark("sampling/createMessage", message="a")
    assert mark().startswith("elicitation/create ")
