"""Tokens and keys that the server gives out itself."""

import asyncio

import pytest

from mcpwire.server.auth import ApiKeys, InvalidToken, Principal, StaticTokens
from mcpwire.server.auth.verifiers import TtlCache

SECRET = "hush-hush"


def verify(verifier, token):
    return asyncio.run(verifier.verify(token))


@pytest.mark.parametrize("kind", [StaticTokens, ApiKeys])
@pytest.mark.parametrize("owner", ["ann", {"subject": "ann"}, Principal(subject="ann")])
def test_a_token_is_of_whom_it_was_given_to(kind, owner):
    assert verify(kind({"t": owner}), "t") == Principal(subject="ann")


@pytest.mark.parametrize("token", ["", "T", "t ", "tt", "ü"])
def test_no_other_token_is_of_anybody(token):
    with pytest.raises(InvalidToken):
        verify(StaticTokens({"t": "ann"}), token)


@pytest.mark.parametrize("owner", ["", {}, {"issuer": "i"}, Principal()])
def test_nobody_is_given_a_token_without_a_name(owner):
    with pytest.raises(ValueError, match="subject"):
        StaticTokens({"t": owner})


@pytest.mark.parametrize("token", ["", "a b", "a,b", "ü", "a" * 20_000, "a:b"])
def test_a_token_that_could_never_be_sent_is_refused_at_once(token):
    with pytest.raises(ValueError, match="RFC 6750"):
        StaticTokens({token: "ann"})


def test_a_key_in_a_field_of_its_own_may_hold_more():
    assert verify(ApiKeys({"a:b,c": "ann"}, header="X-Key"), "a:b,c").subject == "ann"
    with pytest.raises(ValueError):
        ApiKeys({"a b": "ann"}, header="X-Key")


@pytest.mark.parametrize("header", ["", "x key", "Authorization"])
def test_a_key_stands_in_no_field_that_is_none_or_has_its_own_meaning(header):
    with pytest.raises(ValueError, match="no key can stand"):
        ApiKeys({"k": "ann"}, header=header)


@pytest.mark.case("G13")
def test_neither_shows_nor_keeps_a_token():
    made = StaticTokens({SECRET: "ann"})
    assert repr(made) == "<StaticTokens: 1>"
    assert SECRET not in repr(vars(made))


def test_what_is_remembered_goes_with_its_time_or_by_its_age():
    recent = TtlCache(2)
    recent.put("a", 1, until=10)
    recent.put("b", 2, until=20)
    assert (recent.get("a", 9), recent.get("a", 10), recent.get("x", 0)) == (
        1,
        None,
        None,
    )
    recent.put("a", 3, until=20)
    recent.put("c", 4, until=20)
    assert [recent.get(name, 0) for name in "abc"] == [3, None, 4]
    recent.clear()
    assert len(recent) == 0
