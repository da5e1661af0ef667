"""The method ``completion/complete``: values for arguments of prompts and templates.

What completes an argument is the function that was registered for it, else the choices
that its type has (a literal, an enum, a truth value), by what was typed of them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InvalidParams
from mcpwire.server.authoring.signature import read_signature
from mcpwire.server.components import in_thread, object_of
from mcpwire.types import Completion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.calling import Calling
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.prompts import Prompt, Prompts
    from mcpwire.server.request import RequestContext
    from mcpwire.server.resources import Resources, Template
    from mcpwire.wire.uri_template import UriMatcher

__all__ = ["Completer", "Completions"]

MAX_VALUES: Final = 100
"""2026-07-28 schema, CompleteResult: not more values than that."""

EXCERPT: Final = 100
"""How much of a name that the client chose an error message repeats."""


@attrs.frozen(eq=False)
class Completer:
    """A function that completes one argument."""

    function: Callable[..., Any]

    signature: Signature

    runs_in_thread: bool

    value: str
    """Its parameter for what was typed."""

    others: str | None
    """Its parameter for the arguments that are known already, if it takes them."""

    @classmethod
    def of(cls, function: Callable[..., Any], thread: bool | None) -> Completer:  # noqa: FBT001 - an option as it was given
        """Read a function."""
        signature = read_signature(function, structured=False)
        names = list(signature.parameters.names)
        if not 1 <= len(names) <= 2:
            raise TypeError(
                f"{getattr(function, '__qualname__', function)} must take what was "
                f"typed, and may take the other arguments; it takes {len(names)} values"
            )
        return cls(
            function,
            signature,
            in_thread(signature, thread),
            names[0],
            names[1] if len(names) > 1 else None,
        )

    def arguments(self, typed: str, others: Mapping[str, str]) -> dict[str, Any]:
        """Return what the function takes."""
        arguments: dict[str, Any] = {self.value: typed}
        if self.others is not None:
            arguments[self.others] = dict(others)
        return arguments


class Completions:
    """Answers what completes an argument."""

    def __init__(
        self, prompts: Prompts, resources: Resources, calling: Calling
    ) -> None:
        self._prompts = prompts
        self._resources = resources
        self._calling = calling

    def add(
        self,
        reference: str,
        argument: str,
        function: Callable[..., Any],
        *,
        thread: bool | None = None,
    ) -> None:
        """Register what completes an argument."""
        known: Sequence[str] | None = None
        if "{" in reference:
            registered = self._resources.templates.completers.setdefault(reference, {})
            if reference in self._resources.templates:
                template = self._resources.templates[reference].component
                known = template.matcher.template.names
        else:
            registered = self._prompts.table.completers.setdefault(reference, {})
            if reference in self._prompts.table:
                known = self._prompts.table[reference].component.arguments
        if known is not None and argument not in known:
            raise ValueError(f"{reference!r} has no argument {argument!r}")
        if argument in registered:
            raise ValueError(f"{argument!r} of {reference!r} is completed already")
        registered[argument] = Completer.of(function, thread)

    def is_needed(self) -> bool:
        """Tell whether anything completes; if not, the capability is not declared."""
        prompts, templates = self._prompts.table, self._resources.templates
        registered = (prompts.completers, templates.completers)
        return (
            any(each for by_name in registered for each in by_name.values())
            or any(_has_choices(prompts[key].component) for key in prompts)
            or any(_has_choices(templates[key].component) for key in templates)
        )

    def methods(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {"completion/complete": self.complete}

    async def complete(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``completion/complete``."""
        found = self._find(_member(params, "ref", "params.ref"), request)
        argument = _member(params, "argument", "params.argument")
        name, typed = (
            _text(argument, member, f"params.argument.{member}")
            for member in ("name", "value")
        )
        if name not in _arguments(found):
            raise InvalidParams(f"{found.key!r} has no argument {name[:EXCERPT]!r}")
        others = _others(params.get("context"))
        values = await self._values(found, name, typed, others, request)
        return {"completion": _completion(values)}

    def _find(
        self, reference: Mapping[str, Any], request: RequestContext
    ) -> Prompt | Template:
        kind = reference.get("type")
        if kind == "ref/prompt":
            return self._prompts.find(reference.get("name"), request, "params.ref.name")
        if kind != "ref/resource":
            raise InvalidParams("params.ref.type must be ref/prompt or ref/resource")
        uri = _text(reference, "uri", "params.ref.uri")
        return self._resources.find_template(uri, request)

    async def _values(
        self,
        found: Prompt | Template,
        name: str,
        typed: str,
        others: Mapping[str, str],
        request: RequestContext,
    ) -> Any:
        calling = found.calling or self._calling  # of another server, if mounted
        completer = found.completers.get(name)
        if completer is not None:
            return await calling.invoke(
                completer.signature,
                completer.function,
                completer.arguments(typed, others),
                request,
                runs_in_thread=completer.runs_in_thread,
            )
        suggest = getattr(found, "suggestions", {}).get(name)
        if suggest is not None:
            call = functools.partial(suggest, typed)
            return await calling.in_thread(call, request.info.owner)
        return _beginning(_choices(found, name), typed)


def _arguments(found: Prompt | Template) -> Sequence[str]:
    matcher: UriMatcher | None = getattr(found, "matcher", None)
    if matcher is not None:
        return matcher.template.names
    names: Sequence[str] = getattr(found, "arguments", ())
    return names


def _choices(found: Prompt | Template, name: str) -> Iterable[str]:
    signature = found.signature
    return (signature and signature.parameters.choices(name)) or ()


def _has_choices(found: Prompt | Template) -> bool:
    return bool(getattr(found, "suggestions", None)) or any(
        _choices(found, name) for name in _arguments(found)
    )


def _beginning(choices: Iterable[str], typed: str) -> list[str]:
    folded = typed.casefold()
    return [choice for choice in choices if choice.casefold().startswith(folded)]


def _completion(values: Any) -> dict[str, Any]:
    """Return what a function gave as a result has it: no more than is allowed."""
    if isinstance(values, Completion):
        completion = object_of(values)
        given = completion["values"]
        if len(given) <= MAX_VALUES:
            return completion
        return {"total": len(given), **completion, **_cut(given)}
    given = [] if values is None else list(values)
    if isinstance(values, str) or any(type(value) is not str for value in given):
        raise TypeError(f"a completion must be a list of texts, got {values!r:.100}")
    if len(given) > MAX_VALUES:
        return {"total": len(given), **_cut(given)}
    return {"values": given, "total": len(given), "hasMore": False}


def _cut(values: list[str]) -> dict[str, Any]:
    return {"values": values[:MAX_VALUES], "hasMore": True}


def _member(params: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = params.get(name)
    if type(value) is not dict:
        raise InvalidParams(f"{where} must be an object")
    return value


def _text(members: Mapping[str, Any], name: str, where: str) -> str:
    value = members.get(name)
    if type(value) is not str:
        raise InvalidParams(f"{where} must be a string")
    return value


def _others(context: object) -> dict[str, str]:
    """Return the arguments that are known already (since 2025-06-18)."""
    if context is None:
        return {}
    arguments = context.get("arguments") if type(context) is dict else None
    if arguments is None and type(context) is dict:
        return {}
    if type(arguments) is not dict or any(
        type(value) is not str for value in arguments.values()
    ):
        raise InvalidParams("params.context.arguments must be an object of strings")
    return arguments
