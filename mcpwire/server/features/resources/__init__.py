"""The methods for resources: listed, read, subscribed to; by URI or by template.

A URI names the resource that was registered with it, else the first template that
matches and whose function takes the values. What is not there, or not for who asks, is
not found: both look the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, ResourceNotFound, RPCError
from mcpwire.server.auth.resource_server import check_scopes
from mcpwire.server.features.paging import check_page_size, list_page
from mcpwire.server.features.resources.making import (
    Template,
    contents_of,
    make_resource,
    remake,
)
from mcpwire.wire.uri_template import is_uri

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from mcpwire.server.features.calling import Calling
    from mcpwire.server.features.completions import Completer
    from mcpwire.server.features.resources.making import Resource
    from mcpwire.server.features.table import Handle, Table
    from mcpwire.server.handlers import Handler
    from mcpwire.server.request import RequestContext

__all__ = ["Resources", "check_watched", "not_found", "remake"]

EXCERPT: Final = 100
"""How much of a URI that the client chose an error message repeats."""

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
        from mcpwire.server.features.directories import add_file

        return add_file(self, uri, path, **options)

    def add_directory(
        self, uri: str, path: str | PathLike[str], **options: Any
    ) -> Handle[Any]:
        """Register a folder; see `directories.add_directory`."""
        from mcpwire.server.features.directories import add_directory

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
            value = await calling.in_thread(call, request.facts.owner)
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
    if resource.scopes and request.facts.transport == "http":
        check_scopes(request.facts.principal, resource.scopes)


def _is_private(resources: Resources, request: RequestContext) -> bool:
    return (
        request.facts.principal is not None
        or resources.table.depends_on_who_asks()
        or resources.templates.depends_on_who_asks()
    )


def not_found(uri: str) -> ResourceNotFound:
    """Return the error for a URI that nothing answers for."""
    data = {"uri": uri} if len(uri) <= _MAX_TOLD else None
    return ResourceNotFound(f"there is no resource {uri[:EXCERPT]!r}", data=data)
