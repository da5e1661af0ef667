"""What an agreement means for every request that follows, composed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.lifecycle import Identity, request_meta
from mcpwire.protocol.methods import (
    METHODS,
    Kind,
    available,
    capability_declared,
    declared_extensions,
    find,
    is_declared,
    methods_of,
)
from mcpwire.protocol.negotiation import META
from mcpwire.versions import Era
from mcpwire.wire.json import Fragment, encode

if TYPE_CHECKING:
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.versions import Revision

__all__ = ["Profile"]

LOG_LEVEL: Final = META + "logLevel"


@attrs.frozen
class Profile:
    """How requests are made on a connection; the empty one is that of none."""

    agreement: Agreement | None = None

    stamp: Any = None
    """The `_meta` of every request, ready to send; ``None`` in a session."""

    stamp_fields: dict[str, Any] | None = None
    """The same as a dict, to be merged with a call's own."""

    refused: frozenset[str] = frozenset()
    """Requests whose capability was not declared, or whose extension is off."""

    extensions: frozenset[str] = frozenset()
    """The extensions that both sides have switched on (2026-07-28 basic/versioning,
    "Extension Negotiation")."""

    @classmethod
    def of(
        cls, agreement: Agreement, identity: Identity, *, log_level: str | None = None
    ) -> Profile:
        """Compose what each request would otherwise ask.

        With `log_level` every request of a stateless revision asks for log messages
        from that level on; a session has a request of its own for that.
        """
        revision = agreement.revision
        fields = None
        if revision.era is Era.STATELESS:
            fields = request_meta(revision, identity)
            if log_level is not None:
                fields[LOG_LEVEL] = log_level
        extensions = declared_extensions(
            identity.capabilities_at(revision)
        ) & declared_extensions(agreement.capabilities)
        return cls(
            agreement,
            None if fields is None else Fragment(encode(fields)),
            fields,
            frozenset(
                spec.name
                for spec in methods_of(revision, "client", extensions)
                if spec.kind is Kind.REQUEST
                and not is_declared(spec, agreement.capabilities)
            )
            | _switched_off(revision, extensions),
            extensions,
        )

    @property
    def era(self) -> Era | None:
        """The agreed era; ``None`` before an agreement."""
        return self.agreement.revision.era if self.agreement is not None else None

    def offers(self, capability: str) -> bool:
        """Tell whether the server declared a capability, such as ``logging``."""
        return self.agreement is not None and capability_declared(
            self.agreement.capabilities, capability
        )

    def refusal(self, method: str) -> LocalProtocolError:
        """Build the error for a request whose capability the server lacks.

        2025-11-25 basic/lifecycle, "Operation": only what was negotiated is used.
        """
        assert self.agreement is not None
        spec = available(method, self.agreement.revision, "client", self.extensions)
        if spec is None:
            reason = self._why_off(method, self.agreement)
        else:
            reason = f"the server did not declare {spec.capability!r}"
        return LocalProtocolError(
            f"{reason}, which {method} needs; `client.request` sends it all the same"
        )

    def _why_off(self, method: str, agreement: Agreement) -> str:
        spec = find(method)
        assert spec is not None
        if agreement.revision < spec.since:
            return f"this connection speaks {agreement.revision}, not {spec.since}"
        if spec.extension in declared_extensions(agreement.capabilities):
            return f"this client was made without the extension {spec.extension!r}"
        return f"the server did not declare {spec.extension!r}"


def _switched_off(revision: Revision, extensions: frozenset[str]) -> frozenset[str]:
    """Return the requests of extensions that are not switched on."""
    return frozenset(
        spec.name
        for spec in METHODS
        if spec.extension is not None
        and spec.kind is Kind.REQUEST
        and "client" in spec.senders
        and available(spec.name, revision, "client", extensions) is None
    )
