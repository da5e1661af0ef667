"""Roots: the folders and files that a client lets its servers work in.

A root is a ``file://`` URI (client/roots). What is no such URI in its plainest form is
refused, so that no two programs can read one differently (2026-07-28 client/roots,
"Security Considerations": clients MUST validate root URIs to prevent path traversal).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.host.question import (
    Question,
    decode_params,
    encode_answer,
    excerpt,
)

if TYPE_CHECKING:
    from mcpwire.types import JsonObject, Root
    from mcpwire.versions import Revision

__all__ = ["PathLike", "RootLike", "Roots", "as_roots", "as_source", "ask"]


class PathLike(Protocol):
    """What names a path: `pathlib.Path` and its kind."""

    def __fspath__(self) -> str | bytes:
        """Return the path."""
        ...


RootLike: TypeAlias = "Root | str | PathLike"
"""A root, a ``file://`` URI, or an absolute path, as text or as an object."""

Roots: TypeAlias = (
    "Iterable[RootLike] "
    "| Callable[[], Iterable[RootLike] | Awaitable[Iterable[RootLike]]]"
)
"""Roots, or a function, plain or async, that returns them."""

_METHOD: Final = "roots/list"

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")

_RULES: Final = tuple(
    (re.compile(offence), sentence)
    for offence, sentence in (
        (r"\A(?!file://)", "must begin with file://, or be an absolute path"),
        (r"[?#]", "must have neither query nor fragment"),
        (r"\Afile://(?!(?:localhost)?(?:/|\Z))", "must not name another machine"),
        (r"\Afile://[^/]*\Z", "must be absolute, such as file:///home"),
        # RFC 3986: what no path holds undecoded, percent signs that encode nothing.
        (
            r"[^!$&-;=@-Z_a-z~%]|%(?![0-9A-Fa-f]{2})",
            "holds characters that must be percent-encoded",
        ),
        (r"(?i:%2f|%5c|%00)", "must not hold an encoded separator or NUL"),
        (r"/(?:\.|(?i:%2e)){1,2}(?=/|\Z)", "must not hold the segments . and .."),
    )
)
"""What must not be found in a root's URI, and why it is refused."""


def as_source(given: Roots | None) -> Any:
    """Return what the user gave for roots: a function, a list, a tuple or ``None``.

    A list stays the user's own, so that it may change.

    Raises:
        ValueError: It is neither roots nor a function; says which entry is wrong.
    """
    if given is None or callable(given):
        return given
    source = given if isinstance(given, list) else tuple(_iterable(given))
    as_roots(source)
    return source


def as_roots(values: Iterable[RootLike]) -> list[Root]:
    """Return roots as the wire has them, each one checked.

    A path must be absolute; it is not looked up. A text with a scheme is a URI: it must
    begin with ``file://``, name no other machine, have neither query nor fragment, and
    hold no ``..``, however it is spelled.

    Raises:
        ValueError: One of them is no root; says which and why.
    """
    return [_as_root(value, index) for index, value in enumerate(_iterable(values))]


def _iterable(values: Any) -> Iterable[Any]:
    is_one = isinstance(values, (str, bytes, Mapping)) or hasattr(values, "__fspath__")
    if is_one or not isinstance(values, Iterable):
        raise ValueError(f"roots must be a list or a function, got {excerpt(values)}")
    return values


def _as_root(value: Any, index: int) -> Root:
    from mcpwire.types import Root

    where = f"roots[{index}]"
    if isinstance(value, Root):
        root = value
    elif isinstance(value, str):
        root = Root(value if _SCHEME.match(value) else _uri_of(value, where))
    elif hasattr(value, "__fspath__"):
        root = Root(_uri_of(value.__fspath__(), where))
    else:
        raise ValueError(
            f"{where}: expected a Root, a file:// URI or a path, got {excerpt(value)}"
        )
    if root.name is not None and not isinstance(root.name, str):
        raise ValueError(f"{where}: its name must be a str, got {excerpt(root.name)}")
    problem = _problem_of(root.uri)
    if problem is not None:
        raise ValueError(f"{where}: {excerpt(root.uri)} {problem}")
    return root


def _uri_of(path: str | bytes, where: str) -> str:
    """Spell an absolute path as a URI, as `pathlib` does."""
    from urllib.parse import quote_from_bytes

    # How Python spells the bytes of file names that are no UTF-8.
    text = path.decode("utf-8", "surrogateescape") if type(path) is bytes else str(path)
    prefix = "file://"
    if _DRIVE.match(text):
        prefix, text = f"file:///{text[:2]}", text[2:].replace("\\", "/")
    elif not text.startswith("/"):
        raise ValueError(
            f"{where}: {excerpt(text)} is a relative path; a root must be absolute"
        )
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: {excerpt(text)} is no path ({error})") from error
    return prefix + quote_from_bytes(data)


def _problem_of(uri: object) -> str | None:
    """Say what keeps a URI from being a root's, or return ``None``."""
    if not isinstance(uri, str):
        return "is no str"
    return next((why for offence, why in _RULES if offence.search(uri)), None)


def ask(
    source: Any, params: JsonObject | None, revision: Revision, _: JsonObject
) -> Question:
    """Answer a server's question for the roots.

    Raises:
        InvalidParams: The params, which hold nothing, are malformed.
    """
    from mcpwire.types import ListRootsRequestParams

    request = decode_params(
        ListRootsRequestParams, {} if params is None else params, _METHOD
    )
    if callable(source):
        return Question(lambda _: source(), request, partial(_finish, revision))
    return Question(None, request, lambda _: _finish(revision, source))


def _finish(revision: Revision, value: Any) -> JsonObject:
    from mcpwire.types import ListRootsResult

    try:
        roots = as_roots(value)
    except ValueError as error:
        raise LocalProtocolError(str(error)) from error
    return encode_answer(ListRootsResult(roots), revision, "roots")
