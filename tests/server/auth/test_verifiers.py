"""Tokens and keys that the server issues itself."""

import asyncio

import pytest

from mcpwire.auth.resource_server import TtlCache
from mcpwire.server.auth import ApiKeys, InvalidToken, Principal, StaticTokens

SECRET = "hush-hush"


def verify(verifier, token):
    return asyncio.run(verifier.verify(token))


@pytest.mark.parametrize("kind", [StaticTokens, ApiKeys])
@pytest.mark.parametrize("owner", ["ann", {"subject": "ann"}, Principal(subject="ann")])
def test_known_token_gives_its_principal(kind, owner):
    assert verify(kind({"t": owner}), "t") == Principal(subject="ann")


@pytest.mark.parametrize("token", ["", "T", "t ", "tt", "ü"])
def test_unknown_token_is_refused(token):
    with pytest.raises(InvalidToken):
        verify(StaticTokens({"t": "ann"}), token)


@pytest.mark.parametrize("owner", ["", {}, {"issuer": "i"}, Principal()])
def test_token_owner_needs_a_subject(owner):
    with pytest.raises(ValueError, match="subject"):
        StaticTokens({"t": owner})


@pytest.mark.parametrize("token", ["", "a b", "a,b", "ü", "a" * 20_000, "a:b"])
def test_token_that_cannot_be_sent_is_refused(token):
    with pytest.raises(ValueError, match="RFC 6750"):
        StaticTokens({token: "ann"})


def test_api_key_in_its_own_header_allows_more_characters():
    assert verify(ApiKeys({"a:b,c": "ann"}, header="X-Key"), "a:b,c").subject == "ann"
    with pytest.raises(ValueError):
        ApiKeys({"a b": "ann"}, header="X-Key")


@pytest.mark.parametrize("header", ["", "x key", "Authorization"])
def test_invalid_or_reserved_api_key_header_is_refused(header):
    with pytest.raises(ValueError, match="no key can stand"):
        ApiKeys({"k": "ann"}, header=header)


@pytest.mark.case("G13")
def test_static_tokens_neither_show_nor_keep_tokens():
    made = StaticTokens({SECRET: "ann"})
    assert repr(made) == "<StaticTokens: 1>"
    assert SECRET not in repr(vars(made))


def test_ttl_cache_evicts_expired_and_oldest_entries():
    cache = TtlCache(2)
    cache.put("a", 1, 0, until=10)
    cache.put("b", 2, 0, until=20)
    assert (cache.get("a", 9), cache.get("a", 10), cache.get("x", 0)) == (1, None, None)
    cache.put("a", 3, 0, until=20)
    cache.put("c", 4, 0, until=20)
    assert [cache.get(name, 0) for name in "abc"] == [3, None, 4]
    cache.put("d", 5, 20, until=30)
    assert len(cache) == 1  # the expired ones are removed
    cache.clear()
    assert len(cache) == 0
