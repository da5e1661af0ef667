"""Resources and templates, made of functions and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.server.authoring.results import resource_contents
from mcpwire.server.authoring.signature import BadArguments, read_signature
from mcpwire.server.features.components import Component
from mcpwire.server.features.definitions import compose
from mcpwire.server.features.functions import name_of, runs_in_thread
from mcpwire.server.features.keywords import check_options
from mcpwire.wire.uri_template import UriMatcher, UriTemplate, is_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.features.completions import Completer

    Suggest = Callable[[str], Sequence[str]]
    """Takes what was typed of a value; returns values that begin so. Runs in a thread.
    """

__all__ = ["Resource", "Template", "contents_of", "make_resource", "remake"]

EXCERPT: Final = 100
"""How much of a URI an error message repeats."""

CACHE_SCOPES: Final = ("public", "private")

# What a text and bytes are where nothing says more.
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"


@attrs.define(eq=False, kw_only=True, repr=False)
class Resource(Component):
    """Something that a client may read."""

    kind: ClassVar[str] = "resource"

    contents: list[dict[str, Any]] = attrs.field(factory=list)
    """What it is, where no function makes that."""

    function: Callable[..., Any] | None = None
    """Makes what it is."""

    signature: Signature | None = None
    """The function's; without one it takes the values as texts, in a thread."""

    runs_in_thread: bool = False

    mime_type: str | None = None

    hints: dict[str, Any] = attrs.field(factory=dict)
    """How long and by whom what was read may be kept (2026-07-28)."""

    options: dict[str, Any] = attrs.field(factory=dict)
    """What it was registered with, for `replace`."""


@attrs.define(eq=False, kw_only=True, repr=False)
class Template(Resource):
    """A family of resources, by the pattern of their URIs."""

    kind: ClassVar[str] = "template"

    matcher: UriMatcher

    suggestions: Mapping[str, Suggest] = attrs.field(factory=dict)
    """What completes its variables, where it can do so itself."""

    completers: dict[str, Completer] = attrs.field(factory=dict)
    """What was registered to complete its variables; see `completions`."""

    def arguments(self, uri: str) -> dict[str, Any] | None:
        """Return what its function takes for a URI; ``None``: it has no such resource.

        A value of another type than the function's is that of no resource either.
        """
        values = self.matcher.match(uri)
        if values is None or self.signature is None:
            return values
        try:
            return self.signature.parameters.convert_strings(values)
        except BadArguments:
            return None


# How they are made...


def make_resource(
    uri: str, target: Any, options: Mapping[str, Any]
) -> Resource | Template:
    """Make a resource, or a template where the URI has braces.

    Args:
        uri: The URI, or the template.
        target: The function that makes the value, or the value itself.
        options: Those of `Server.resource`, and `unchecked`: names of the variables
            whose values may lead anywhere (``..``, absolute paths).

    Raises:
        TypeError: The function cannot be read so; names it and why.
        ValueError: The URI or an option is wrong; so says the `TemplateError` of a
            template.
    """
    check_options("resource", options)
    if "{" in uri or "}" in uri:
        return _template(uri, target, dict(options))
    if not is_uri(uri):
        raise ValueError(f"{uri[:EXCERPT]!r} is no URI: it needs a scheme (RFC 3986)")
    made: Resource = _make(Resource, {"uri": uri}, target, dict(options))
    if made.signature is not None and made.signature.parameters.names:
        raise TypeError(
            f"{_called(target)} takes {', '.join(made.signature.parameters.names)}, "
            f"but {uri!r} has no variables"
        )
    return made


def _template(uri: str, target: Any, options: dict[str, Any]) -> Template:
    template = UriTemplate(uri)
    matcher = UriMatcher(template, options.get("unchecked", ()))
    if not callable(target):
        raise TypeError(f"the template {uri!r} needs a function, got {target!r}")
    if options.get("size") is not None:
        raise ValueError(f"the template {uri!r} has no size")
    made: Template = _make(
        Template,
        {"uriTemplate": uri},
        target,
        options,
        matcher=matcher,
        suggestions=options.get("suggestions") or {},
    )
    _check_variables(template, target, made.signature)
    return made


