"""What a server may ask of its client: reads requests, writes the handlers' answers.

Sampling (an answer of the model, deprecated in 2026-07-28), elicitation (an answer of
the user) and roots (the folders a server may work in). A request of a session and an
entry of an input-required result are handled alike::

    raw params ── decode_params ──> params ──> the handler ──> value
                                                                 │ finish
    raw answer <── encode_answer ────────────────────────────────┘

Capabilities are declared by the handlers that are there, and a request is taken only
where its capability is declared in the revision spoken, so the two never part. This
library shows no form, opens no URL and calls no model: the handlers do.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import attrs

from mcpwire._text import excerpt
from mcpwire.errors import (
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
)
from mcpwire.protocol.methods import (
    ELICIT,
    ROOTS,
    SAMPLE,
    available,
    capability_declared,
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

__all__ = [
    "USER_REJECTED",
    "ClientFeatures",
    "Elicitation",
    "FormHandler",
    "PathLike",
    "RootLike",
    "Roots",
    "Sampling",
    "SamplingHandler",
    "ServerRequest",
    "UrlElicitations",
    "UrlHandler",
    "as_roots",
    "as_source",
    "check_sampling",
    "decode_params",
    "encode_answer",
    "finish_sampling",
    "fit_content",
    "kind_problem",
]

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

# --- what handlers are given as


class PathLike(Protocol):
    """An object that names a path: `pathlib.Path` and its kind."""

    def __fspath__(self) -> str | bytes:
        """Return the path."""
        ...


RootLike: TypeAlias = "Root | str | PathLike"
"""A root, a ``file://`` URI, or an absolute path, as text or as an object."""

RootsAnswer: TypeAlias = "Iterable[RootLike] | Awaitable[Iterable[RootLike]]"
Roots: TypeAlias = "Iterable[RootLike] | Callable[[], RootsAnswer]"
"""Roots, or a function, plain or async, that returns them."""

SamplingAnswer: TypeAlias = "CreateMessageResult | Awaitable[CreateMessageResult]"
SamplingHandler: TypeAlias = "Callable[[CreateMessageRequestParams], SamplingAnswer]"
"""Answers with the client's model; plain or async."""

FormAnswer: TypeAlias = "ElicitResult | Mapping[str, Any] | ElicitAction"
FormHandler: TypeAlias = (
    "Callable[[ElicitRequestFormParams], FormAnswer | Awaitable[FormAnswer]]"
)
"""Shows a form; plain or async."""

UrlAnswer: TypeAlias = "ElicitResult | ElicitAction"
UrlHandler: TypeAlias = (
    "Callable[[ElicitRequestURLParams], UrlAnswer | Awaitable[UrlAnswer]]"
)
"""Offers a URL; plain or async."""

USER_REJECTED: Final = -1
"""The code of the `RPCError` to raise when the user rejects what a server asks.

2025-11-25 client/sampling, "Error Handling".
"""


