"""Resources and templates made of functions and values: list, read and subscribe.

A URI selects the resource that was registered with it, else the first template that
matches and has a function that accepts the values. A missing resource and a resource
that is hidden from the client get the same error: not found.

Files and folders may be resources, too; no file outside of a folder is ever read. A
path is split, its links are resolved, and the target is opened only if it is a regular
file within the folder. Hidden files (names that begin with a dot) are excluded unless
requested.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

import attrs

from mcpwire.errors import InternalError, InvalidParams, ResourceNotFound, RPCError
from mcpwire.limits import check_choice, check_count
from mcpwire.server.authoring.conversion import BadArguments
from mcpwire.server.authoring.results import File, resource_contents
from mcpwire.server.authoring.signature import Parameters, read_signature
from mcpwire.server.components import Component, check_options, compose, name_of
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.server.request import EXCERPT, RequestContext, member_of
from mcpwire.wire.uri_template import UriMatcher, UriTemplate, is_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcpwire.server.components import Handle, Table

logger = LimitedLogger("mcpwire")

CACHE_SCOPES: Final = ("public", "private")


@attrs.define(eq=False, kw_only=True, repr=False)
class Resource(Component):
    """Data that a client may read."""

    wire_type: ClassVar[str] = "Resource"

    contents: list[dict[str, Any]] = attrs.field(factory=list)
    """Its contents, if it has no function."""

    hints: dict[str, Any] = attrs.field(factory=dict)
    """Cache hints: how long, and by which caches, it may be stored (2026-07-28)."""


@attrs.define(eq=False, kw_only=True, repr=False)
class Template(Resource):
    """A family of resources, by the pattern of their URIs."""

    wire_type: ClassVar[str] = "ResourceTemplate"

    matcher: UriMatcher

    @property
    def arguments(self) -> Sequence[str]:
        """The names of its variables."""
        return self.matcher.template.names

    def read(self, uri: str) -> dict[str, Any] | None:
        """Return the arguments of its function; ``None``: the URI does not match.

        A value that cannot be converted to the parameter's type does not match either.
        """
        values = self.matcher.match(uri)
        if values is None or self.signature is None:
            return values
        parameters: Parameters = self.signature.parameters
        # RFC 6570, 2.4.2: an exploded variable is a list, here of its segments.
        segments = {
            variable.name: values[variable.name].split("/")
            for expression in self.matcher.template.expressions
            for variable in expression.variables
            if variable.explode
        }
        for arguments in (values, {**values, **segments}):
            with contextlib.suppress(BadArguments):
                return parameters.convert_strings(arguments)
        return None


# Creation


def make_resource(
    uri: str, target: Any, options: Mapping[str, Any]
) -> Resource | Template:
    """Return a resource, or a template if the URI has braces."""
    check_options("resource", options)
    cls: type[Resource] = Resource
    member, attributes = "uri", dict[str, Any](hints=_hints(options))
    template = signature = description = None
    if "{" in uri or "}" in uri:
        cls, member, template = Template, "uriTemplate", UriTemplate(uri)
        attributes["matcher"] = UriMatcher(template, options.get("unchecked", ()))
        if not callable(target):
            raise TypeError(f"the template {uri!r} needs a function, got {target!r}")
        if options.get("size") is not None:
            raise ValueError(f"the template {uri!r} has no size")
    elif not is_uri(uri):
        raise ValueError(
            f"{uri[:EXCERPT]!r} is not a URI: it needs a scheme (RFC 3986)"
        )
    mime_type = options.get("mime_type")
    if callable(target):
        attributes["function"] = target
        if not options.get("is_raw"):  # raw: gets the values as texts, in a thread
            signature = read_signature(target, structured=False)
            description = signature.description
            _check_variables(uri, template, target, signature.parameters)
        name = options.get("name") or name_of(target)
    else:
        contents = attributes["contents"] = resource_contents(target, uri, mime_type)
        types = {item["mimeType"] for item in contents}
        mime_type = types.pop() if len(types) == 1 else None
        name = options.get("name") or uri.rstrip("/").rpartition("/")[2] or uri
    definition = compose(
        {member: uri, "name": name},
        options,
        description=description,
        mimeType=mime_type,
        size=options.get("size"),
    )
    completers = options.get("completers") or {}
    return cls.of(
        uri,
        definition,
        options,
        make=partial(make_resource, uri),
        signature=signature,
        completers={
            n: read_signature(completers[n], structured=False) for n in completers
        },
        **attributes,
    )


def _check_variables(
    uri: str, template: UriTemplate | None, function: Any, parameters: Parameters
) -> None:
    """Check that the parameters of a function are the variables of its URI."""
    qualname = getattr(function, "__qualname__", function)
    if template is None:
        if parameters.names:
            raise TypeError(
                f"{qualname} takes {', '.join(parameters.names)}, "
                f"but {uri!r} has no variables"
            )
        return
    for name in template.names:
        if name not in parameters.names:
            raise TypeError(f"{qualname} has no parameter {name!r} for {uri!r}")
    always_present = {
        variable.name
        for expression in template.expressions
        if expression.operator not in {"?", "&"}
        for variable in expression.variables
    }
    for name in parameters.names:
        if name in parameters.required and name not in always_present:
            raise TypeError(
                f"{qualname} needs a default for {name!r}: "
                f"URIs of {uri!r} may come without it"
            )


def _hints(options: Mapping[str, Any]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    ttl_ms, scope = options.get("ttl_ms"), options.get("cache_scope")
    if ttl_ms is not None:
        hints["ttlMs"] = check_count(ttl_ms, "ttl_ms", minimum=0)
    if scope is not None:
        check_choice(scope, "cache_scope", CACHE_SCOPES)
        # 2026-07-28 server/utilities/caching, "Security Considerations".
        if scope == "public" and (options.get("scopes") or options.get("visible")):
            raise ValueError(
                "a component with scopes or visible= cannot be cached as public"
            )
        hints["cacheScope"] = scope
    return hints


# Files

MAX_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of a file in bytes; in Base64 it is a third larger."""

