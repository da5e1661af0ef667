"""The methods for resources: listed, read, subscribed to; by URI or by template.

A URI names the resource that was registered with it, else the first template that
matches and whose function takes the values. What is not there, or not for who asks, is
not found: both look the same.

Resources and templates, made of functions and values.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from mcpwire.errors import InvalidParams, ResourceNotFound, RPCError
from mcpwire.server.auth.challenges import check_scopes
from mcpwire.server.authoring.results import resource_contents
from mcpwire.server.authoring.signature import BadArguments, read_signature
from mcpwire.server.components import (
    Component,
    check_options,
    check_page_size,
    compose,
    list_page,
    name_of,
    runs_in_thread,
)
from mcpwire.wire.uri_template import UriMatcher, UriTemplate, is_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from mcpwire.server.authoring.signature import Signature
    from mcpwire.server.calling import Calling
    from mcpwire.server.completions import Completer
    from mcpwire.server.components import Handle, Table
    from mcpwire.server.dispatcher import Handler
    from mcpwire.server.request import RequestContext

    Suggest = Callable[[str], Sequence[str]]

    """Takes what was typed of a value; returns values that begin so. Runs in a thread.
    """

__all__ = [
    "Resource",
    "Resources",
    "Template",
    "check_watched",
    "contents_of",
    "make_resource",
    "not_found",
    "remake",
]

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


_MAX_TOLD: Final = 2_048
"""How long a URI may be that an error repeats as data."""

_MAX_SUBSCRIPTIONS: Final = 1_024
"""How many resources one session, or one request, may watch..."""

_MAX_SUBSCRIBED: Final = 8_192
"""... and how long their URIs may be: together some megabytes."""


class Resources:
    """Answers for one server's resources.

    Args:
        table: What has a URI.
        templates: What has a template.
        calling: How functions are called.
        page_size: How many of them one page of a list has; ``None``: all.

    Attributes:
        table: What has a URI.
        templates: What has a template.
        completers: By template and variable, what was registered to complete it.
    """

    def __init__(
        self,
        table: Table[Resource],
        templates: Table[Template],
        calling: Calling,
        *,
        page_size: int | None = None,
    ) -> None:
        self.table = table
        self.templates = templates
        self._calling = calling
        self.completers: dict[str, dict[str, Completer]] = {}
        self._page_size = check_page_size(page_size)

    def __getitem__(self, uri: str) -> Handle[Any]:
        """Return the handle of a resource or template.

        Raises:
            KeyError: There is none.
        """
        return self.templates[uri] if uri in self.templates else self.table[uri]

    def __contains__(self, uri: object) -> bool:
        """Tell whether there is a resource or template with that very text."""
        return uri in self.table or uri in self.templates

    def __len__(self) -> int:
        """Return how many there are, hidden ones too."""
        return len(self.table) + len(self.templates)

    def add(self, uri: str, target: Any, **options: Any) -> Handle[Any]:
        """Register a function or value; see `make_resource`."""
        made = make_resource(uri, target, options)
        if not isinstance(made, Template):
            return self.table.add(made)
        made.completers = self.completers.setdefault(uri, {})
        return self.templates.add(made)

    def add_file(
        self, uri: str, path: str | PathLike[str], **options: Any
    ) -> Handle[Any]:
        """Register a file; see `directories.add_file`."""
        from mcpwire.server.directories import add_file

        return add_file(self, uri, path, **options)

    def add_directory(
        self, uri: str, path: str | PathLike[str], **options: Any
    ) -> Handle[Any]:
        """Register a folder; see `directories.add_directory`."""
        from mcpwire.server.directories import add_directory

        return add_directory(self, uri, path, **options)

    def methods(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read,
            "resources/subscribe": self.subscribe,
            "resources/unsubscribe": self.unsubscribe,
        }

    def list_resources(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``resources/list``."""
        return list_page("resources", self.table, params, request, size=self._page_size)

    def list_templates(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``resources/templates/list``."""
        return list_page(
            "resourceTemplates", self.templates, params, request, size=self._page_size
        )

    async def read(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``resources/read``."""
        uri = _uri(params)
        resource, arguments = self.find(uri, request)
        contents = await self._contents(uri, resource, arguments, request)
        if not contents:
            # 2026-07-28 server/resources, "Error Handling": no empty contents.
            raise not_found(uri)
        result = {"contents": contents, **resource.hints}
        if result.get("cacheScope") == "public" and _is_private(self, request):
            result["cacheScope"] = "private"
        return result

    async def _contents(
        self,
        uri: str,
        resource: Resource,
        arguments: dict[str, Any],
        request: RequestContext,
    ) -> list[dict[str, Any]]:
        function, signature = resource.function, resource.signature
        calling = resource.calling or self._calling  # of another server, if mounted
        if function is None:
            return [dict(each) for each in resource.contents]
        if signature is None:
            call = functools.partial(function, **arguments)
            value = await calling.in_thread(call, request.info.owner)
        else:
            value = await calling.invoke(
                signature,
                function,
                arguments,
                request,
                runs_in_thread=resource.runs_in_thread,
            )
        return [] if value is None else contents_of(value, uri, resource.mime_type)

    def find(
        self, uri: str, request: RequestContext
    ) -> tuple[Resource, dict[str, Any]]:
        """Return what answers for a URI, and what its function takes.

        Raises:
            ResourceNotFound: Nothing does, for who asks.
            InvalidParams: It is no URI.
            ScopeRequired: Who asks may not.
        """
        found: Resource | None = self.table.get(uri, request)
        arguments: dict[str, Any] | None = {}
        if found is None:
            for template in self.templates.all(request):
                arguments = template.arguments(uri)
                if arguments is not None:
                    found = template
                    break
        if found is None or arguments is None:
            if not is_uri(uri):
                raise InvalidParams(f"params.uri is no URI: {uri[:EXCERPT]!r}")
            raise not_found(uri)
        _check_scopes(found, request)
        return found, arguments

    def find_template(self, uri: str, request: RequestContext) -> Template:
        """Return the template of that text, or the first that matches that URI.

        Raises:
            InvalidParams: There is none, for who asks.
            ScopeRequired: Who asks may not.
        """
        found = self.templates.get(uri, request)
        if found is None:
            for template in self.templates.all(request):
                if template.matcher.match(uri) is not None:
                    found = template
                    break
        if found is None:
            raise InvalidParams(f"there is no template {uri[:EXCERPT]!r}")
        _check_scopes(found, request)
        return found

    def subscribe(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``resources/subscribe``."""
        uri = _uri(params)
        self.find(uri, request)
        assert request.session is not None  # the method table: sessions only
        subscribed = request.session.subscribed
        if uri not in subscribed:
            check_watched(len(subscribed) + 1, uri)
            request.session.subscribed = subscribed | {uri}
        return {}

    def watchable(self, uris: Sequence[str], request: RequestContext) -> list[str]:
        """Return those that are there for who asks.

        Raises:
            InvalidParams: They are too many, or too long.
        """
        for uri in uris:
            check_watched(len(uris), uri)
        return [uri for uri in uris if self._is_there(uri, request)]

    def _is_there(self, uri: str, request: RequestContext) -> bool:
        try:
            self.find(uri, request)
        except RPCError:
            return False
        return True

    def unsubscribe(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Answer ``resources/unsubscribe``."""
        assert request.session is not None  # the method table: sessions only
        request.session.subscribed -= {_uri(params)}
        return {}


def _uri(params: Mapping[str, Any]) -> str:
    uri = params.get("uri")
    if type(uri) is not str:
        raise InvalidParams("params.uri must be a string")
    return uri


def check_watched(count: int, uri: str) -> None:
    """Refuse what nobody needs: too many watched resources, or too long a URI.

    Raises:
        InvalidParams: So it is.
    """
    if count > _MAX_SUBSCRIPTIONS or len(uri) > _MAX_SUBSCRIBED:
        raise InvalidParams(
            f"a client watches {_MAX_SUBSCRIPTIONS} resources at most, by "
            f"URIs of up to {_MAX_SUBSCRIBED} characters"
        )


def _check_scopes(resource: Resource, request: RequestContext) -> None:
    if resource.scopes and request.info.transport == "http":
        check_scopes(request.info.principal, resource.scopes)


def _is_private(resources: Resources, request: RequestContext) -> bool:
    return (
        request.info.principal is not None
        or resources.table.depends_on_who_asks()
        or resources.templates.depends_on_who_asks()
    )


def not_found(uri: str) -> ResourceNotFound:
    """Return the error for a URI that nothing answers for."""
    data = {"uri": uri} if len(uri) <= _MAX_TOLD else None
    return ResourceNotFound(f"there is no resource {uri[:EXCERPT]!r}", data=data)