def _check_handler(feature: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not callable(value) and not (value is None and attribute.default is None):
        what = f"{type(feature).__name__.lower()}: {attribute.name}"
        raise ValueError(f"{what} must be a function, got {excerpt(value)}")


@attrs.frozen
class Sampling:
    """A handler for sampling, and what it can do beyond text and images.

    The handler gets `CreateMessageRequestParams` and returns a `CreateMessageResult`.
    It keeps to `max_tokens`, lets the user see and stop what is sent, and keeps
    `meta` of tool uses and results when it hands them to the model. To reject a request
    it raises ``RPCError("...", code=USER_REJECTED)``.

    Raises:
        ValueError: The handler is no function.
    """

    handler: SamplingHandler = attrs.field(validator=_check_handler)

    tools: bool = attrs.field(default=False, kw_only=True)
    """Whether it heeds `tools` and `tool_choice` (since 2025-11-25).

    Without it a request that has them is refused before the handler sees it.
    """

    context: bool = attrs.field(default=False, kw_only=True)
    """Whether it heeds `include_context` (declared since 2025-11-25)."""


@attrs.frozen
class Elicitation:
    """The handlers that ask the user; each mode is declared by its handler.

    The form handler gets `ElicitRequestFormParams`. It returns a mapping (accepted,
    with that content), an `ElicitResult`, or the action's name. Fields that an accepted
    form leaves out get their defaults; a field that is ``None`` stays out. The content
    must fit the form.

    The URL handler gets `ElicitRequestURLParams` with a URL that is safe to show:
    https, or http to this machine, without a user name. It shows the whole URL, asks,
    and opens it only where the user agrees; `mcpwire.protocol.elicitation.describe_url`
    says what to point out. It returns an `ElicitResult` or the action's name;
    ``accept`` means consent and not that the user is done.

    Raises:
        ValueError: There is no handler, or one is no function.
    """

    form: FormHandler | None = attrs.field(default=None, validator=_check_handler)
    url: UrlHandler | None = attrs.field(default=None, validator=_check_handler)

    plain_http: bool = attrs.field(default=False, kw_only=True)
    """Whether the URL handler also gets http URLs of other machines."""

    def __attrs_post_init__(self) -> None:
        if self.form is None and self.url is None:
            raise ValueError("elicitation needs a form handler or a url handler")


def _as_sampling(given: SamplingHandler | Sampling | None) -> Sampling | None:
    return given if given is None or isinstance(given, Sampling) else Sampling(given)


def _as_elicitation(given: FormHandler | Elicitation | None) -> Elicitation | None:
    if given is None or isinstance(given, Elicitation):
        return given
    return Elicitation(form=given)


# --- the features of one client


@attrs.frozen
class ServerRequest:
    """A checked request of a server: call the handler, await its value, finish."""

    handler: Callable[[Any], Any]
    """Takes `params`; plain or async."""

    params: Any = attrs.field(repr=False)
    """The typed params; what was asked belongs in no log."""

    finish: Callable[[Any], dict[str, Any]] = attrs.field(repr=False)
    """Makes the raw answer of the handler's value.

    Raises `LocalProtocolError`, naming field and rule, for what must not be sent.
    """


class ClientFeatures:
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
        url_elicitations: The URL elicitations that a server may still complete.

    Raises:
        ValueError: An argument is malformed; names it.
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
        self._experimental = _settings(experimental, "experimental")
        self.url_elicitations = UrlElicitations()

    def replace(self, given: Mapping[str, Any]) -> None:
        """Replace the handlers of these arguments, or raise `ValueError`."""
        sampling = _as_sampling(given.get("sampling", self._sampling))
        elicitation = _as_elicitation(given.get("elicitation", self._elicitation))
        self._roots = as_source(given.get("roots", self._roots))
        self._sampling, self._elicitation = sampling, elicitation

    @property
    def extensions(self) -> frozenset[str]:
        """The ids of the extensions that are switched on."""
        return frozenset(self._extensions)

    def capabilities(self, revision: Revision) -> JsonObject:
        """Return the client capabilities that are declared at a revision."""
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
            extensions={id: dict(given) for id, given in self._extensions.items()}
            or None,
            experimental=self._experimental or None,
        )
        raw = types.encode(capabilities, revision)
        has_forms = elicitation is not None and elicitation.form is not None
        if raw.get("elicitation") == {} and not has_forms:
            # 2025-06-18 knows forms only, and an empty capability always means forms.
            del raw["elicitation"]
        return raw

    def prepare(
        self, method: str, params: JsonObject | None, revision: Revision
    ) -> ServerRequest:
        """Check a server's request; return its handler, params and finish."""
        spec = available(method, revision, "server")
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
                if mode not in _MODES or not capability_declared(
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

    def complete_elicitation(self, params: JsonObject | None) -> bool:
        """Tell whether a completion notification ends an open elicitation.

        2025-11-25 client/elicitation, "Completion Notifications": one about an id that
        is unknown or finished MUST be ignored.
        """
        return self.url_elicitations.complete(params)


def _as_extensions(
    given: Mapping[str, JsonObject | None] | Iterable[str] | None,
) -> dict[str, JsonObject]:
    if given is None:
        return {}
    from mcpwire.types._base import is_meta_key

    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(
            "extensions must be ids, or a mapping from ids to settings, "
            f"got {excerpt(given)}"
        )
    ids: list[Any] = list(given)
    for id in ids:
        # 2026-07-28 basic/versioning, "Extension Negotiation": the rules of `_meta`
        # keys, and the prefix is mandatory.
        if not isinstance(id, str) or "/" not in id or not is_meta_key(id):
            raise ValueError(
                f"extensions: {excerpt(id)} is not an extension's id, "
                "which is spelled like 'com.example/name'"
            )
    settings = given if isinstance(given, Mapping) else dict.fromkeys(ids)
    return _settings(settings, "extensions")


def _settings(
    given: Mapping[str, JsonObject | None] | None, argument: str
) -> dict[str, JsonObject]:
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise ValueError(
            f"{argument} must be a mapping from names to settings, got {excerpt(given)}"
        )
    for name, settings in given.items():
        if settings is not None and not isinstance(settings, Mapping):
            raise ValueError(
                f"{argument}: the settings of {excerpt(name)} must be a mapping, "
                f"got {excerpt(settings)}"
            )
    return {name: dict(settings or {}) for name, settings in given.items()}


def decode_params(cls: type[T], params: JsonObject | None, method: str) -> T:
    """Return typed params, or raise `InvalidParams` that says where they are wrong."""
    from mcpwire.types import decode

    try:
        return decode(cls, params)
    except InvalidMessage as error:
        raise InvalidParams(str(error), method=method) from error


def encode_answer(value: WireType, revision: Revision, what: str) -> JsonObject:
    """Return the raw answer, or raise `LocalProtocolError` that says where it is wrong.

    Encoding looks at structure only; a handler's ``model=None`` shows when the answer
    is decoded again.
    """
    from mcpwire.types import decode, encode

    answer = encode(value, revision)
    try:
        decode(type(value), answer)
    except InvalidMessage as error:
        raise LocalProtocolError(f"{what}: {error}") from error
    return answer


# --- roots: `file://` URIs in their plainest form, so that no two programs can read one
# differently (2026-07-28 client/roots, "Security Considerations": clients MUST validate
# root URIs to prevent path traversal)


_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")

_RULES: Final = tuple(
    (re.compile(offence), sentence)
    for offence, sentence in (
        (r"\A(?!file://)", "must begin with file://, or be an absolute path"),
        (r"[?#]", "must have neither query nor fragment"),
        (r"\Afile://(?!(?:localhost)?(?:/|\Z))", "must not name another machine"),
        (r"\Afile://[^/]*\Z", "must be absolute, such as file:///home"),
        # RFC 3986: what no path holds undecoded, percent signs that encode nothing.
        (
            r"[^!$&-;=@-Z_a-z~%]|%(?![0-9A-Fa-f]{2})",
            "holds characters that must be percent-encoded",
        ),
        (r"(?i:%2f|%5c|%00)", "must not hold an encoded separator or NUL"),
        (r"/(?:\.|(?i:%2e)){1,2}(?=/|\Z)", "must not hold the segments . and .."),
    )
)
"""What must not be found in a root's URI, and why it is refused."""


def as_source(given: Roots | None) -> Any:
    """Return the given roots: a function, the user's own list, a tuple or ``None``."""
    if given is None or callable(given):
        return given
    source = given if isinstance(given, list) else tuple(_iterable(given))
    as_roots(source)
    return source


def as_roots(values: Iterable[RootLike]) -> list[Root]:
    """Return roots as the wire has them, each one checked; no path is looked up."""
    return [_as_root(value, index) for index, value in enumerate(_iterable(values))]


def _iterable(values: Any) -> Iterable[Any]:
    is_one = isinstance(values, (str, bytes, Mapping)) or hasattr(values, "__fspath__")
    if is_one or not isinstance(values, Iterable):
        raise ValueError(f"roots must be a list or a function, got {excerpt(values)}")
    return values


def _as_root(value: Any, index: int) -> Root:
    from mcpwire.types import Root

    where = f"roots[{index}]"
    if isinstance(value, Root):
        root = value
    elif isinstance(value, str):
        root = Root(value if _SCHEME.match(value) else _uri_of(value, where))
    elif hasattr(value, "__fspath__"):
        root = Root(_uri_of(value.__fspath__(), where))
    else:
        raise ValueError(
            f"{where}: expected a Root, a file:// URI or a path, got {excerpt(value)}"
        )
    if root.name is not None and not isinstance(root.name, str):
        raise ValueError(f"{where}: its name must be a str, got {excerpt(root.name)}")
    problem: str | None = "is not a str"
    if isinstance(root.uri, str):
        problem = next((why for rule, why in _RULES if rule.search(root.uri)), None)
    if problem is not None:
        raise ValueError(f"{where}: {excerpt(root.uri)} {problem}")
    return root


def _uri_of(path: str | bytes, where: str) -> str:
    """Spell an absolute path as a URI, as `pathlib` does."""
    from urllib.parse import quote_from_bytes

    # How Python spells the bytes of file names that are no UTF-8.
    text = path.decode("utf-8", "surrogateescape") if type(path) is bytes else str(path)
    prefix = "file://"
    if _DRIVE.match(text):
        prefix, text = f"file:///{text[:2]}", text[2:].replace("\\", "/")
    elif not text.startswith("/"):
        raise ValueError(
            f"{where}: {excerpt(text)} is a relative path; a root must be absolute"
        )
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: {excerpt(text)} is not a path ({error})") from error
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
    find = source if callable(source) else lambda: source
    return ServerRequest(lambda _: find(), request, finish)


# --- sampling: the rules for the conversation and for the handler's answer


_CONTENT: Final[Mapping[object, Revision]] = {
    "text": _NOV_2024,
    "image": _NOV_2024,
    "audio": _MAR_2025,
    "tool_use": _NOV_2025,
    "tool_result": _NOV_2025,
}
"""The kinds of content, and the first revision of each."""


def check_sampling(
    params: JsonObject | None, capabilities: JsonObject
) -> CreateMessageRequestParams:
    """Return the typed params of a server's request for an answer of the model."""
    from mcpwire.types import CreateMessageRequestParams

    request = decode_params(CreateMessageRequestParams, params, SAMPLE)
    # 2025-11-25 schema, CreateMessageRequestParams: MUST return an error.
    given = "tools" if request.tools is not None else "toolChoice"
    asks_for_tools = request.tools is not None or request.tool_choice is not None
    if asks_for_tools and not capability_declared(capabilities, "sampling.tools"):
        problem: str | None = f"{given}: this client did not declare sampling.tools"
    else:
        problem = _find_imbalance(request.messages)
    if problem is not None:
        raise InvalidParams(f"CreateMessageRequestParams.{problem}", method=SAMPLE)
    return request


def _find_imbalance(messages: list[SamplingMessage]) -> str | None:
    """Return what is wrong with the tool uses and results of a conversation.

    2025-11-25 client/sampling, "Tool Use and Result Balance". A conversation of an
    earlier revision has neither.
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
    """Return the raw answer of a sampling handler's value."""
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
    """Return a message with as many blocks as the revision has it.

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


def kind_problem(kind: object, revision: Revision) -> str | None:
    """Say why sampling has no content of a kind at a revision; ``None``: it has."""
    since = _CONTENT.get(kind)
    if since is None:
        return f"sampling has no content of type {excerpt(kind)}"
    if revision < since:
        return f"content of type {kind!r} exists since {since}, not at {revision}"
    return None


def _block_problem(
    kind: object, request: CreateMessageRequestParams, revision: Revision
) -> str | None:
    if (problem := kind_problem(kind, revision)) is not None:
        return problem
    if kind == "tool_use":
        if not request.tools:
            return "a tool use where the server offers no tools"
        choice = request.tool_choice
        if choice is not None and choice.mode == "none":
            # 2025-11-25 client/sampling, "Tool Choice Modes": MUST NOT use any tools.
            return "a tool use where the server chose 'none'"
    # Each tool use of the conversation has its result already.
    return "a tool result answers no tool use" if kind == "tool_result" else None


# --- elicitation


_MODES: Final = ("form", "url")
_ACTIONS: Final = ("accept", "decline", "cancel")
_ELICITED: Final = "elicitation answer"

_OPEN_MAX: Final = 1024


class UrlElicitations:
    """The URL elicitations of one client that may still be completed, bounded.

    Only 2025-11-25 gives them ids and reports when the user is done.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, id: str) -> None:
        """Note an elicitation that reaches a handler; the oldest is forgotten."""
        self._open[id] = None
        if len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)

    def add_required(self, error: RPCError) -> None:
        """Note the elicitations that a call failed for (-32042)."""
        data = error.data
        elicitations = data.get("elicitations") if isinstance(data, Mapping) else None
        for each in elicitations if isinstance(elicitations, list) else ():
            id = each.get("elicitationId") if isinstance(each, Mapping) else None
            if type(id) is str:
                self.add(id)

    def discard(self, id: str | None) -> None:
        """Forget an elicitation that the user did not agree to."""
        if id is not None:
            self._open.pop(id, None)

    def complete(self, params: Mapping[str, Any] | None) -> bool:
        """Tell whether a completion notification ends an open one; end it."""
        id = (params or {}).get("elicitationId")
        return type(id) is str and self._open.pop(id, id) is None


