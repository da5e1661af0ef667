"""Seals texts so that nobody else can read or change them (RFC 7516).

One form only: compact, ``dir`` and ``A256GCM``, so that a sealed text cannot choose how
it is opened. joserfc does it; it is optional, imported on use.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import LocalProtocolError
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["KEY_BYTES", "import_sealing_key", "seal", "unseal"]

KEY_BYTES: Final = 32
"""What A256GCM takes (RFC 7518 section 5.3)."""

_PART: Final = re.compile(r"[A-Za-z0-9_-]*")


def import_sealing_key(key: object) -> Any:
    """Return a key, ready to seal and to open.

    Raises:
        ValueError: It is not 32 bytes; shows nothing of it.
        LocalProtocolError: joserfc is not installed.
    """
    if type(key) is not bytes or len(key) != KEY_BYTES:
        raise ValueError(
            f"a sealing key must be {KEY_BYTES} random bytes, such as "
            f"secrets.token_bytes({KEY_BYTES}) makes"
        )
    return _load().OctKey.import_key(key)


def seal(plaintext: bytes, key: Any, *, kind: str) -> str:
    """Return a text that only who has the key can read; each time another one.

    Args:
        plaintext: What it says.
        key: One of `import_sealing_key`.
        kind: What it is for and how it is written; goes along, readable.
    """
    from joserfc import jwe

    return jwe.encrypt_compact(_header(kind), plaintext, key)


def unseal(sealed: str, keys: Sequence[Any], *, kind: str) -> bytes | None:
    """Return what a text says; ``None``: none of the keys sealed it for that.

    There is one spelling of each: what differs in a single character is not sealed by
    us, also where base64 would read it alike. Never raises.
    """
    start = f"{_spell(encode(_header(kind)))}.."
    parts = sealed.removeprefix(start).split(".")
    if (
        not sealed.startswith(start)
        or len(parts) != 3
        or not all(map(_is_canonical, parts))
    ):
        return None
    from joserfc import jwe
    from joserfc.errors import JoseError

    for key in keys:
        try:
            opened = jwe.decrypt_compact(sealed, key, algorithms=["dir", "A256GCM"])
        except (JoseError, ValueError):
            continue
        return opened.plaintext
    return None


def _header(kind: str) -> dict[str, Any]:
    return {"alg": "dir", "enc": "A256GCM", "typ": kind}


def _is_canonical(part: str) -> bool:
    """Tell whether a part is spelled as we do: its last character may say too much."""
    if _PART.fullmatch(part) is None or len(part) % 4 == 1:
        return False
    return _spell(urlsafe_b64decode(part + "=" * (-len(part) % 4))) == part


def _spell(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _load() -> ModuleType:
    try:
        from joserfc import jwk
    except ImportError as error:
        raise LocalProtocolError(
            "sealing session ids needs joserfc: pip install joserfc"
        ) from error
    return jwk
