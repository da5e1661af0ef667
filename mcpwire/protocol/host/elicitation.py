"""Elicitation: a server wants an answer of the client's user, in a form or at a URL.

This library never opens or fetches a URL and never shows a form: the handlers do, with
the user's consent (client/elicitation, "Safe URL Handling"). Here stand the rules for
what reaches them and for what may be answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.errors import InvalidParams, LocalProtocolError
from mcpwire.protocol.host.question import (
    Question,
    decode_params,
    encode_answer,
    excerpt,
)
from mcpwire.protocol.methods import available, capability_declared

if TYPE_CHECKING:
    from mcpwire.protocol.host.completions import UrlElicitations
    from mcpwire.types import (
        ElicitAction,
        ElicitationCapability,
        ElicitRequestFormParams,
        ElicitRequestURLParams,
        ElicitResult,
        JsonObject,
    )
    from mcpwire.versions import Revision

__all__ = [
    "Elicitation",
    "FormHandler",
    "UrlHandler",
    "as_elicitation",
    "ask",
    "capability",
]

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

_METHOD: Final = "elicitation/create"
_ANSWER: Final = "elicitation answer"
_ACTIONS: Final = ("accept", "decline", "cancel")
_MODES: Final = ("form", "url")


def _check_handler(_: Any, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not callable(value):
        raise ValueError(
            f"elicitation: {attribute.name} must be a function, got {excerpt(value)}"
        )


@attrs.frozen
class Elicitation:
    """The handlers that ask the user; each mode is declared by its handler.

    The form handler gets `ElicitRequestFormParams`. It returns a mapping (accepted,
    with that content), an `ElicitResult`, or the action's name. Fields that an accepted
    form leaves out get their defaults; a field that is ``None`` stays out. The content
    must fit the form.

    The URL handler gets `ElicitRequestURLParams` whose URL is safe to be shown: https,
    or http to this machine, without a user name. It shows the whole URL, asks, and
    opens it only where the user agrees; `mcpwire.protocol.host.visits.describe_url`
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
        """Refuse to be empty."""
        if self.form is None and self.url is None:
            raise ValueError("elicitation needs a form handler or a url handler")


def as_elicitation(given: FormHandler | Elicitation | None) -> Elicitation | None:
    """Return what the user gave for elicitation as an `Elicitation`.

    Raises:
        ValueError: It is no function.
    """
    if given is None or isinstance(given, Elicitation):
        return given
    if not callable(given):
        raise ValueError(f"elicitation must be a function, got {excerpt(given)}")
    return Elicitation(form=given)


def capability(feature: Elicitation | None) -> ElicitationCapability | None:
    """Return what is declared, as of the newest revision."""
    if feature is None:
        return None
    from mcpwire.types import ElicitationCapability

    return ElicitationCapability(
        form=None if feature.form is None else {},
        url=None if feature.url is None else {},
    )


def ask(
    feature: Elicitation,
    visits: UrlElicitations,
    params: JsonObject | None,
    revision: Revision,
    capabilities: JsonObject,
) -> Question:
    """Check a server's request for an answer of the user.

    Raises:
        InvalidParams: Its mode was not declared, or it breaks a rule; says which.
    """
    mode = (params or {}).get("mode")
    if mode is None:
        # 2025-11-25 client/elicitation, "Elicitation Requests": no mode means form.
        mode = "form"
    if mode not in _MODES or not capability_declared(
        capabilities, f"elicitation.{mode}"
    ):
        raise InvalidParams(
            f"this client did not declare the elicitation mode {excerpt(mode)}",
            method=_METHOD,
        )
    if mode == "form":
        return _ask_form(feature, params, revision)
    return _ask_url(feature, visits, params, revision)


def _ask_form(
    feature: Elicitation, params: JsonObject | None, revision: Revision
) -> Question:
    from mcpwire.types import ElicitRequestFormParams

    request = decode_params(ElicitRequestFormParams, params, _METHOD)
    return Question(feature.form, request, partial(_finish_form, request, revision))


def _ask_url(
    feature: Elicitation,
    visits: UrlElicitations,
    params: JsonObject | None,
    revision: Revision,
) -> Question:
    from mcpwire.protocol.host.visits import problem_of
    from mcpwire.types import ElicitRequestURLParams

    request = decode_params(ElicitRequestURLParams, params, _METHOD)
    problem = problem_of(request.url, plain_http=feature.plain_http)
    if problem is None and request.elicitation_id is None and _has_ids(revision):
        problem = "elicitationId: expected str, got nothing"
    if problem is not None:
        raise InvalidParams(f"ElicitRequestURLParams.{problem}", method=_METHOD)
    if request.elicitation_id is not None and _has_ids(revision):
        visits.add(request.elicitation_id)
    return Question(
        feature.url, request, partial(_finish_url, request, visits, revision)
    )


def _has_ids(revision: Revision) -> bool:
    # An elicitation has an id so that its end can be told, and only then.
    notice = "notifications/elicitation/complete"
    return available(notice, revision, "server") is not None


# --- the answer


def _finish_form(
    request: ElicitRequestFormParams, revision: Revision, value: Any
) -> JsonObject:
    from mcpwire.protocol.host.forms import fill
    from mcpwire.types import ElicitResult

    if isinstance(value, Mapping):
        value = ElicitResult("accept", dict(value))
    result = _as_result(value, "ElicitResult, a mapping or an action")
    if result.action == "accept":
        content = fill(request.requested_schema, result.content or {}, revision)
        return encode_answer(attrs.evolve(result, content=content), revision, _ANSWER)
    return _without_content(result, f"the action is {result.action!r}", revision)


def _finish_url(
    request: ElicitRequestURLParams,
    visits: UrlElicitations,
    revision: Revision,
    value: Any,
) -> JsonObject:
    is_agreed = False
    try:
        result = _as_result(value, "ElicitResult or an action")
        reason = "the user was asked to visit a URL"
        answer = _without_content(result, reason, revision)
        is_agreed = result.action == "accept"
        return answer
    finally:
        if not is_agreed:
            visits.discard(request.elicitation_id)


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
