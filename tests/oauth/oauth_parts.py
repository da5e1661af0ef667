"""The records of an `authorization_server`: requests, clients, and issued tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from raw_server import Connection, RawRequest


class Recorded:
    """One received request, parsed in each way that a test may need."""

    def __init__(self, raw: RawRequest, key: str, conn: Connection) -> None:
        parts = urlsplit(raw.target)
        self.verb = raw.verb
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.headers = raw.headers
        self.raw = raw.raw
        self.body = raw.body
        self.key = key
        """Its key in `KEYS`; its path where it has none."""
        self.conn = conn

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.body.decode(), keep_blank_values=True)

    @cached_property
    def form(self) -> dict[str, str]:
        return dict(self.pairs)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.verb} {self.path} {self.form.get('grant_type', '')}>"


@dataclass
class Registered:
    """A client that the server knows."""

    client_id: str
    secret: str | None = None
    redirect_uris: list[str] | None = None
    """None: any is accepted."""
    method: str | None = None
    """The required authentication method; None: any."""
    key: str | None = None
    """The public key of its assertions, PEM."""


@dataclass
class Family:
    """The tokens that result from one consent."""

    client_id: str
    scopes: tuple[str, ...]
    resource: str | None
    refresh: str | None = None
    thumbprint: str | None = None
    access: list[str] = field(default_factory=list)


class Refused(Exception):
    """An error of RFC 6749 section 5.2."""

    def __init__(self, error: str, status: int = 400, **fields: str) -> None:
        super().__init__(error)
        self.error, self.status, self.fields = error, status, fields