def _prepare_form(
    handlers: Elicitation, params: JsonObject | None, revision: Revision
) -> ServerRequest:
    from mcpwire.protocol.elicitation import fill_form
    from mcpwire.types import ElicitRequestFormParams, ElicitResult

    assert handlers.form is not None  # its mode is declared
    request = decode_params(ElicitRequestFormParams, params, ELICIT)

    def finish(value: Any) -> JsonObject:
        if isinstance(value, Mapping):
            value = ElicitResult("accept", dict(value))
        result = _as_result(value, "ElicitResult, a mapping or an action")
        if result.action != "accept":
            reason = f"the action is {result.action!r}"
            return _without_content(result, reason, revision)
        content = fill_form(request.requested_schema, result.content or {}, revision)
        return encode_answer(attrs.evolve(result, content=content), revision, _ELICITED)

    return ServerRequest(handlers.form, request, finish)


def _prepare_url(
    handlers: Elicitation,
    open_urls: UrlElicitations,
    params: JsonObject | None,
    revision: Revision,
) -> ServerRequest:
    from mcpwire.protocol.elicitation import url_problem
    from mcpwire.types import ElicitRequestURLParams

    assert handlers.url is not None  # its mode is declared
    request = decode_params(ElicitRequestURLParams, params, ELICIT)
    id = request.elicitation_id
    # An elicitation has an id only where its completion is notified.
    notice = available("notifications/elicitation/complete", revision, "server")
    problem = url_problem(request.url, plain_http=handlers.plain_http)
    if problem is None and id is None and notice is not None:
        problem = "elicitationId: expected str, got nothing"
    if problem is not None:
        raise InvalidParams(f"ElicitRequestURLParams.{problem}", method=ELICIT)
    if id is not None and notice is not None:
        open_urls.add(id)

    def finish(value: Any) -> JsonObject:
        is_agreed = False
        try:
            result = _as_result(value, "ElicitResult or an action")
            reason = "the user was asked to visit a URL"
            answer = _without_content(result, reason, revision)
            is_agreed = result.action == "accept"
            return answer
        finally:
            if not is_agreed:
                open_urls.discard(id)

    return ServerRequest(handlers.url, request, finish)


def _as_result(value: Any, expected: str) -> ElicitResult:
    from mcpwire.types import ElicitResult

    result = ElicitResult(value) if isinstance(value, str) else value  # type: ignore[arg-type]  # which strings are actions is checked below
    if not isinstance(result, ElicitResult):
        got = type(value).__name__
        raise LocalProtocolError(f"{_ELICITED}: expected {expected}, got {got}")
    if result.action not in _ACTIONS:
        raise LocalProtocolError(
            f"{_ELICITED}: the action must be one of {', '.join(_ACTIONS)}, "
            f"got {excerpt(result.action)}"
        )
    return result


def _without_content(
    result: ElicitResult, reason: str, revision: Revision
) -> JsonObject:
    # 2025-11-25 schema, ElicitResult: content only with an accepted form.
    if result.content:
        raise LocalProtocolError(
            f"{_ELICITED}: content must be left out where {reason}"
        )
    return encode_answer(attrs.evolve(result, content=None), revision, _ELICITED)