MAX_LISTED: Final = 10_000
"""The maximum number of listed files of one folder."""

_MAX_SCANNED: Final = 10_000
"""How many names of one folder are searched for completions."""

_DEFAULT_TYPE: Final = "application/octet-stream"

_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_FILE_FLAGS: Final = (
    os.O_RDONLY
    | _NOFOLLOW
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer would block
    | getattr(os, "O_BINARY", 0)
)
_FOLDER_FLAGS: Final = _FILE_FLAGS | getattr(os, "O_DIRECTORY", 0)


class Folder:
    """A folder of readable files."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        hidden: bool = False,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise NotADirectoryError(f"the folder {os.fspath(root)!r} does not exist")
        self._hidden = hidden
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"Folder({str(self.root)!r})"

    def read(self, path: str) -> File | None:
        """Return a file by its path with slashes; ``None``: not found."""
        data = self.read_bytes(path)
        return None if data is None else file_of(path, data)

    def read_bytes(self, path: str) -> bytes | None:
        """Return the bytes of a file; ``None``: not found."""
        target = self.locate(path)
        if target is None:
            return None
        parts = target.relative_to(self.root).parts
        return read_regular(self.root, parts, self._max_bytes)

    def locate(self, path: str) -> Path | None:
        """Return the target of a path; ``None``: no target within the folder."""
        segments = path.split("/")
        if not all(self._is_name(segment) for segment in segments):
            return None
        try:
            target = self.root.joinpath(*segments).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not found; a loop of links; NUL
            return None
        if not target.is_relative_to(self.root):
            return None
        # A link may point to a hidden file.
        parts = target.relative_to(self.root).parts
        return target if all(self._is_name(name) for name in parts) else None

    def _is_name(self, name: str) -> bool:
        if name in {"", ".", ".."} or "\\" in name:
            return False
        if not _is_utf8(name):
            logger.warning(
                "a file or folder in %r is left out, its name is not UTF-8: %a",
                str(self.root),
                name,
                kind=self.root,
            )
            return False
        return self._hidden or not name.startswith(".")

    def walk(self) -> Iterator[str]:
        """Yield the paths of all files in order, without following linked folders."""
        count = 0
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if self._is_name(name))
            for name in sorted(names):
                path = (Path(folder) / name).relative_to(self.root).as_posix()
                target = self.locate(path)
                if target is None or not target.is_file():
                    continue
                count += 1
                if count > MAX_LISTED:
                    raise ValueError(
                        f"there are more than {MAX_LISTED} files in {str(self.root)!r}"
                    )
                yield path

    def suggest(self, typed: str) -> list[str]:
        """Return the paths that begin with a text; folders end with a slash."""
        parent, slash, start = typed.rpartition("/")
        folder = self.locate(parent) if slash else self.root
        if folder is None or not folder.is_dir():
            return []
        paths = []
        for entry in itertools.islice(folder.iterdir(), _MAX_SCANNED):
            path = f"{parent}{slash}{entry.name}"
            target = self.locate(path) if entry.name.startswith(start) else None
            if target is not None:
                paths.append(f"{path}/" if target.is_dir() else path)
        return sorted(paths)


def read_regular(root: Path, parts: Sequence[str], max_bytes: int) -> bytes | None:
    """Return the bytes of a regular file; ``None``: not found, or not regular."""
    try:
        descriptor = _open(root, parts)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InternalError(f"the resource is larger than {max_bytes} bytes")
    return data


def _open(root: Path, parts: Sequence[str]) -> int:
    if os.open not in os.supports_dir_fd:
        return os.open(root.joinpath(*parts), _FILE_FLAGS)
    descriptor = os.open(root, _FOLDER_FLAGS & ~_NOFOLLOW)
    for remaining, name in enumerate(parts, start=1 - len(parts)):
        parent = descriptor
        try:
            descriptor = os.open(
                name, _FOLDER_FLAGS if remaining else _FILE_FLAGS, dir_fd=parent
            )
        finally:
            os.close(parent)
    return descriptor


def _is_utf8(name: str) -> bool:
    """Return whether a file name is valid UTF-8, so that it can be sent as text."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def file_of(name: str, data: bytes) -> File:
    """Return a file's contents, with the media type of its name or of its bytes."""
    mime_type = File(path=Path(name)).media_type(data)
    if mime_type == _DEFAULT_TYPE and b"\x00" not in data:
        with contextlib.suppress(UnicodeDecodeError):
            data.decode()
            mime_type = "text/plain"
    return File(data, mime_type=mime_type)


