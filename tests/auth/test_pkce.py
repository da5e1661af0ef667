"""PKCE: verifiers of the right alphabet and length, S256 and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.auth.authorization import code_challenge, code_verifier


@pytest.mark.rule("FLOW-01")
def test_the_challenge_is_that_of_the_rfc_s_example():
    # RFC 7636, appendix B.
    entropy = bytes.fromhex(
        "7418dfb49799e0254ffa607dd8adbbba16d4254d69d6bff05b58055853848d79"
    )
    verifier = code_verifier(entropy)
    assert verifier == "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert code_challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@given(st.binary(min_size=32, max_size=96))
def test_any_entropy_makes_a_verifier_that_servers_must_take(entropy):
    verifier = code_verifier(entropy)
    assert re.fullmatch(r"[A-Za-z0-9_~.-]{43,128}", verifier)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", code_challenge(verifier))


@given(st.binary(min_size=32, max_size=96), st.binary(min_size=32, max_size=96))
def test_two_verifiers_are_told_apart_by_their_challenges(one, other):
    verifiers = code_verifier(one), code_verifier(other)
    challenges = {code_challenge(verifier) for verifier in verifiers}
    assert len(challenges) == len({one, other})


@pytest.mark.parametrize("count", [0, 31, 97])
def test_too_little_and_too_much_entropy_is_a_mistake_of_ours(count):
    with pytest.raises(AssertionError):
        code_verifier(bytes(count))
