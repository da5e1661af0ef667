"""Sealed texts: whoever has no key neither reads nor changes them."""

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
def test_what_is_sealed_is_opened_again(text: bytes) -> None:
    sealed = seal(text, NEW, kind=KIND)
    assert all("!" <= letter <= "~" for letter in sealed)
    key = import_sealing_key(b"n" * 32)
    assert unseal(sealed, [key], kind=KIND) == text


@pytest.mark.system("O22")
def test_what_an_older_key_of_the_ring_sealed_is_opened() -> None:
    assert unseal(seal(b"x", OLD, kind=KIND), [NEW, OLD], kind=KIND) == b"x"


@pytest.mark.system("O20", "O22")
def test_a_key_that_is_not_in_the_ring_opens_nothing() -> None:
    assert unseal(seal(b"x", OLD, kind=KIND), [NEW], kind=KIND) is None
    assert unseal(seal(b"x", OLD, kind=KIND), [], kind=KIND) is None


@pytest.mark.system("O20")
def test_each_character_counts() -> None:
    """Also the last ones of a part, of which base64 does not read all bits."""
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
def test_garbage_is_nothing(given: str) -> None:
    assert unseal(given, [NEW], kind=KIND) is None
    start = seal(b"x", NEW, kind=KIND).partition("..")[0]
    assert unseal(f"{start}..{given}", [NEW], kind=KIND) is None
    assert unseal(f"{start}..{given}.{given}.{given}", [NEW], kind=KIND) is None


def test_what_is_longer_than_joserfc_reads_is_nothing() -> None:
    sealed = seal(b"x" * 100_000, NEW, kind=KIND)
    assert unseal(sealed, [NEW], kind=KIND) is None


def test_one_kind_is_not_taken_for_another() -> None:
    assert unseal(seal(b"x", NEW, kind="other-1"), [NEW], kind=KIND) is None


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33, "x" * 32, None])
def test_what_is_no_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(ValueError, match="32 random bytes") as caught:
        import_sealing_key(key)
    assert "xxx" not in str(caught.value)


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(LocalProtocolError) as caught:
        import_sealing_key(b"x" * 32)
    assert str(caught.value) == (
        "sealing session ids needs joserfc: pip install joserfc"
    )
