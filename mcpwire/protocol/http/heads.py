"""The heads of our HTTP requests: which fields each of them carries, as bytes.

A head is composed once and kept until the session or the revision changes, so that a
request of a session costs no composing at all. What does not belong in a field never
gets into one: no control character leaves here but the CRLFs that end the lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._version import __version__
from mcpwire.errors import LocalProtocolError
from mcpwire.wire.headers import (
    LAST_EVENT_ID,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    is_session_id,
    is_token,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.versions import Revision
    from mcpwire.wire.urls import Url

__all__ = ["Heads", "can_resume_from", "check_headers", "field_line"]

USER_AGENT: Final = f"mcpwire/{__version__}"

# RFC 9110, 5.5, without the tab it allows: it is a control character all the same.
_VALUE: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_TARGET: Final = re.compile(r"/[!\"$-~]*")  # a fragment is no part of a request

_EVENT_ID: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
_EVENT_ID_BYTES: Final = 4 * 1024  # many servers refuse heads of more than 8 KiB

_VERSION: Final = PROTOCOL_VERSION.lower()
_SESSION: Final = SESSION_ID.lower()
_MIRRORED: Final = PARAM_PREFIX.lower()

# What a user's own header would break: the framing, or what MCP says in the head.
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        LAST_EVENT_ID.lower(),
        METHOD.lower(),
        NAME.lower(),
        _SESSION,
        _VERSION,
    }
)


def check_headers(
    headers: Mapping[str, str], what: str = "headers"
) -> tuple[tuple[str, str], ...]:
    """Return a user's own headers as pairs, names in lower case and each only once.

    Of names that differ only in case the last counts. `what` names the headers in the
    message, which never shows a value.

    Raises:
        LocalProtocolError: One of them cannot be a header, or is for mcpwire to write.
    """
    if not isinstance(headers, Mapping):
        raise LocalProtocolError(
            f"{what} must be a mapping of names to values, got {type(headers).__name__}"
        )
    given: Mapping[Any, Any] = headers
    checked = {}
    for name, value in given.items():
        if not isinstance(name, str) or not is_token(name):
            # A whole line may have been given as the name: its value stays hidden.
            shown = type(name).__name__
            if isinstance(name, str):
                shown = repr(name.partition(":")[0][:40])
            raise LocalProtocolError(f"{what}: {shown} cannot be a header's name")
        lower = name.lower()
        if lower in _OURS or lower.startswith(_MIRRORED):
            raise LocalProtocolError(f"{what}: {name!r} is for mcpwire to write")
        if not isinstance(value, str):
            raise LocalProtocolError(
                f"{what}: the value of {name!r} must be str, got {type(value).__name__}"
            )
        checked[lower] = _check_value(name, value, what)
    return tuple(checked.items())


def _check_value(name: str, value: str, what: str) -> str:
    if _VALUE.fullmatch(value) is None:
        raise LocalProtocolError(
            f"{what}: the value of {name!r} must be visible ASCII, with spaces only "
            "inside"
        )
    return value


def can_resume_from(event_id: str) -> bool:
    """Tell whether an event id can travel in `Last-Event-ID`.

    Beyond ASCII it travels as UTF-8 (HTML standard, 9.2.3), and spaces around it are no
    part of a field. An id with control characters, of spaces only or of more than 4 KiB
    has no way to travel: resume from one before it, and drop what comes twice.
    """
    return (
        _EVENT_ID.fullmatch(event_id) is not None
        and event_id.strip(" ") != ""
        and len(event_id.encode()) <= _EVENT_ID_BYTES
    )


def field_line(name: str, value: str) -> bytes:
    """Return one field line; the name is in lower case.

    Raises:
        LocalProtocolError: They cannot be a field's name and value.
    """
    if not is_token(name):
        raise LocalProtocolError(f"{name[:40]!r} cannot be a header's name")
    return f"{name}: {_check_value(name, value, 'headers')}\r\n".encode("ascii")


class Heads:
    """The heads of the requests to one target on one session.

    `own` are the user's headers for all requests, as `check_headers` accepts them.

    `extra` are further fields of one request, such as the mirrored ones, or headers
    that `check_headers` has accepted. A later field takes the place of an earlier one
    of the same name, in whatever case.

    Raises:
        LocalProtocolError: A header, of all requests or of one, cannot be one.
    """

    __slots__ = ("_delete", "_get", "_own", "_post", "_revision", "_session_id", "_url")

    def __init__(self, url: Url, own: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._own = dict(check_headers(own or {}))
        self._session_id: str | None = None
        self._revision: Revision | None = None
        self._compose()

    @property
    def session_id(self) -> str | None:
        """The session that the requests belong to.

        Raises:
            LocalProtocolError: On setting: it is no session id.
        """
        return self._session_id

    @session_id.setter
    def session_id(self, session_id: str | None) -> None:
        if session_id is not None and not is_session_id(session_id):
            raise LocalProtocolError("a session id must be visible ASCII")
        self._session_id = session_id
        self._compose()

    @property
    def revision(self) -> Revision | None:
        """The agreed revision; ``None`` before there is one, as on `initialize`."""
        return self._revision

    @revision.setter
    def revision(self, revision: Revision | None) -> None:
        self._revision = revision
        self._compose()

    def with_target(self, target: str) -> Heads:
        """Return the same heads for another path and query of the same origin.

        Raises:
            LocalProtocolError: That is no path and query of a request line.
        """
        path, mark, query = target.partition("?")
        url = attrs.evolve(self._url, path=path, query=query if mark else None)
        heads = Heads(url, self._own)
        heads._session_id = self._session_id
        heads._revision = self._revision
        heads._compose()
        return heads

    def post(
        self, extra: Iterable[tuple[str, str]] = (), *, version: str | None = None
    ) -> bytes:
        """Return the head of a POST that carries one message.

        `version` is for a request that comes before the agreement and names its
        revision all the same, as each one of the stateless era does.
        """
        if version is not None:
            extra = (*extra, (_VERSION, version))
        return self._post.start(extra) if extra else self._post.bare

    def get(
        self, last_event_id: str | None = None, extra: Iterable[tuple[str, str]] = ()
    ) -> bytes:
        """Return the head of a GET that opens an event stream, or resumes one.

        Raises:
            LocalProtocolError: `can_resume_from` refuses the id.
        """
        start = self._get.start(extra)
        if not last_event_id:
            return start
        if not can_resume_from(last_event_id):
            raise LocalProtocolError("the event id cannot travel in a header")
        # 2025-11-25 basic/transports, "Resumability and Redelivery".
        return b"%slast-event-id: %s\r\n" % (start, last_event_id.strip(" ").encode())

    def delete(self, extra: Iterable[tuple[str, str]] = ()) -> bytes:
        """Return the head of the DELETE that ends the session."""
        return self._delete.start(extra)

    def _compose(self) -> None:
        common = {
            "host": self._url.authority,
            "user-agent": USER_AGENT,
            # A handful of bytes: compressing them costs more than it saves.
            "accept-encoding": "identity",
            **self._own,
        }
        if self._revision is not None:
            common[_VERSION] = self._revision.name
        if self._session_id is not None:
            common[_SESSION] = self._session_id
        # 2025-11-25 basic/transports, "Sending Messages to the Server": both types.
        both = "application/json, text/event-stream"
        body = {"content-type": "application/json", "accept": both}
        target = self._url.target
        self._post = _Head("POST", target, {**common, **body})
        self._get = _Head("GET", target, {**common, "accept": "text/event-stream"})
        self._delete = _Head("DELETE", target, common)


class _Head:
    """The head of one kind of request."""

    __slots__ = ("_fields", "_request_line", "bare")

    def __init__(self, verb: str, target: str, fields: dict[str, str]) -> None:
        if _TARGET.fullmatch(target) is None:
            raise LocalProtocolError("a request's target must be a path and query")
        self._request_line = f"{verb} {target} HTTP/1.1\r\n".encode("ascii")
        self._fields = {name: field_line(name, value) for name, value in fields.items()}
        self.bare = self._request_line + b"".join(self._fields.values())
        """The head with nothing extra."""

    def start(self, extra: Iterable[tuple[str, str]]) -> bytes:
        """Return the head with something extra."""
        lines = {}
        for name, value in extra:
            lower = name.lower()
            lines[lower] = field_line(lower, value)
        if self._fields.keys().isdisjoint(lines):
            return self.bare + b"".join(lines.values()) if lines else self.bare
        return self._request_line + b"".join((self._fields | lines).values())
