"""Sealed texts cannot be read or changed without the key."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mcpwire.auth.jwt import import_sealing_key, seal, unseal
from mcpwire.errors import LocalProtocolError

OLD = import_sealing_key(b"o" * 32)
NEW = import_sealing_key(b"n" * 32)
KIND = "test-1"


@pytest.mark.system("O20")
@pytest.mark.parametrize("text", [b"", b"\0\0leading zeros", b"\xff" * 100, b"{}"])
def test_unseal_returns_the_sealed_text(text: bytes) -> None:
    sealed = seal(text, NEW, kind=KIND)
    assert all("!" <= letter <= "~" for letter in sealed)
    key = import_sealing_key(b"n" * 32)
    assert unseal(sealed, [key], kind=KIND) == text


@pytest.mark.system("O22")
def test_unseal_tries_older_keys() -> None:
    assert unseal(seal(b"x", OLD, kind=KIND), [NEW, OLD], kind=KIND) == b"x"


@pytest.mark.system("O20", "O22")
def test_unseal_returns_none_without_the_key() -> None:
    assert unseal(seal(b"x", OLD, kind=KIND), [NEW], kind=KIND) is None
    assert unseal(seal(b"x", OLD, kind=KIND), [], kind=KIND) is None


@pytest.mark.system("O20")
def test_changing_any_character_invalidates_a_sealed_text() -> None:
    """Also the last one of each part, of which base64 ignores some bits."""
    sealed = seal(b"secret", NEW, kind=KIND)
    for at, letter in enumerate(sealed):
        for other in "AQgw_.":
            if other != letter:
                changed = f"{sealed[:at]}{other}{sealed[at + 1 :]}"
                assert unseal(changed, [NEW], kind=KIND) is None


@pytest.mark.system("O20")
@pytest.mark.parametrize(
    "given", ["", ".", "....", "x" * 100, "eyJhbGciOiJub25lIn0....", "\xe9", "\ud800"]
)
def test_unseal_returns_none_for_garbage(given: str) -> None:
    assert unseal(given, [NEW], kind=KIND) is None
    start = seal(b"x", NEW, kind=KIND).partition("..")[0]
    assert unseal(f"{start}..{given}", [NEW], kind=KIND) is None
    assert unseal(f"{start}..{given}.{given}.{given}", [NEW], kind=KIND) is None


def test_unseal_returns_none_for_an_oversized_text() -> None:
    sealed = seal(b"x" * 100_000, NEW, kind=KIND)
    assert unseal(sealed, [NEW], kind=KIND) is None


def test_unseal_returns_none_for_another_kind() -> None:
    assert unseal(seal(b"x", NEW, kind="other-1"), [NEW], kind=KIND) is None


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33, "x" * 32, None])
def test_an_invalid_sealing_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(ValueError, match="32 random bytes") as caught:
        import_sealing_key(key)
    assert "xxx" not in str(caught.value)


def test_missing_joserfc_is_named_in_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(LocalProtocolError) as caught:
        import_sealing_key(b"x" * 32)
    assert str(caught.value) == (
        "sealing session ids needs joserfc: pip install joserfc"
    )
