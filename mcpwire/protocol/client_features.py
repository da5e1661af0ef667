"""Client side of server requests: decodes the requests, encodes the handlers' results.

Sampling (a message of the model, deprecated in 2026-07-28), elicitation (input from the
user) and roots (the folders in which a server may work). A request in a session and an
entry of an input-required result are processed alike::

    raw params ── decode_params ──> params ──> the handler ──> value
                                                                 │ finish
    raw result <── encode_answer ────────────────────────────────┘

The existing handlers determine the declared capabilities, and a request is accepted
only if its capability is declared in the agreed revision, so both always agree. The
handlers, not this library, show forms, open URLs and call models.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import attrs

from mcpwire.errors import (
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    excerpt,
)
from mcpwire.protocol.methods import (
    ELICIT,
    ROOTS,
    SAMPLE,
    available_method,
    is_capability_declared,
    is_declared,
)
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from mcpwire.errors import RPCError
    from mcpwire.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitAction,
        ElicitRequestFormParams,
        ElicitRequestURLParams,
        ElicitResult,
        JsonObject,
        Root,
        SamplingMessage,
        WireType,
    )
    from mcpwire.versions import Revision

    T = TypeVar("T", bound=WireType)
    Message = TypeVar("Message", SamplingMessage, CreateMessageResult)

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

# --- types of handlers


class PathLike(Protocol):
    """An object that represents a path, such as `pathlib.Path`."""

    def __fspath__(self) -> str | bytes:
        """Return the path."""
        ...


RootLike: TypeAlias = "Root | str | PathLike"
"""A root, a ``file://`` URI, or an absolute path as a string or an object."""

RootsAnswer: TypeAlias = "Iterable[RootLike] | Awaitable[Iterable[RootLike]]"
Roots: TypeAlias = "Iterable[RootLike] | Callable[[], RootsAnswer]"
"""Roots, or a function, plain or async, that returns them."""

SamplingAnswer: TypeAlias = "CreateMessageResult | Awaitable[CreateMessageResult]"
SamplingHandler: TypeAlias = "Callable[[CreateMessageRequestParams], SamplingAnswer]"
"""A function, plain or async, that returns a message of the client's model."""

FormAnswer: TypeAlias = "ElicitResult | Mapping[str, Any] | ElicitAction"
FormHandler: TypeAlias = (
    "Callable[[ElicitRequestFormParams], FormAnswer | Awaitable[FormAnswer]]"
)
"""A function, plain or async, that shows a form to the user."""

UrlAnswer: TypeAlias = "ElicitResult | ElicitAction"
UrlHandler: TypeAlias = (
    "Callable[[ElicitRequestURLParams], UrlAnswer | Awaitable[UrlAnswer]]"
)
"""A function, plain or async, that offers a URL to the user."""

USER_REJECTED: Final = -1
"""The code of the `RPCError` to raise if the user rejects a server request.

2025-11-25 client/sampling, "Error Handling".
"""


