"""What a gateway was told, checked: each option by its name."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from mcpwire.config.url_deny_list import UrlDenyList
from mcpwire.gateway.delegating.splicer import splicer_of
from mcpwire.gateway.plan import Static
from mcpwire.gateway.selection import check_forwarded
from mcpwire.gateway.sessions.ids import HandleIds
from mcpwire.limits import Limits, check_timeout
from mcpwire.protocol.request_state import check_key
from mcpwire.server.features.paging import check_page_size
from mcpwire.tools.names import NamePolicy
from mcpwire.tools.transforms import ToolTransform
from mcpwire.types.lifecycle import Implementation
from mcpwire.versions import read_revisions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.gateway.plan import Planned, Source
    from mcpwire.gateway.sessions.ids import SessionIds
    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.tools.rules import Rules
    from mcpwire.versions import Revision

__all__ = ["Settings"]


class Settings:
    """The options of a gateway; `Gateway` says what each of them means."""

    source: Source

    def _describe(
        self,
        name: str,
        version: str,
        instructions: str | None,
        revisions: Iterable[Revision | str],
        page_size: int | None,
    ) -> None:
        self.info = Implementation(name, version)
        self.instructions = instructions
        self.revisions = read_revisions(revisions)
        self.page_size = check_page_size(page_size)

    def _protect(
        self,
        auth: ResourceServer | None,
        limits: Limits,
        ask_timeout: float,
        deny_urls: Iterable[str],
        state_keys: Iterable[bytes],
    ) -> None:
        self.auth = auth
        keys = tuple(check_key(key) for key in state_keys)
        self.state_keys = keys or (secrets.token_bytes(32),)
        self.limits = limits
        self.ask_timeout = check_timeout(ask_timeout, "ask_timeout")
        self.deny_urls = UrlDenyList(deny_urls)
        if isinstance(self.source, Static):
            self._check_urls(self.source.servers)

    def _check_urls(self, servers: Iterable[Planned]) -> None:
        """Refuse servers that are on the deny list.

        Raises:
            ValueError: One is; names it.
        """
        for planned in servers:
            if self.denies(planned):
                raise ValueError(f"the URL of the server {planned.name!r} is denied")

    def denies(self, planned: Planned) -> bool:
        """Tell whether a server is at a URL that is on the deny list."""
        url = getattr(planned.target, "url", None)
        return url is not None and self.deny_urls.refuses(url) is not None

    def _connect_by(
        self,
        on_error: str,
        timeout: float | None,
        connect_timeout: float | None,
        concurrency: int,
    ) -> None:
        self.on_error = _one_of("on_error", on_error, ("skip", "raise"))
        self.timeout = check_timeout(timeout)
        self.connect_timeout = check_timeout(connect_timeout, "connect_timeout")
        self.concurrency = _count("concurrency", concurrency)

    def _share_by(self, share: str, max_upstream_sets: int, idle: float) -> None:
        self.share = _one_of("share", share, ("session", "identity"))
        self.max_upstream_sets = _count("max_upstream_sets", max_upstream_sets)
        seconds = check_timeout(idle, "idle")
        if seconds is None:
            raise ValueError("idle must be a number of seconds, got None")
        self.idle = seconds

    def _offer(
        self,
        names: NamePolicy | None,
        server_names: str,
        rules: Rules,
        transforms: Mapping[str, ToolTransform] | None,
        as_tools: Mapping[str, bool],
    ) -> None:
        self.names = NamePolicy.proxy() if names is None else names
        self.server_names = _one_of("server_names", server_names, ("ours", "theirs"))
        self.rules = rules
        self.transforms = _transforms(transforms or {})
        self.as_tools = frozenset(kind for kind, wanted in as_tools.items() if wanted)

    def _pass_on(
        self, forward_headers: Iterable[str], delegate: Any, sessions: Any
    ) -> None:
        private = getattr(self.source, "private_headers", ())
        self.forward_headers = check_forwarded(forward_headers, private)
        if hasattr(self.source, "withheld"):
            self.source.withheld = frozenset(self.forward_headers)
        self.delegate = splicer_of(delegate, withheld=private)
        self.sessions: SessionIds = HandleIds() if sessions is None else sessions


def _transforms(given: Mapping[str, Any]) -> dict[str, ToolTransform]:
    for pattern, transform in given.items():
        if not isinstance(transform, ToolTransform):
            raise TypeError(
                f"transforms[{pattern!r}] must be a ToolTransform, got {transform!r}"
            )
    return dict(given)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def _count(name: str, value: int) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be an integer above 0, got {value!r}")
    return value
