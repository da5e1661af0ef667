"""The table of handlers: what a client can be asked, declared and answered by it.

Declared capabilities follow from the handlers that are there, and a question is taken
only where its capability is declared in the revision spoken, so the two never part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mcpwire.errors import MethodNotFound
from mcpwire.protocol.host import elicitation as elicitations
from mcpwire.protocol.host import roots as root_lists
from mcpwire.protocol.host import sampling as samplings
from mcpwire.protocol.host.completions import UrlElicitations
from mcpwire.protocol.host.question import Question, excerpt
from mcpwire.protocol.methods import available, is_declared

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.protocol.host.elicitation import Elicitation, FormHandler
    from mcpwire.protocol.host.roots import Roots
    from mcpwire.protocol.host.sampling import Sampling, SamplingHandler
    from mcpwire.types import JsonObject
    from mcpwire.versions import Revision

__all__ = ["HostFeatures", "Question"]


class HostFeatures:
    """What a client does for its servers, by the handlers that it was given.

    Args:
        sampling: A function or a `Sampling`: answers with the client's model.
        elicitation: A function (forms only) or an `Elicitation`: asks the user.
        roots: A list of `Root`, ``file://`` URIs and path objects, or a function that
            returns one. A list is read whenever a server asks, so it may change.
        extensions: The ids of the extensions to switch on, or a mapping from ids to
            settings. None is on by itself (SEP-2133, "SDK Implementation").
        experimental: Capabilities of the user's own, by name, with their settings.

    Attributes:
        url_elicitations: Those whose end a server may still tell.

    Raises:
        ValueError: One of them is nothing of the kind; names the argument.
    """

    def __init__(
        self,
        *,
        sampling: SamplingHandler | Sampling | None = None,
        elicitation: FormHandler | Elicitation | None = None,
        roots: Roots | None = None,
        extensions: Mapping[str, JsonObject | None] | Iterable[str] | None = None,
        experimental: Mapping[str, JsonObject | None] | None = None,
    ) -> None:
        self._sampling = samplings.as_sampling(sampling)
        self._elicitation = elicitations.as_elicitation(elicitation)
        self._roots = root_lists.as_source(roots)
        self._extensions = _as_extensions(extensions)
        self._experimental = _as_experimental(experimental)
        self.url_elicitations = UrlElicitations()
        self._asks: Mapping[str, Callable[..., Question]] = {
            "sampling/createMessage": self._ask_sampling,
            "elicitation/create": self._ask_elicitation,
            "roots/list": self._ask_roots,
        }

    def replace(self, given: Mapping[str, Any]) -> None:
        """Let others answer from now on: what is named, by the names of the arguments.

        Raises:
            ValueError: One of them is nothing of the kind; then nothing is replaced.
        """
        checks: Mapping[str, Callable[[Any], Any]] = {
            "sampling": samplings.as_sampling,
            "elicitation": elicitations.as_elicitation,
            "roots": root_lists.as_source,
        }
        checked = {f"_{name}": checks[name](value) for name, value in given.items()}
        for name, value in checked.items():
            setattr(self, name, value)

    @property
    def extensions(self) -> frozenset[str]:
        """The ids of the extensions that are switched on."""
        return frozenset(self._extensions)

    def capabilities(self, revision: Revision) -> JsonObject:
        """Return the client capabilities that are declared at a revision."""
        handlers = (self._sampling, self._elicitation, self._roots)
        declared = self._extensions or self._experimental
        if not declared and all(given is None for given in handlers):
            return {}
        from mcpwire.types import ClientCapabilities, RootsCapability, encode

        capabilities = encode(
            ClientCapabilities(
                roots=None if self._roots is None else RootsCapability(True),
                sampling=samplings.capability(self._sampling),
                elicitation=elicitations.capability(self._elicitation),
                extensions={id: dict(given) for id, given in self._extensions.items()}
                or None,
                experimental=self._experimental or None,
            ),
            revision,
        )
        has_forms = self._elicitation is not None and self._elicitation.form is not None
        if capabilities.get("elicitation") == {} and not has_forms:
            # 2025-06-18 knows forms only, and an empty capability always means forms.
            del capabilities["elicitation"]
        return capabilities

    def question(
        self, method: str, params: JsonObject | None, revision: Revision
    ) -> Question:
        """Return the handler for what a server asks, its argument, its answer's check.

        Raises:
            MethodNotFound: The revision has no such question, or nobody is there to
                answer it.
            InvalidParams: The question breaks a rule; says which and where.
        """
        spec = available(method, revision, "server")
        ask = self._asks.get(method)
        capabilities = self.capabilities(revision)
        if spec is None or ask is None or not is_declared(spec, capabilities):
            raise MethodNotFound(
                f"this client does not answer {excerpt(method)}", method=method
            )
        return ask(params, revision, capabilities)

    def completes(self, params: JsonObject | None) -> bool:
        """Tell whether a completion notification ends an elicitation that is open.

        2025-11-25 client/elicitation, "Completion Notifications": one about an id that
        is unknown or finished MUST be ignored.
        """
        return self.url_elicitations.complete(params)

    def _ask_sampling(self, *question: Any) -> Question:
        assert self._sampling is not None
        return samplings.ask(self._sampling, *question)

    def _ask_elicitation(self, *question: Any) -> Question:
        assert self._elicitation is not None
        return elicitations.ask(self._elicitation, self.url_elicitations, *question)

    def _ask_roots(self, *question: Any) -> Question:
        assert self._roots is not None
        return root_lists.ask(self._roots, *question)


def _as_extensions(
    given: Mapping[str, JsonObject | None] | Iterable[str] | None,
) -> dict[str, JsonObject]:
    if given is None:
        return {}
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(
            "extensions must be ids, or a mapping from ids to settings, "
            f"got {excerpt(given)}"
        )
    if not isinstance(given, Mapping):
        return {_checked_id(id): {} for id in given}
    return {_checked_id(id): _settings(id, given[id]) for id in given}


def _checked_id(id: object) -> str:
    from mcpwire.types.meta import is_meta_key

    # 2026-07-28 basic/versioning, "Extension Negotiation": the rules of `_meta` keys,
    # and the prefix is mandatory.
    if not isinstance(id, str) or "/" not in id or not is_meta_key(id):
        raise ValueError(
            f"extensions: {excerpt(id)} is no extension's id, "
            "which is spelled like 'com.example/name'"
        )
    return id


def _as_experimental(
    given: Mapping[str, JsonObject | None] | None,
) -> dict[str, JsonObject]:
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(
            "experimental must be a mapping from names to settings, "
            f"got {excerpt(given)}"
        )
    return {
        name: _settings(name, settings, "experimental")
        for name, settings in (given or {}).items()
    }


def _settings(id: str, settings: Any, argument: str = "extensions") -> JsonObject:
    if settings is not None and not isinstance(settings, Mapping):
        raise ValueError(
            f"{argument}: the settings of {excerpt(id)} must be a mapping, "
            f"got {excerpt(settings)}"
        )
    return dict(settings or {})