def _check_handler(feature: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not callable(value) and not (value is None and attribute.default is None):
        what = f"{type(feature).__name__.lower()}: {attribute.name}"
        raise ValueError(f"{what} must be a function, got {excerpt(value)}")


@attrs.frozen
class Sampling:
    """A handler for sampling, and its optional features.

    The handler gets `CreateMessageRequestParams` and returns a `CreateMessageResult`.
    It observes `max_tokens`, lets the user review and stop requests, and preserves
    `meta` of tool uses and results that it passes to the model. To reject a request it
    raises ``RPCError("...", code=USER_REJECTED)``.

    Raises:
        ValueError: The handler is not a function.
    """

    handler: SamplingHandler = attrs.field(validator=_check_handler)

    tools: bool = attrs.field(default=False, kw_only=True)
    """Whether the handler supports `tools` and `tool_choice` (since 2025-11-25).

    If false, a request with one of them is refused and the handler is not called.
    """

    context: bool = attrs.field(default=False, kw_only=True)
    """Whether the handler supports `include_context` (declared since 2025-11-25)."""


@attrs.frozen
class Elicitation:
    """The handlers for elicitation; each one causes its mode to be declared.

    The form handler gets `ElicitRequestFormParams`. It returns a mapping (accepted,
    with this content), an `ElicitResult`, or the name of the action. Missing fields of
    an accepted form get their defaults; a field with the value ``None`` is omitted. The
    content must match the form.

    The URL handler gets `ElicitRequestURLParams` with a URL that is safe to show:
    https, or http to this machine, without a user name. It shows the whole URL, and
    opens it only with the user's consent; `mcpwire.protocol.elicitation.describe_url`
    returns warnings for the user. It returns an `ElicitResult` or the name of the
    action; ``accept`` means consent, not completion.

    Raises:
        ValueError: There is no handler, or a handler is not a function.
    """

    form: FormHandler | None = attrs.field(default=None, validator=_check_handler)
    url: UrlHandler | None = attrs.field(default=None, validator=_check_handler)

    plain_http: bool = attrs.field(default=False, kw_only=True)
    """Whether the URL handler also accepts http URLs of other machines."""

    def __attrs_post_init__(self) -> None:
        if self.form is None and self.url is None:
            raise ValueError("elicitation needs a form handler or a url handler")


def _as_sampling(value: SamplingHandler | Sampling | None) -> Sampling | None:
    return value if value is None or isinstance(value, Sampling) else Sampling(value)


def _as_elicitation(value: FormHandler | Elicitation | None) -> Elicitation | None:
    if value is None or isinstance(value, Elicitation):
        return value
    return Elicitation(form=value)


# --- the features of one client


@attrs.frozen
class ServerRequest:
    """A validated server request: call `handler`, await its value, call `finish`."""

    handler: Callable[[Any], Any]
    """The user's function for `params`; plain or async."""

    params: Any = attrs.field(repr=False)
    """The typed params; confidential, so they are not logged."""

    finish: Callable[[Any], dict[str, Any]] = attrs.field(repr=False)
    """Validates and encodes the handler's value as the raw result.

    Raises `LocalProtocolError` with field and broken rule if the value is invalid.
    """


class ClientFeatures:
    """The features that a client offers to servers, as determined by its handlers.

    Args:
        sampling: A function or a `Sampling` that returns messages of a model.
        elicitation: A function (forms only) or an `Elicitation` that asks the user.
        roots: A list of `Root`, ``file://`` URIs and path objects, or a function that
            returns such a list. A list is read at each request, so it may change.
        extensions: The ids of the extensions to enable, or a mapping from ids to
            settings. By default none is enabled (SEP-2133, "SDK Implementation").
        experimental: Experimental capabilities by name, with their settings.

    Attributes:
        url_elicitations: The URL elicitations that a server may still complete.

    Raises:
        ValueError: An argument is malformed; the message names it.
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
        self._sampling = _as_sampling(sampling)
        self._elicitation = _as_elicitation(elicitation)
        self._roots = as_source(roots)
        self._extensions = _as_extensions(extensions)
        self._experimental = _check_settings(experimental, "experimental")
        self.url_elicitations = UrlElicitations()

    def replace(self, handlers: Mapping[str, Any]) -> None:
        """Replace the handlers that are given by name, or raise `ValueError`."""
        sampling = _as_sampling(handlers.get("sampling", self._sampling))
        elicitation = _as_elicitation(handlers.get("elicitation", self._elicitation))
        self._roots = as_source(handlers.get("roots", self._roots))
        self._sampling, self._elicitation = sampling, elicitation

    def complete_elicitation(self, params: JsonObject | None) -> bool:
        """Complete an open URL elicitation; return whether params name one."""
        return self.url_elicitations.complete(params)

    @property
    def extensions(self) -> frozenset[str]:
        """The ids of the enabled extensions."""
        return frozenset(self._extensions)

    def capabilities(self, revision: Revision) -> JsonObject:
        """Return the client capabilities to declare in a revision."""
        sampling, elicitation, roots = self._sampling, self._elicitation, self._roots
        declared = self._extensions or self._experimental
        if not declared and sampling is None and elicitation is None and roots is None:
            return {}
        from mcpwire import types

        capabilities = types.ClientCapabilities(
            roots=None if roots is None else types.RootsCapability(True),
            sampling=None
            if sampling is None
            else types.SamplingCapability(
                context={} if sampling.context else None,
                tools={} if sampling.tools else None,
            ),
            elicitation=None
            if elicitation is None
            else types.ElicitationCapability(
                form=None if elicitation.form is None else {},
                url=None if elicitation.url is None else {},
            ),
            extensions={id: dict(settings) for id, settings in self._extensions.items()}
            or None,
            experimental=self._experimental or None,
        )
        raw = types.encode(capabilities, revision)
        has_forms = elicitation is not None and elicitation.form is not None
        if raw.get("elicitation") == {} and not has_forms:
            # 2025-06-18 has only forms, and an empty capability always means forms.
            del raw["elicitation"]
        return raw

    def prepare(
        self, method: str, params: JsonObject | None, revision: Revision
    ) -> ServerRequest:
        """Validate a server request; return its handler, params and `finish`."""
        spec = available_method(method, revision, "server")
        capabilities = self.capabilities(revision)
        if spec is not None and is_declared(spec, capabilities):
            if method == SAMPLE and self._sampling is not None:
                request = check_sampling(params, capabilities)
                finish = partial(finish_sampling, request, revision)
                return ServerRequest(self._sampling.handler, request, finish)
            if method == ELICIT and self._elicitation is not None:
                # 2025-11-25 client/elicitation, "Elicitation Requests": no mode means
                # form.
                mode = (params or {}).get("mode")
                mode = "form" if mode is None else mode
                if mode not in _MODES or not is_capability_declared(
                    capabilities, f"elicitation.{mode}"
                ):
                    raise InvalidParams(
                        "this client did not declare the elicitation mode "
                        f"{excerpt(mode)}",
                        method=ELICIT,
                    )
                if mode == "form":
                    return _prepare_form(self._elicitation, params, revision)
                return _prepare_url(
                    self._elicitation, self.url_elicitations, params, revision
                )
            if method == ROOTS:
                return _prepare_roots(self._roots, params, revision)
        raise MethodNotFound(
            f"this client does not answer {excerpt(method)}", method=method
        )


def _as_extensions(
    value: Mapping[str, JsonObject | None] | Iterable[str] | None,
) -> dict[str, JsonObject]:
    if value is None:
        return {}
    from mcpwire.types._base import is_meta_key

    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(
            "extensions must be ids, or a mapping from ids to settings, "
            f"got {excerpt(value)}"
        )
    ids: list[Any] = list(value)
    for id in ids:
        # 2026-07-28 basic/versioning, "Extension Negotiation": ids follow the rules of
        # `_meta` keys with a mandatory prefix.
        if not isinstance(id, str) or "/" not in id or not is_meta_key(id):
            raise ValueError(
                f"extensions: {excerpt(id)} is not an extension's id, "
                "which is spelled like 'com.example/name'"
            )
    settings = value if isinstance(value, Mapping) else dict.fromkeys(ids)
    return _check_settings(settings, "extensions")


def _check_settings(
    value: Mapping[str, JsonObject | None] | None, argument: str
) -> dict[str, JsonObject]:
    value = {} if value is None else value
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{argument} must be a mapping from names to settings, got {excerpt(value)}"
        )
    for name, settings in value.items():
        if settings is not None and not isinstance(settings, Mapping):
            raise ValueError(
                f"{argument}: the settings of {excerpt(name)} must be a mapping, "
                f"got {excerpt(settings)}"
            )
    return {name: dict(settings or {}) for name, settings in value.items()}


def decode_params(cls: type[T], params: JsonObject | None, method: str) -> T:
    """Return typed params, or raise `InvalidParams` with the path of the error."""
    from mcpwire.types import decode

    try:
        return decode(cls, params)
    except InvalidMessage as error:
        raise InvalidParams(str(error), method=method) from error


def encode_answer(value: WireType, revision: Revision, what: str) -> JsonObject:
    """Return the raw result, or raise `LocalProtocolError` with the path of the error.

    The encoder checks the structure only, so the encoded result is decoded again to
    detect a value such as ``model=None``.
    """
    from mcpwire.types import decode, encode

    answer = encode(value, revision)
    try:
        decode(type(value), answer)
    except InvalidMessage as error:
        raise LocalProtocolError(f"{what}: {error}") from error
    return answer


# --- roots: `file://` URIs in a strict form that all programs parse alike (2026-07-28
# client/roots, "Security Considerations": clients MUST validate root URIs to prevent
# path traversal)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")

_RULES: Final = tuple(
    (re.compile(offence), sentence)
    for offence, sentence in (
        (r"\A(?!file://)", "must begin with file://, or be an absolute path"),
        (r"[?#]", "must have neither query nor fragment"),
        (r"\Afile://(?!(?:localhost)?(?:/|\Z))", "must not name another machine"),
        (r"\Afile://[^/]*\Z", "must be absolute, such as file:///home"),
        # RFC 3986: characters that a path must encode, and incomplete percent triplets.
        (
            r"[^!$&-;=@-Z_a-z~%]|%(?![0-9A-Fa-f]{2})",
            "holds characters that must be percent-encoded",
        ),
        (r"(?i:%2f|%5c|%00)", "must not hold an encoded separator or NUL"),
        (r"/(?:\.|(?i:%2e)){1,2}(?=/|\Z)", "must not hold the segments . and .."),
    )
)
"""Patterns that a root's URI must not match, each with the rule for the message."""


def as_source(roots: Roots | None) -> Any:
    """Validate given roots; return the function, the same list, a tuple or ``None``."""
    if roots is None or callable(roots):
        return roots
    source = roots if isinstance(roots, list) else tuple(_iterable(roots))
    as_roots(source)
    return source


def as_roots(values: Iterable[RootLike]) -> list[Root]:
    """Return validated roots as `Root` objects, without access to the file system."""
    return [_as_root(value, index) for index, value in enumerate(_iterable(values))]


def _iterable(values: Any) -> Iterable[Any]:
    is_single = isinstance(values, (str, bytes, Mapping)) or hasattr(
        values, "__fspath__"
    )
    if is_single or not isinstance(values, Iterable):
        raise ValueError(f"roots must be a list or a function, got {excerpt(values)}")
    return values


def _as_root(value: Any, index: int) -> Root:
    from mcpwire.types import Root

    place = f"roots[{index}]"
    if isinstance(value, Root):
        root = value
    elif isinstance(value, str):
        root = Root(value if _SCHEME.match(value) else _file_uri(value, place))
    elif hasattr(value, "__fspath__"):
        root = Root(_file_uri(value.__fspath__(), place))
    else:
        raise ValueError(
            f"{place}: expected a Root, a file:// URI or a path, got {excerpt(value)}"
        )
    if root.name is not None and not isinstance(root.name, str):
        raise ValueError(f"{place}: its name must be a str, got {excerpt(root.name)}")
    problem: str | None = "is not a str"
    if isinstance(root.uri, str):
        problem = next(
            (sentence for pattern, sentence in _RULES if pattern.search(root.uri)), None
        )
    if problem is not None:
        raise ValueError(f"{place}: {excerpt(root.uri)} {problem}")
    return root


def _file_uri(path: str | bytes, place: str) -> str:
    """Return the `file://` URI of an absolute path, as `pathlib` does."""
    from urllib.parse import quote_from_bytes

    # Python represents non-UTF-8 bytes of file names as surrogates.
    text = path.decode("utf-8", "surrogateescape") if type(path) is bytes else str(path)
    prefix = "file://"
    if _DRIVE.match(text):
        prefix, text = f"file:///{text[:2]}", text[2:].replace("\\", "/")
    elif not text.startswith("/"):
        raise ValueError(
            f"{place}: {excerpt(text)} is a relative path; a root must be absolute"
        )
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: {excerpt(text)} is not a path ({error})") from error
    return prefix + quote_from_bytes(data)


def _prepare_roots(
    source: Any, params: JsonObject | None, revision: Revision
) -> ServerRequest:
    from mcpwire.types import ListRootsRequestParams, ListRootsResult

    def finish(value: Any) -> JsonObject:
        try:
            roots = as_roots(value)
        except ValueError as error:
            raise LocalProtocolError(str(error)) from error
        return encode_answer(ListRootsResult(roots), revision, "roots")

    request = decode_params(
        ListRootsRequestParams, {} if params is None else params, ROOTS
    )
    get_roots = source if callable(source) else lambda: source
    return ServerRequest(lambda _: get_roots(), request, finish)


# --- sampling: the rules for the conversation and for the handler's result


_CONTENT_SINCE: Final[Mapping[object, Revision]] = {
    "text": _NOV_2024,
    "image": _NOV_2024,
    "audio": _MAR_2025,
    "tool_use": _NOV_2025,
    "tool_result": _NOV_2025,
}
"""The types of content blocks, and the first revision of each."""


def check_sampling(
    params: JsonObject | None, capabilities: JsonObject
) -> CreateMessageRequestParams:
    """Validate a sampling request; return its typed params."""
    from mcpwire.types import CreateMessageRequestParams

    request = decode_params(CreateMessageRequestParams, params, SAMPLE)
    # 2025-11-25 schema, CreateMessageRequestParams: MUST return an error.
    member = "tools" if request.tools is not None else "toolChoice"
    uses_tools = request.tools is not None or request.tool_choice is not None
    if uses_tools and not is_capability_declared(capabilities, "sampling.tools"):
        problem: str | None = f"{member}: this client did not declare sampling.tools"
    else:
        problem = _find_imbalance(request.messages)
    if problem is not None:
        raise InvalidParams(f"CreateMessageRequestParams.{problem}", method=SAMPLE)
    return request


def _find_imbalance(messages: list[SamplingMessage]) -> str | None:
    """Return the first error in the tool uses of a conversation, or ``None``.

    2025-11-25 client/sampling, "Tool Use and Result Balance". Earlier revisions have
    no tool uses.
    """
    from mcpwire.types import ToolResultContent, ToolUseContent

    open_uses: list[str] = []
    for index, message in enumerate(messages):
        blocks = message.blocks
        uses = [item.id for item in blocks if type(item) is ToolUseContent]
        results = [
            item.tool_use_id for item in blocks if type(item) is ToolResultContent
        ]
        unanswered = list(Counter(open_uses) - Counter(results))
        unasked = list(Counter(results) - Counter(open_uses))
        problem = None
        if results and len(results) < len(blocks):
            problem = "a message with tool results must hold nothing else"
        elif results and message.role != "user":
            problem = "tool results stand in messages of the user"
        elif uses and message.role != "assistant":
            problem = "tool uses stand in messages of the assistant"
        elif unanswered:
            use = excerpt(unanswered[0])
            problem = f"the tool use {use} before it has no result here"
        elif unasked:
            problem = (
                f"the tool result {excerpt(unasked[0])} answers no tool use of the "
                "message before"
            )
        if problem is not None:
            return f"messages[{index}]: {problem}"
        open_uses = uses
    if open_uses:
        last = len(messages) - 1
        return f"messages[{last}]: the tool use {excerpt(open_uses[0])} has no result"
    return None


def finish_sampling(
    request: CreateMessageRequestParams, revision: Revision, value: Any
) -> JsonObject:
    """Return the raw result for the value of a sampling handler."""
    from mcpwire.types import CreateMessageResult

    what = "sampling answer"
    if not isinstance(value, CreateMessageResult):
        raise LocalProtocolError(
            f"{what}: expected CreateMessageResult, got {type(value).__name__}"
        )
    answer = encode_answer(fit_content(value, revision, what), revision, what)
    blocks = answer["content"]
    for block in blocks if type(blocks) is list else [blocks]:
        problem = _block_problem(block.get("type"), request, revision)
        if problem is not None:
            raise LocalProtocolError(f"{what}: {problem}")
    return answer


def fit_content(holder: Message, revision: Revision, what: str) -> Message:
    """Return a message with its content as a list or a single block, as in a revision.

    SEP-1577: several blocks since 2025-11-25, exactly one before.
    """
    content = holder.content
    if not isinstance(content, (list, tuple)):
        return holder
    if revision >= _NOV_2025:
        return attrs.evolve(holder, content=list(content))
    if len(content) != 1:
        raise LocalProtocolError(
            f"{what}: content must be one block at {revision}, got {len(content)}"
        )
    return attrs.evolve(holder, content=content[0])


def content_problem(kind: object, revision: Revision) -> str | None:
    """Return why sampling has no content of a type in a revision, or ``None``."""
    since = _CONTENT_SINCE.get(kind)
    if since is None:
        return f"sampling has no content of type {excerpt(kind)}"
    if revision < since:
        return f"content of type {kind!r} exists since {since}, not at {revision}"
    return None


def _block_problem(
    kind: object, request: CreateMessageRequestParams, revision: Revision
) -> str | None:
    if (problem := content_problem(kind, revision)) is not None:
        return problem
    if kind == "tool_use":
        if not request.tools:
            return "a tool use where the server offers no tools"
        choice = request.tool_choice
        if choice is not None and choice.mode == "none":
            # 2025-11-25 client/sampling, "Tool Choice Modes": MUST NOT use any tools.
            return "a tool use where the server chose 'none'"
    # Every tool use of the conversation already has its result.
    return "a tool result answers no tool use" if kind == "tool_result" else None


# --- elicitation


_MODES: Final = ("form", "url")
_ACTIONS: Final = ("accept", "decline", "cancel")
_ANSWER: Final = "elicitation answer"

_MAX_OPEN: Final = 1024


class UrlElicitations:
    """The URL elicitations of one client that may still be completed, up to a limit.

    Only 2025-11-25 has their ids and completion notifications.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, id: str) -> None:
        """Add an elicitation; remove the oldest one if there are too many."""
        self._open[id] = None
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)

    def add_required(self, error: RPCError) -> None:
        """Add the elicitations of the error of a failed call (-32042)."""
        match error.data:
            case {"elicitations": [*elicitations]}:
                for elicitation in elicitations:
                    match elicitation:
                        case {"elicitationId": str(id)}:
                            self.add(id)

    def discard(self, id: str | None) -> None:
        """Remove an elicitation that the user did not accept."""
        if id is not None:
            self._open.pop(id, None)

    def complete(self, params: Mapping[str, Any] | None) -> bool:
        """Remove the completed elicitation; return whether it was open."""
        id = (params or {}).get("elicitationId")
        return type(id) is str and self._open.pop(id, id) is None


def _prepare_form(
    handlers: Elicitation, params: JsonObject | None, revision: Revision
) -> ServerRequest:
    from mcpwire.protocol.elicitation import fill_form
    from mcpwire.types import ElicitRequestFormParams, ElicitResult

    assert handlers.form is not None  # as the mode is declared
    request = decode_params(ElicitRequestFormParams, params, ELICIT)

    def finish(value: Any) -> JsonObject:
        if isinstance(value, Mapping):
            value = ElicitResult("accept", dict(value))
        result = _as_result(value, "ElicitResult, a mapping or an action")
        if result.action != "accept":
            reason = f"the action is {result.action!r}"
            return _without_content(result, reason, revision)
        content = fill_form(request.requested_schema, result.content or {}, revision)
        return encode_answer(attrs.evolve(result, content=content), revision, _ANSWER)

    return ServerRequest(handlers.form, request, finish)


def _prepare_url(
    handlers: Elicitation,
    open_urls: UrlElicitations,
    params: JsonObject | None,
    revision: Revision,
) -> ServerRequest:
    from mcpwire.protocol.elicitation import url_problem
    from mcpwire.types import ElicitRequestURLParams

    assert handlers.url is not None  # as the mode is declared
    request = decode_params(ElicitRequestURLParams, params, ELICIT)
    id = request.elicitation_id
    # An id is required in the revisions that have completion notifications.
    completion = available_method(
        "notifications/elicitation/complete", revision, "server"
    )
    problem = url_problem(request.url, plain_http=handlers.plain_http)
    if problem is None and id is None and completion is not None:
        problem = "elicitationId: expected str, got nothing"
    if problem is not None:
        raise InvalidParams(f"ElicitRequestURLParams.{problem}", method=ELICIT)
    if id is not None and completion is not None:
        open_urls.add(id)

    def finish(value: Any) -> JsonObject:
        is_accepted = False
        try:
            result = _as_result(value, "ElicitResult or an action")
            reason = "the user was asked to visit a URL"
            answer = _without_content(result, reason, revision)
            is_accepted = result.action == "accept"
            return answer
        finally:
            if not is_accepted:
                open_urls.discard(id)

    return ServerRequest(handlers.url, request, finish)


def _as_result(value: Any, expected: str) -> ElicitResult:
    from mcpwire.types import ElicitResult

    result = ElicitResult(value) if isinstance(value, str) else value  # type: ignore[arg-type]  # which strings are actions is checked below
    if not isinstance(result, ElicitResult):
        got = type(value).__name__
        raise LocalProtocolError(f"{_ANSWER}: expected {expected}, got {got}")
    if result.action not in _ACTIONS:
        raise LocalProtocolError(
            f"{_ANSWER}: the action must be one of {', '.join(_ACTIONS)}, "
            f"got {excerpt(result.action)}"
        )
    return result


def _without_content(
    result: ElicitResult, reason: str, revision: Revision
) -> JsonObject:
    # 2025-11-25 schema, ElicitResult: content only with an accepted form.
    if result.content:
        raise LocalProtocolError(f"{_ANSWER}: content must be left out where {reason}")
    return encode_answer(attrs.evolve(result, content=None), revision, _ANSWER)