def _check_variables(
    template: UriTemplate, function: Any, signature: Signature | None
) -> None:
    if signature is None:
        return
    parameters = signature.parameters
    for name in template.names:
        if name not in parameters.names:
            raise TypeError(
                f"{_called(function)} has no parameter {name!r} for {template.text!r}"
            )
    always = {
        variable.name
        for expression in template.expressions
        if expression.operator not in {"?", "&"}
        for variable in expression.variables
    }
    for name in parameters.names:
        if name in parameters.required and name not in always:
            raise TypeError(
                f"{_called(function)} needs a default for {name!r}: "
                f"URIs of {template.text!r} may come without it"
            )


def _called(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))


def _make(
    cls: type[Any],
    named: dict[str, str],
    target: Any,
    given: dict[str, Any],
    **more: Any,
) -> Any:
    (key,) = named.values()
    signature = None
    description = given.get("description")
    mime_type = given.get("mime_type")
    if callable(target):
        if not given.get("is_raw"):
            signature = read_signature(target, structured=False)
            more["runs_in_thread"] = runs_in_thread(signature, given.get("thread"))
            if description is None:
                description = signature.description
        more |= {"function": target, "signature": signature}
        name = given.get("name") or name_of(target)
    else:
        contents = contents_of(target, key, mime_type)
        more["contents"] = contents
        types = {each["mimeType"] for each in contents}
        mime_type = types.pop() if len(types) == 1 else None
        name = given.get("name") or key.rstrip("/").rpartition("/")[2] or key
    return cls(
        key=key,
        definition=compose(
            {**named, "name": name},
            title=given.get("title"),
            description=description,
            mimeType=mime_type,
            size=given.get("size"),
            annotations=given.get("annotations"),
            icons=given.get("icons") or (),
            meta=given.get("meta"),
        ),
        scopes=frozenset(given.get("scopes", ())),
        tags=frozenset(given.get("tags", ())),
        visible=given.get("visible"),
        mime_type=mime_type,
        hints=_hints(given),
        options={**given, "name": name},
        **more,
    )


def contents_of(value: Any, uri: str, mime_type: str | None) -> list[dict[str, Any]]:
    """Return a value as the contents of a resource; each says what it is.

    Raises:
        TypeError: It has no such form.
    """
    contents = resource_contents(value, uri, mime_type)
    for each in contents:
        if "mimeType" not in each:
            each["mimeType"] = TEXT if "text" in each else BYTES
    return contents


def _hints(given: Mapping[str, Any]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    ttl_ms, scope = given.get("ttl_ms"), given.get("cache_scope")
    if ttl_ms is not None:
        if type(ttl_ms) is not int or ttl_ms < 0:
            raise ValueError(f"ttl_ms must be an integer from 0 on, got {ttl_ms!r}")
        hints["ttlMs"] = ttl_ms
    if scope is not None:
        if scope not in CACHE_SCOPES:
            raise ValueError(
                f"cache_scope must be one of {CACHE_SCOPES}, got {scope!r}"
            )
        # 2026-07-28 server/utilities/caching, "Security Considerations".
        if scope == "public" and (given.get("scopes") or given.get("visible")):
            raise ValueError("what is not for everybody cannot be cached as public")
        hints["cacheScope"] = scope
    return hints


def remake(
    resource: Resource, target: Any, changes: Mapping[str, Any]
) -> Resource | Template:
    """Make a resource like that one of another function or value."""
    made = make_resource(resource.key, target, {**resource.options, **changes})
    if isinstance(made, Template) and isinstance(resource, Template):
        made.completers = resource.completers
    made.calling = resource.calling
    return made
