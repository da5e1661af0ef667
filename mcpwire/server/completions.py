"""The method ``completion/complete``: values for arguments of prompts and templates.

The values are those of the function that was registered for the argument, or else the
choices of its type (a literal, an enum, a boolean) that start with the typed text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams
from mcpwire.server.authoring.signature import Signature, choices_of, read_signature
from mcpwire.server.components import Table, object_of
from mcpwire.server.request import EXCERPT, RequestContext, member_of
from mcpwire.types import Completion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.server.prompts import Prompt
    from mcpwire.server.resources import Resources, Template

MAX_VALUES: Final = 100
"""2026-07-28 schema, CompleteResult: the maximum number of values."""


class Completions:
    """Completes arguments of one server's prompts and templates."""

    def __init__(self, prompts: Table[Prompt], resources: Resources) -> None:
        self._prompts = prompts
        self._resources = resources

    def add(self, reference: str, argument: str, function: Callable[..., Any]) -> None:
        """Register a function; its prompt or template may be registered later."""
        is_template = "{" in reference
        table: Table[Any] = self._resources.templates if is_template else self._prompts
        registered = table.completers.setdefault(reference, {})
        if reference in table and argument not in table[reference].component.arguments:
            raise ValueError(f"{reference!r} has no argument {argument!r}")
        if argument in registered:
            raise ValueError(f"{argument!r} of {reference!r} is completed already")
        signature = read_signature(function, structured=False)
        count = len(signature.parameters.names)
        if not 1 <= count <= 2:
            raise TypeError(
                f"{getattr(function, '__qualname__', function)} must take the "
                f"typed text, and may take the other arguments; it takes {count} values"
            )
        registered[argument] = signature

    def is_needed(self) -> bool:
        """Return whether any argument has completions, for the capability."""
        tables: tuple[Table[Any], ...] = self._prompts, self._resources.templates
        return any(
            any(table.completers.values())
            or any(
                component.completers
                or any(_choices(component, name) for name in component.arguments)
                for component in map(table.component, table)
            )
            for table in tables
        )

    async def complete(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``completion/complete``."""
        component = self._find(member_of(params, "ref", dict), request)
        argument: dict[str, Any] = member_of(params, "argument", dict)
        name = member_of(argument, "name", str, "params.argument")
        typed = member_of(argument, "value", str, "params.argument")
        if name not in component.arguments:
            raise InvalidParams(f"{component.key!r} has no argument {name[:EXCERPT]!r}")
        other_arguments = _other_arguments(params.get("context"))
        if name in component.completers:
            completer = component.completers[name]
            names = completer.parameters.names
            values = await component.caller.invoke(
                completer,
                dict(zip(names, (typed, dict(other_arguments)), strict=False)),
                request,
                runs_in_thread=not completer.is_async,
            )
        else:
            start = typed.casefold()
            choices = _choices(component, name)
            values = [text for text in choices if text.casefold().startswith(start)]
        return {"completion": _completion(values)}

    def _find(
        self, reference: Mapping[str, Any], request: RequestContext
    ) -> Prompt | Template:
        kind = reference.get("type")
        if kind == "ref/prompt":
            name = member_of(reference, "name", str, "params.ref")
            return self._prompts.usable(name, request)
        if kind != "ref/resource":
            raise InvalidParams("params.ref.type must be ref/prompt or ref/resource")
        uri = member_of(reference, "uri", str, "params.ref")
        return self._resources.find_template(uri, request)


def _choices(component: Prompt | Template, name: str) -> Sequence[str]:
    signature: Signature | None = component.signature
    if signature is None:
        return ()
    return choices_of(signature.parameters.schema["properties"].get(name, {})) or ()


def _completion(values: Any) -> dict[str, Any]:
    """Return the values of a function as a completion, truncated to the maximum."""
    if isinstance(values, Completion):
        completion = object_of(values)
    else:
        texts = [] if values is None else list(values)
        if isinstance(values, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError(
                f"a completion must be a list of texts, got {values!r:.100}"
            )
        completion = {"values": texts, "total": len(texts), "hasMore": False}
    texts = completion["values"]
    if len(texts) <= MAX_VALUES:
        return completion
    truncated = {"values": texts[:MAX_VALUES], "hasMore": True}
    return {"total": len(texts), **completion, **truncated}


def _other_arguments(context: object) -> dict[str, str]:
    """Return the other arguments that the client has set (since 2025-06-18)."""
    arguments: Any = {} if context is None else None
    if type(context) is dict:
        arguments = context.get("arguments", {})
        arguments = {} if arguments is None else arguments
    if type(arguments) is not dict or any(
        type(value) is not str for value in arguments.values()
    ):
        raise InvalidParams("params.context.arguments must be an object of strings")
    return arguments
