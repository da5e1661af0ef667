"""Header fields that mirror the body (2026-07-28)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from mcpwire.check.case import MODERN, Absent, Family
from mcpwire.check.cases._exchange import (
    ChangedRequest,
    Error,
    Refusal,
    Result,
    add_exchange_case,
)
from mcpwire.check.cases._http import HTTP, session_revision
from mcpwire.check.cases.discovery import names_versions
from mcpwire.check.peer import HeaderValue
from mcpwire.check.roles import arguments_for, call_params
from mcpwire.errors import MCPError
from mcpwire.protocol.http_headers import ParamHeader, find_param_headers
from mcpwire.protocol.json_schema import properties_of

if TYPE_CHECKING:
    from mcpwire.check.case import CaseFunction
    from mcpwire.check.subject import Reaction, Subject

FAMILY: Final = Family("headers")

_PAGE: Final = "basic/transports/streamable-http"
_VERSION: Final = f"{_PAGE}#protocol-version-header"
_VALIDATION: Final = f"{_PAGE}#server-validation"
_ENCODING: Final = f"{_PAGE}#value-encoding"
_CUSTOM: Final = f"{_PAGE}#server-behavior-for-custom-headers"

_MISMATCH: Final = Error(-32020, status=(400,))
_WHY: Final = "a proxy may route and bill by a header that the server does not check"

Fields: TypeAlias = Mapping[str, HeaderValue]

case = FAMILY.with_defaults(revisions=MODERN, transports=HTTP)


@attrs.frozen
class _NamedRequest:
    """A request with a name or URI, which `Mcp-Name` mirrors."""

    method: str
    params: dict[str, Any]
    name: str

    async def send(self, subject: Subject, headers: Fields | None = None) -> Reaction:
        """Send the request with changed header fields."""
        message = subject.message(self.method, self.params, id=subject.next_id())
        return await subject.provoke(message, headers=headers)


def _find_named_request(subject: Subject) -> _NamedRequest:
    """Return a read-only request with a name or URI, or raise `Absent`."""
    facts = subject.facts
    echo = facts.roles.get("echo")
    for tool in ([echo] if echo else []) + facts.callable_tools:
        arguments = arguments_for(tool)
        if arguments is not None and not _param_headers(tool):
            return _NamedRequest(
                "tools/call", call_params(tool, arguments), tool["name"]
            )
    for resource in facts.resources:
        if isinstance(uri := resource.get("uri"), str):
            return _NamedRequest("resources/read", {"uri": uri}, uri)
    for prompt in facts.prompts:
        required = [a for a in prompt.get("arguments") or () if a.get("required")]
        if isinstance(name := prompt.get("name"), str) and not required:
            return _NamedRequest("prompts/get", {"name": name}, name)
    raise Absent("tool, resource or prompt that the check may use")


def _encode_base64(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


# --- standard fields ------------------------------------------------------------------


def _add_field_case(
    id: str,
    title: str,
    sends: str,
    fields: Callable[[Any], Fields],
    *,
    find: Callable[[Subject], _NamedRequest] = _find_named_request,
    is_accepted: bool = False,
    add: Callable[..., Callable[[CaseFunction], CaseFunction]] = case.must,
    source: str = _VALIDATION,
    **facts: Any,
) -> None:
    """Add a case that sends a found request with changed header fields.

    It expects the mismatch error; `is_accepted`: a result, as without the change.
    """
    expected = Result() if is_accepted else _MISMATCH

    async def run(subject: Subject) -> None:
        request = find(subject)
        if is_accepted and not Result().matches(await request.send(subject)):
            subject.raise_absent(f"result of {request.method} {request.name}")
        reaction = await request.send(subject, fields(request))
        subject.expect(expected.matches(reaction), str(expected), reaction)

    facts |= {"source": source, "sends": sends, "expects": str(expected)}
    why = "valid calls of other clients fail" if is_accepted else _WHY
    add(id, title, why=why, **facts)(run)


_add_field_case(
    "HDR-22.a",
    "a request without Mcp-Method is refused",
    "a request without Mcp-Method",
    lambda _: {"Mcp-Method": None},
)
_add_field_case(
    "HDR-22.b",
    "a request without the required Mcp-Name is refused",
    "a request for a tool, resource or prompt without Mcp-Name",
    lambda _: {"Mcp-Name": None},
)
_add_field_case(
    "HDR-21.a",
    "an Mcp-Method that differs from the body is refused",
    "a request with Mcp-Method: tools/list",
    lambda _: {"Mcp-Method": "tools/list"},
)
_add_field_case(
    "HDR-21.b",
    "an Mcp-Name that differs from the body is refused",
    "a request with Mcp-Name: mcpwire-other",
    lambda _: {"Mcp-Name": "mcpwire-other"},
)
_add_field_case(
    "HDR-27.a",
    "values of header fields are case-sensitive",
    "a request with its method in upper case in Mcp-Method",
    lambda named: {"Mcp-Method": named.method.upper()},
    source=f"{_PAGE}#case-sensitivity",
)
_add_field_case(
    "HDR-20.b",
    "a Base64 Mcp-Name that differs from the body is refused",
    "a request with another name as =?base64?...?= in Mcp-Name",
    lambda _: {"Mcp-Name": _encode_base64("mcpwire-other")},
    source=_ENCODING,
)
_add_field_case(
    "HDR-20.c",
    "Base64 markers are recognized in lower case only",
    "a request with its name as =?BASE64?...?= in Mcp-Name",
    lambda named: {"Mcp-Name": _encode_base64(named.name).replace("base64", "BASE64")},
    source=_ENCODING,
)
_add_field_case(
    "HDR-23.a",
    "an Mcp-Name with invalid Base64 is refused",
    "a request with Mcp-Name: =?base64?%%%?=",
    lambda _: {"Mcp-Name": "=?base64?%%%?="},
)
_add_field_case(
    "HDR-23.b",
    "a Base64 Mcp-Name that is not UTF-8 is refused",
    "a request with Mcp-Name: =?base64?/w==?=",
    lambda _: {"Mcp-Name": "=?base64?/w==?="},
)
_add_field_case(
    "D13.a",
    "two different Mcp-Method fields are refused",
    "a request with two Mcp-Method fields, its method and tools/list",
    lambda named: {"Mcp-Method": (named.method, "tools/list")},
    add=case.robust,
    source="",
)
_add_field_case(
    "D13.b",
    "two different Mcp-Name fields are refused",
    "a request with two Mcp-Name fields, another name and its own",
    lambda named: {"Mcp-Name": ("mcpwire-other", named.name)},
    add=case.robust,
    source="",
)


@case.must(
    "HDR-23.c",
    "invalid characters in a header field are refused",
    source=_VALIDATION,
    sends="a request with a raw accented letter in Mcp-Name",
    expects="the status 400",
    why=_WHY,
)
async def invalid_characters(subject: Subject) -> None:
    reaction = await _find_named_request(subject).send(
        subject, {"Mcp-Name": "mcpwire-\u00e9"}
    )
    subject.expect(reaction.status == 400, "the status 400", reaction)


_add_field_case(
    "HDR-20.a",
    "a Base64 Mcp-Name is decoded before it is compared",
    "a request with its name as =?base64?...?= in Mcp-Name",
    lambda named: {"Mcp-Name": _encode_base64(named.name)},
    is_accepted=True,
    source=_ENCODING,
)
_add_field_case(
    "HDR-27.b",
    "names of header fields are case-insensitive",
    "a request with the fields MCP-METHOD, mcp-name and mcp-protocol-version",
    lambda named: {
        "MCP-METHOD": named.method,
        "mcp-name": named.name if named.name.isascii() else _encode_base64(named.name),
        "mcp-protocol-version": MODERN[0],
    },
    is_accepted=True,
    source=f"{_PAGE}#case-sensitivity",
)
_add_field_case(
    "HDR-28.a",
    "spaces around the value of a header field are ignored",
    "a request with spaces before and after the value of Mcp-Method",
    lambda named: {"Mcp-Method": f"  {named.method} \t"},
    is_accepted=True,
    add=case.robust,
    source="",
)


# --- protocol version -----------------------------------------------------------------


@case.must(
    "HDR-22.c",
    "a request without MCP-Protocol-Version is refused",
    source=_VALIDATION,
    rules=("TR-HTTP-29",),
    sends="a request without MCP-Protocol-Version",
    expects=f"{_MISMATCH}, unless the server supports earlier revisions",
    why=_WHY,
)
async def no_version(subject: Subject) -> None:
    fields = {"MCP-Protocol-Version": None}
    reaction = await subject.provoke(subject.any_request(), headers=fields)
    if not _MISMATCH.matches(reaction):
        if await session_revision(subject) is not None:
            subject.raise_absent(
                "need for the rule: the server supports earlier revisions"
            )
        subject.raise_broken(str(_MISMATCH), reaction)


@case.must(
    "TR-HTTP-26.a",
    "an MCP-Protocol-Version that differs from the body is refused",
    source=_VERSION,
    rules=("TR-HTTP-25",),
    sends="a request with 2026-07-28 in the header and 2025-11-25 in its _meta",
    expects="an error -32020 or -32022 with the status 400",
    why=_WHY,
)
async def other_version_in_body(subject: Subject) -> None:
    message = subject.any_request()
    fields = subject.http_headers(message)
    _set_version(message, "2025-11-25")
    reaction = await subject.provoke(message, headers=fields)
    expected = Error(-32020, -32022, status=(400,))
    subject.expect(expected.matches(reaction), str(expected), reaction)


@case.must(
    "TR-HTTP-26.b",
    "an MCP-Protocol-Version older than the version in the body is refused",
    source=_VERSION,
    sends="a request with 2025-11-25 in the header and 2026-07-28 in its _meta",
    expects="an error -32020 or -32022 with the status 400; lenient: another refusal",
    why=_WHY,
)
async def other_version_in_header(subject: Subject) -> None:
    fields = {"MCP-Protocol-Version": "2025-11-25"}
    reaction = await subject.provoke(subject.any_request(), headers=fields)
    expected = Error(-32020, -32022, status=(400,))
    if not expected.matches(reaction) and Refusal().matches(reaction):
        subject.raise_lenient(str(expected), reaction)
    subject.expect(expected.matches(reaction), str(expected), reaction)


def _set_version(message: dict[str, Any], version: str) -> None:
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = version


add_exchange_case(
    case.must,
    "TR-HTTP-27.a",
    "the error for an unsupported version lists the supported ones",
    source=_VERSION,
    send=ChangedRequest(
        lambda message: _set_version(message, "2999-01-01"),
        "a request with the version 2999-01-01 in the header and in its _meta",
        headers={"MCP-Protocol-Version": "2999-01-01"},
    ),
    expect=Error(
        -32022,
        status=(400,),
        data=names_versions,
        text="whose data.supported has 2026-07-28",
    ),
    why="a newer client cannot choose a version that both support",
)


@case.must(
    "TR-HTTP-32.a",
    "an error about a header field has the id of the request",
    source="basic/index#error-responses",
    sends="a request with another method in Mcp-Method",
    expects="an error with the id of the request",
    why="the caller waits forever: the error matches no request",
)
async def error_has_id(subject: Subject) -> None:
    id = f"mcpwire-{subject.next_id()}"
    message = subject.message(subject.facts.barrier, id=id)
    reaction = await subject.provoke(message, headers={"Mcp-Method": "tools/call"})
    if not reaction.errors:
        subject.raise_absent("error for a header field")
    got = [each.value.get("id") for each in reaction.errors]
    subject.expect(id in got, f"the id {id!r}", reaction)


# --- tool arguments -------------------------------------------------------------------


def _param_headers(tool: Mapping[str, Any]) -> tuple[ParamHeader, ...]:
    try:
        return find_param_headers(tool.get("inputSchema"))
    except MCPError:
        return ()


@attrs.frozen
class _MirroredCall(_NamedRequest):
    """A tool call with an argument that a header field mirrors."""

    header: str
    value: Any


def _find_mirrored_call(
    subject: Subject, kind: str | None = None, *, optional: bool = False
) -> _MirroredCall:
    """Return such a call; `kind`: argument type; `optional`: omit the argument."""
    for tool in subject.facts.callable_tools:
        arguments = arguments_for(tool)
        properties = properties_of(tool.get("inputSchema") or {})
        for header in _param_headers(tool) if arguments is not None else ():
            name = header.path[0]
            schema = properties.get(name)
            if len(header.path) != 1 or not isinstance(schema, dict):
                continue
            if kind is not None and schema.get("type") != kind:
                continue
            values = dict(arguments or {})
            if optional and name in values:
                continue
            if not optional and name not in values:
                values[name] = schema.get("default", _EXAMPLES.get(schema.get("type")))
            if not optional and values[name] is None:
                continue
            parts = "tools/call", call_params(tool, values), tool["name"]
            return _MirroredCall(*parts, header.name, values.get(name))
    raise Absent(f"tool with x-mcp-header{f' on a {kind}' if kind else ''}")


_EXAMPLES: Final[dict[Any, Any]] = {"string": "mcpwire", "integer": 1, "boolean": False}


def _add_argument_case(
    id: str,
    title: str,
    sends: str,
    value: Callable[[_MirroredCall], HeaderValue],
    *,
    kind: str | None = None,
    source: str = _CUSTOM,
    **facts: Any,
) -> None:
    """Add a case that sends a call with a changed header field of an argument."""
    _add_field_case(
        *(id, title, sends),
        lambda call: {call.header: value(call)},
        find=lambda subject: _find_mirrored_call(subject, kind),
        source=source,
        needs=("call:",),
        **facts,
    )


_add_argument_case(
    "HDR-24.a",
    "a call with an argument but without its header field is refused",
    "a call without the Mcp-Param field of an argument in the body",
    lambda _: None,
)
_add_argument_case(
    "HDR-21.c",
    "a header field that differs from its string argument is refused",
    "a call with another string in the Mcp-Param field of an argument",
    lambda call: f"{call.value}-other",
    kind="string",
)
_add_argument_case(
    "HDR-21.d",
    "a header field that differs from its integer argument is refused",
    "a call with a greater number in the Mcp-Param field of an argument",
    lambda call: str(call.value + 1),
    kind="integer",
)
_add_argument_case(
    "HDR-21.e",
    "a header field that differs from its boolean argument is refused",
    "a call with the opposite value in the Mcp-Param field of an argument",
    lambda call: "false" if call.value else "true",
    kind="boolean",
)
_add_argument_case(
    "HDR-23.d",
    "a header field with invalid Base64 for an argument is refused",
    "a call with =?base64?%%%?= in the Mcp-Param field of an argument",
    lambda _: "=?base64?%%%?=",
)
_add_argument_case(
    "HDR-20.d",
    "a Base64 header field for an argument is decoded before it is compared",
    "a call with the string as =?base64?...?= in its Mcp-Param field",
    lambda call: _encode_base64(call.value),
    kind="string",
    is_accepted=True,
    source=_ENCODING,
)
_add_argument_case(
    "HDR-26.a",
    "integers are compared as numbers",
    "a call with the integer written as a decimal, such as 1.0 for 1, in its Mcp-Param "
    "field",
    lambda call: f"{call.value}.0",
    kind="integer",
    is_accepted=True,
    add=case.should,
    source=_VALIDATION,
)


@case.must(
    "HDR-25.a",
    "no header field is required for an omitted argument",
    source=_CUSTOM,
    needs=("call:",),
    sends="a call without an optional argument, and without its Mcp-Param field",
    expects="a result; errors other than -32020 are not judged",
    why="valid calls of other clients fail",
)
async def no_argument(subject: Subject) -> None:
    call = _find_mirrored_call(subject, optional=True)
    reaction = await call.send(subject)
    if reaction.errors and -32020 not in reaction.codes:
        subject.raise_absent(f"result of {call.method} {call.name}")
    subject.expect(Result().matches(reaction), "a result", reaction)


# --- annotations ----------------------------------------------------------------------


@FAMILY.must(
    "HDR-07.a",
    "each x-mcp-header is valid",
    source=f"{_PAGE}#schema-extension",
    rules=("HDR-06", "HDR-08", "HDR-09", "HDR-10"),
    revisions=MODERN,
    needs=("tool:",),
    sends="nothing; checks the list of tools",
    expects="each x-mcp-header is a unique token on a string, integer or boolean "
    "property that is reached through properties only",
    why="clients over HTTP omit the tool",
)
async def valid_annotations(subject: Subject) -> None:
    has_any = False
    for tool in subject.facts.tools:
        try:
            has_any |= bool(find_param_headers(tool.get("inputSchema")))
        except MCPError as error:
            subject.raise_broken("a valid x-mcp-header", f"{tool.get('name')}: {error}")
    if not has_any:
        subject.raise_absent("tool with x-mcp-header")