def mime_type_of(name: str) -> str | None:
    """Return the media type of a file's name; ``None``: unknown."""
    mime_type = File(path=Path(name)).media_type(b"")
    return None if mime_type == _DEFAULT_TYPE else mime_type


_FOLDER_OPTIONS: Final = frozenset({"name", "title", "description", "mime_type"})
"""Options that apply to the folder and not to each file."""


# Requests

_MAX_URI_IN_ERROR: Final = 2_048
"""The maximum length of a URI that the data of an error repeats."""

_MAX_SUBSCRIPTIONS: Final = 1_024
"""The maximum number of resources that one session, or one request, may watch."""

_MAX_URI_LENGTH: Final = 8_192
"""The maximum length of their URIs, in characters: together some megabytes."""


class Resources:
    """Handles the requests for one server's resources.

    Attributes:
        table: The resources by URI.
        templates: The templates by URI template.
    """

    def __init__(self, table: Table[Resource], templates: Table[Template]) -> None:
        self.table = table
        self.templates = templates

    def __getitem__(self, uri: str) -> Handle[Any]:
        """Return the handle of a resource or template.

        Raises:
            KeyError: No resource or template has that URI.
        """
        return self.templates[uri] if uri in self.templates else self.table[uri]

    def __contains__(self, uri: object) -> bool:
        return uri in self.table or uri in self.templates

    def __len__(self) -> int:
        return len(self.table) + len(self.templates)

    def add(self, uri: str, target: Any, **options: Any) -> Handle[Any]:
        """Register a function or value; see `Server.add_resource`."""
        item = make_resource(uri, target, options)
        table: Table[Any] = self.templates if isinstance(item, Template) else self.table
        return table.add(item)

    def add_file(
        self,
        uri: str,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        **options: Any,
    ) -> Handle[Any]:
        """Register one file, which is read for each request."""
        target = Path(path).resolve()
        if not target.is_file():
            raise FileNotFoundError(f"the file {os.fspath(path)!r} does not exist")
        name = Path(path).name

        def read() -> File | None:
            data = read_regular(target.parent, [target.name], max_bytes)
            return None if data is None else file_of(name, data)

        all_options = {"name": name, "mime_type": mime_type_of(name), **options}
        return self.add(uri, read, is_raw=True, **all_options)

    def add_directory(
        self,
        uri: str,
        path: str | os.PathLike[str],
        *,
        listed: bool = True,
        hidden: bool = False,
        max_bytes: int = MAX_BYTES,
        **options: Any,
    ) -> Handle[Any]:
        """Register a folder: a template for its files, which completes their paths."""
        folder = Folder(path, hidden=hidden, max_bytes=max_bytes)
        base = uri if uri.endswith("/") else f"{uri}/"
        common = {k: v for k, v in options.items() if k not in _FOLDER_OPTIONS}
        for file in list(folder.walk()) if listed else ():
            self.add(
                base + quote(file, safe="/"),
                partial(folder.read, file),
                name=file,
                mime_type=mime_type_of(file),
                is_raw=True,
                **common,
            )
        name = folder.root.name
        details = {"name": name if name and _is_utf8(name) else "files", **options}
        completers = {"path": folder.suggest}
        return self.add(
            base + "{path*}", folder.read, is_raw=True, completers=completers, **details
        )

    async def read(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``resources/read``."""
        uri = member_of(params, "uri", str)
        resource, arguments = self.find(uri, request)
        if resource.function is None:
            contents = [dict(item) for item in resource.contents]
        else:
            value = await resource.call(arguments, request)
            mime_type = resource.definition.get("mimeType")
            contents = [] if value is None else resource_contents(value, uri, mime_type)
        if not contents:
            # 2026-07-28 server/resources, "Error Handling": no empty contents.
            raise not_found(uri)
        result = {"contents": contents, **resource.hints}
        if result.get("cacheScope") == "public" and (
            request.info.principal is not None
            or self.table.depends_on_client()
            or self.templates.depends_on_client()
        ):
            result["cacheScope"] = "private"
        return result

    def find(
        self, uri: str, request: RequestContext
    ) -> tuple[Resource, dict[str, Any]]:
        """Return the resource of a URI, and the arguments of its function."""
        resource = self.table.get(uri, request)
        if resource is not None:
            resource.check_scopes(request)
            return resource, {}
        for template in self.templates.all(request):
            arguments = template.read(uri)
            if arguments is not None:
                template.check_scopes(request)
                return template, arguments
        if not is_uri(uri):
            raise InvalidParams(f"params.uri is not a URI: {uri[:EXCERPT]!r}")
        raise not_found(uri)

    def find_template(self, uri: str, request: RequestContext) -> Template:
        """Return the template with that text, or the first that matches it as a URI."""
        exact = self.templates.get(uri, request)
        for template in self.templates.all(request) if exact is None else [exact]:
            if template is exact or template.matcher.match(uri) is not None:
                template.check_scopes(request)
                return template
        raise InvalidParams(f"unknown template {uri[:EXCERPT]!r}")

    def subscribe(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``resources/subscribe``."""
        uri = member_of(params, "uri", str)
        self.find(uri, request)
        assert request.session is not None  # the method exists in sessions only
        subscribed = request.session.subscribed
        if uri not in subscribed:
            check_subscription(len(subscribed) + 1, uri)
            request.session.subscribed = subscribed | {uri}
        return {}

    def watchable_uris(self, uris: Sequence[str], request: RequestContext) -> list[str]:
        """Return the URIs that the request may read; refuse too many or too long."""
        for uri in uris:
            check_subscription(len(uris), uri)
        return [uri for uri in uris if self._is_readable(uri, request)]

    def _is_readable(self, uri: str, request: RequestContext) -> bool:
        try:
            self.find(uri, request)
        except RPCError:
            return False
        return True

    def unsubscribe(
        self, params: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Handle ``resources/unsubscribe``."""
        assert request.session is not None  # the method exists in sessions only
        request.session.subscribed -= {member_of(params, "uri", str)}
        return {}


def check_subscription(count: int, uri: str) -> None:
    """Refuse too many watched resources, or too long a URI."""
    if count > _MAX_SUBSCRIPTIONS or len(uri) > _MAX_URI_LENGTH:
        raise InvalidParams(
            f"a client watches {_MAX_SUBSCRIPTIONS} resources at most, by "
            f"URIs of up to {_MAX_URI_LENGTH} characters"
        )


def not_found(uri: str) -> ResourceNotFound:
    """Return the error for a URI without a resource."""
    data = {"uri": uri} if len(uri) <= _MAX_URI_IN_ERROR else None
    return ResourceNotFound(f"unknown resource {uri[:EXCERPT]!r}", data=data)
