"""Fuzzing: arguments with one deviation from their schema; secrets in errors.

The last request before a finding is a minimal example: its arguments are valid except
for one member. A case sends at most `MAX_CALLS` requests and stops after `TIME_LIMIT_S`
seconds; the seed of the run selects the requests.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.check.case import EndedWithoutAnswer, Family, NoAnswer, Start
from mcpwire.check.cases._items import quick_tools
from mcpwire.check.cases.prompts import prompt_arguments, required_arguments
from mcpwire.check.roles import arguments_for
from mcpwire.check.subject import Answer
from mcpwire.protocol.json_schema import properties_of, required_of
from mcpwire.transports.targets import Stdio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("fuzz")

MAX_CALLS: Final = 40
SECRET_NAME: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|key|credential|session[_-]?id|"
    r"(?:^|[_-])(?:auth|authorization|cookie|jwt|pass|pat|pwd)(?:$|[_-])"
)
"""Names of environment variables and header fields with secret values."""

TIME_LIMIT_S: Final = 2.5
MAX_FAILURES: Final = 2  # with plain values; after them a case tries no further one
REQUEST_ERRORS: Final = frozenset({-32600, -32602, -32002, -32020})
"""Error codes that report a fault of the request."""

Arguments: TypeAlias = dict[str, Any]

_VALUES_BY_TYPE: Final[dict[str, Any]] = {
    "null": None,
    "boolean": True,
    "integer": 7,
    "number": 1.5,
    "string": "mcpwire",
    "array": ["mcpwire"],
    "object": {"mcpwire": 1},
}
ODD_TEXTS: Final = (
    "",
    " ",
    "\0",
    "a\r\nb: c\n",
    "'; DROP TABLE users; --",
    "$(id) `id` && id",
    "%s%n%x {0} {{7*7}} ${7*7}",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "\u202e\u200b\ufeff\u0000\u001f",
    "\U0001f9d1\u200d\U0001f4bb" * 50,
    "e\u0301" * 100,
    "null",
    "-1e400",
    "x" * 20_000,
)


def _nested_list(levels: int = 100) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


EXTREME_VALUES: Final = {
    "number": (1e308, -0.0, 2**53 + 1, -(2**63)),
    "string": ("\u0000" * 100,),
    "array": (_nested_list(),),
}


def _argument_schemas(tool: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and schemas of the arguments of a tool."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return []
    properties = properties_of(schema).items()
    return [(name, each) for name, each in properties if isinstance(each, dict)]


def _types(schema: Mapping[str, Any]) -> set[str]:
    type_ = schema.get("type")
    types = {type_} if isinstance(type_, str) else set(type_ or ())
    return types | ({"integer"} if "number" in types else set())


Deviation: TypeAlias = "Callable[[Mapping[str, Any], Arguments], Iterator[Arguments]]"


def _select_calls(
    subject: Subject, deviate: Deviation
) -> list[tuple[str, Arguments, Arguments]]:
    """Return the calls of a case: tool name, valid arguments, arguments to send.

    More than `MAX_CALLS` calls are reduced to a random sample.
    """
    calls = [
        (str(tool["name"]), valid, arguments)
        for tool, valid in quick_tools(subject)
        for arguments in deviate(tool, valid)
    ]
    if len(calls) > MAX_CALLS:
        calls = subject.random.sample(calls, MAX_CALLS)
    return calls or subject.raise_absent("tool with such arguments")


RESULT_OR_ERROR: Final = "a result, or an error such as -32602"
CONTENTS_OR_ERROR: Final = "contents, or an error such as -32602 or -32002"


def _check_answer(
    subject: Subject, answer: Answer, expected: str = RESULT_OR_ERROR
) -> None:
    """Check that an answer is a result or an error in `REQUEST_ERRORS`."""
    subject.expect(_is_acceptable(answer), expected, answer)


async def _call(subject: Subject, params: dict[str, Any]) -> Answer:
    """Call a tool; accept an error without an id as the answer.

    The error for a request that the server cannot read has no id.
    """
    id, start = subject.next_id(), len(subject.received)

    def refusals() -> list[Message]:
        answers = (each for each in subject.received[start:] if each.is_answer)
        return [
            m for m in answers if m.value.get("error") and m.value.get("id") is None
        ]

    response = await subject.send(subject.message("tools/call", params, id=id))
    if response is None:
        timeout = subject.bound_s
        if await subject.wait_until(
            lambda: subject.answers_to(id) or refusals(), timeout
        ):
            return Answer((subject.answers_to(id) or refusals())[0])
        raise NoAnswer(
            f"an answer with the id {id!r} within {timeout:g} s", "no answer"
        )
    try:
        return await subject.wait_answer(id, response)
    except EndedWithoutAnswer:
        if errors := refusals():
            return Answer(errors[0], response)
        raise


async def _is_slow(subject: Subject, name: str, valid: Arguments) -> bool:
    """Return whether a call with valid arguments exceeds the time limit."""
    last_sent = subject.last_sent
    try:
        await _call(subject, {"name": name, "arguments": valid})
    except NoAnswer:
        return True
    subject.last_sent = last_sent
    return False


def _fuzz_case(
    id: str, title: str, sends: str, *, is_wrong: bool = True, is_quick: bool = True
) -> Callable[[Deviation], Deviation]:
    """Return a decorator that adds a case for the arguments that a function yields.

    Invalid arguments (`is_wrong`) must be answered within the time limit. A tool that
    exceeds the limit with valid arguments is skipped.
    """

    def add(deviate: Deviation) -> Deviation:
        async def run(subject: Subject) -> None:
            began, is_answered = monotonic(), False
            for name, valid, arguments in _select_calls(subject, deviate):
                if name in subject.facts.slow_items:
                    continue
                try:
                    answer = await _call(
                        subject, {"name": name, "arguments": arguments}
                    )
                except NoAnswer:
                    if is_wrong and not await _is_slow(subject, name, valid):
                        raise
                    subject.facts.slow_items.add(name)
                else:
                    is_answered = True
                    _check_answer(subject, answer)
                if monotonic() - began > TIME_LIMIT_S:
                    break
            if not is_answered:
                subject.raise_absent("tool that answers in time")

        expected = RESULT_OR_ERROR
        FAMILY.robust(
            id,
            f"{title} cause no internal error and no crash",
            rules=("TOOL-18",),
            needs=("call:",),
            sends=sends,
            expects=f"{expected}, within the time limit" if is_wrong else expected,
            why="a model's mistakes break the server, or look like server failures",
            is_quick=is_quick,
        )(run)
        return deviate

    return add


@_fuzz_case(
    "F09.i",
    "arguments of the wrong type",
    "each argument of each tool as a value of each other JSON type",
)
def _wrong_types(tool: Mapping[str, Any], valid: Arguments) -> Iterator[Arguments]:
    for name, schema in _argument_schemas(tool):
        types = _types(schema)
        for type_, value in _VALUES_BY_TYPE.items():
            if types and type_ not in types:
                yield {**valid, name: value}


@_fuzz_case(
    "F09.j",
    "missing arguments",
    "calls to each tool without one of its required arguments",
)
def _missing_arguments(
    tool: Mapping[str, Any], valid: Arguments
) -> Iterator[Arguments]:
    for name in required_of(tool.get("inputSchema") or {}):
        yield {key: value for key, value in valid.items() if key != name}


@_fuzz_case(
    "F09.k",
    "arguments out of bounds",
    "each argument just outside its minimum, maximum, length or enum",
)
def _out_of_bounds(tool: Mapping[str, Any], valid: Arguments) -> Iterator[Arguments]:
    """Yield arguments just outside the bounds in their schemas."""
    for name, schema in _argument_schemas(tool):
        types = _types(schema)
        for keyword, step in (("minimum", -1), ("maximum", 1)):
            if types & {"integer", "number"} and _is_number(schema.get(keyword)):
                yield {**valid, name: schema[keyword] + step}
        if "string" in types and _is_number(schema.get("maxLength")):
            yield {**valid, name: "x" * min(schema["maxLength"] + 1, 100_000)}
        min_length: Any = schema.get("minLength")
        if "string" in types and _is_number(min_length) and min_length > 0:
            yield {**valid, name: "x" * min(min_length - 1, 100_000)}
        if isinstance(schema.get("enum"), list) and "string" in types:
            yield {**valid, name: "mcpwire-none-of-these"}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@_fuzz_case(
    "F09.l",
    "odd or long strings",
    "each string argument as an empty, long or right-to-left string, or one with NUL, "
    "quotes or paths",
    is_wrong=False,
)
def _odd_texts(tool: Mapping[str, Any], valid: Arguments) -> Iterator[Arguments]:
    for name, schema in _argument_schemas(tool):
        if "string" in _types(schema):
            for text in ODD_TEXTS:
                yield {**valid, name: text}


@_fuzz_case(
    "F09.m",
    "unknown arguments",
    "an additional argument, with names such as __proto__",
    is_wrong=False,
    is_quick=False,
)
def _unknown_arguments(_: Mapping[str, Any], valid: Arguments) -> Iterator[Arguments]:
    for name in ("mcpwire_extra", "__proto__", "constructor", "", "self", "a.b"):
        yield {**valid, name: {"mcpwire": 1}}


@_fuzz_case(
    "F09.n",
    "deeply nested or extreme values",
    "100 nested arrays, 100 NUL characters or 1e308 for each argument of another type",
    is_quick=False,
)
def _extreme_values(tool: Mapping[str, Any], valid: Arguments) -> Iterator[Arguments]:
    """Yield values of a wrong type only: a valid number may set an amount of work."""
    for name, schema in _argument_schemas(tool):
        types = _types(schema)
        if types and not types & {"number", "integer"}:
            for type_, values in EXTREME_VALUES.items():
                if type_ not in types:
                    yield from ({**valid, name: value} for value in values)


@_fuzz_case(
    "F09.o",
    "optional arguments",
    "each optional argument, with a value that its schema allows",
    is_wrong=False,
    is_quick=False,
)
def _optional_arguments(
    tool: Mapping[str, Any], valid: Arguments
) -> Iterator[Arguments]:
    """Yield valid arguments with one more optional argument each."""
    for name, schema in _argument_schemas(tool):
        if name not in valid:
            subschema = {"properties": {name: schema}, "required": [name]}
            extra = arguments_for({"inputSchema": subschema})
            if extra:
                yield {**valid, **extra}


@FAMILY.must(
    "TOOL-18.c",
    "a call with an out-of-bounds argument is refused",
    source="server/tools#security-considerations",
    rules=("TOOL-16",),
    needs=("call:",),
    sends="arguments just outside their minimum, maximum, length or enum",
    expects="an error, or a result with isError; lenient: another result, or no answer "
    "in time",
    why="the tool runs with arguments that its schema excludes",
)
async def out_of_bounds(subject: Subject) -> None:
    refusal = "an error, or a result with isError"
    for name, _, arguments in _select_calls(subject, _out_of_bounds)[:8]:
        params = {"name": name, "arguments": arguments}
        try:
            answer = await subject.request("tools/call", params)
        except EndedWithoutAnswer:
            raise
        except NoAnswer:
            subject.raise_lenient(refusal, "no answer within the time limit")
        if not answer.has_failed:
            subject.raise_lenient(refusal, answer)


# --- prompts and resources ------------------------------------------------------------


async def _get_prompt(
    subject: Subject, name: str, arguments: Arguments
) -> Answer | None:
    """Get a prompt; return ``None`` if it exceeds the time limit, now or earlier."""
    key = f"prompt {name}"
    if key in subject.facts.slow_items:
        return None
    params = {"name": name, "arguments": arguments}
    try:
        return await subject.request("prompts/get", params)
    except NoAnswer:
        subject.facts.slow_items.add(key)
        return None


def _is_acceptable(answer: Answer | None) -> bool:
    """Return whether an answer is a result or an error in `REQUEST_ERRORS`.

    A failure with plain arguments may be an unreachable backend: skip the others.
    """
    return answer is not None and (
        answer.error is None or answer.code in REQUEST_ERRORS
    )


@FAMILY.robust(
    "F09.p",
    "odd arguments of prompts cause no internal error and no crash",
    rules=("PROMPT-05", "PROMPT-07"),
    needs=("prompt:",),
    sends="each argument of a prompt as a number, an array and an odd string",
    expects=RESULT_OR_ERROR,
    why="mistakes of a client break the server",
)
async def odd_prompt_arguments(subject: Subject) -> None:
    sent, failures, spent = 0, 0, 0.0
    for prompt in subject.facts.prompts:
        name, arguments = str(prompt.get("name")), prompt_arguments(prompt)
        required = required_arguments(prompt)
        if not arguments or failures == MAX_FAILURES:
            continue
        if not _is_acceptable(await _get_prompt(subject, name, required)):
            failures += 1
            continue
        began = monotonic()
        for argument in arguments:
            for value in (7, ["a"], *subject.random.sample(ODD_TEXTS, 3)):
                if sent == MAX_CALLS or spent + monotonic() - began > TIME_LIMIT_S:
                    return
                changed = {**required, argument["name"]: value}
                if (answer := await _get_prompt(subject, name, changed)) is not None:
                    sent += 1
                    _check_answer(subject, answer)
        spent += monotonic() - began
    if not sent:
        subject.raise_absent("prompt that accepts any text")


_VARIABLE_VALUES: Final = (
    "",
    "..",
    "%2e%2e%2fa",
    "%00",
    "a%25",
    "%C3%BC",
    "%7Bx%7D",
    "a" * 2_000,
)


@FAMILY.robust(
    "F13.l",
    "odd values of template variables cause no internal error and no crash",
    rules=("RES-08",),
    needs=("template:",),
    sends="reads of each template with empty, encoded, long and non-ASCII values",
    expects=CONTENTS_OR_ERROR,
    why="mistakes of a client break the server",
)
async def odd_template_variables(subject: Subject) -> None:
    sent, failures, spent = 0, 0, 0.0
    for template in subject.facts.templates:
        before, brace, rest = str(template.get("uriTemplate")).partition("{")
        rest = re.sub(r"^[^}]*\}|\{[^}]*\}", "", rest)
        if not brace or failures == MAX_FAILURES:
            continue
        if not _is_acceptable(await _read_resource(subject, f"{before}mcpwire{rest}")):
            failures += 1
            continue
        began = monotonic()
        for value in _VARIABLE_VALUES:
            if sent == MAX_CALLS or spent + monotonic() - began > TIME_LIMIT_S:
                return
            answer = await _read_resource(subject, before + value + rest)
            if answer is None:
                return  # a slow read is no fault; the runner checks the server after it
            sent += 1
            _check_answer(subject, answer, CONTENTS_OR_ERROR)
        spent += monotonic() - began
    if not sent:
        subject.raise_absent("template with variables that can be read in time")


async def _read_resource(subject: Subject, uri: str) -> Answer | None:
    """Read a resource; return ``None`` if that exceeds the time limit."""
    try:
        return await subject.request("resources/read", {"uri": uri})
    except NoAnswer:
        return None


# --- secrets and internals in errors --------------------------------------------------

STACK_TRACE: Final = re.compile(
    r"Traceback \(most recent call last\)"
    r"|File \\*\"[^\"]+\", line \d+, in "
    r"|goroutine \d+ \[running\]"
    r"|thread '.{0,200}' panicked at"
    r"|\n[ \t]+at (?:.{1,300}\(.{1,300}:\d+:\d+\)"
    r"|[\w.<>`]+\(.{0,300}\) in .{1,300}:line \d+|[\w.$]+\(\w+\.java:\d+\))"
)
"""Repetitions of any character are limited: it takes linear time."""


def _error_texts(subject: Subject) -> Iterator[str]:
    """Yield the texts of all errors and failed results."""
    for message in subject.received:
        if not message.is_answer:
            continue
        result = message.value.get("result")
        is_failed = isinstance(result, dict) and result.get("isError") is True
        if is_failed or "error" in message.value:
            value = result if is_failed else message.value["error"]
            yield _flatten_text(value)


def _flatten_text(value: Any) -> str:
    """Return the scalars in a value as text, one per line."""
    if isinstance(value, dict):
        return "\n".join(_flatten_text(each) for each in value.values())
    if isinstance(value, list):
        return "\n".join(_flatten_text(each) for each in value)
    return str(value)


@FAMILY.robust(
    "D19.a",
    "errors show no stack trace",
    start=Start.LAST,
    sends="nothing; checks all errors of the connection",
    expects="no stack trace of Python, JavaScript, Go, Rust, C# or Java",
    why="clients see paths and internals of the server",
)
async def no_stack_traces(subject: Subject) -> None:
    for text in _error_texts(subject):
        subject.expect(not STACK_TRACE.search(text), "no stack trace", text)
    subject.need_expectation("error")


def _secrets(subject: Subject) -> list[str]:
    """Return the secrets given as environment variables, tokens or header fields."""
    env = subject.target.env if isinstance(subject.target, Stdio) else None
    secrets = [value for name, value in (env or {}).items() if SECRET_NAME.search(name)]
    secrets += subject.facts.tokens.values()
    if subject.http is not None:
        for name, value in subject.http.headers.items():
            if name.lower() in {"authorization", "x-api-key", "cookie"}:
                secrets.append(value.rpartition(" ")[2])
    return [each for each in secrets if len(each) >= 8]


@FAMILY.robust(
    "D19.b",
    "errors show no secret that the server was given",
    start=Start.LAST,
    sends="nothing; checks all errors of the connection",
    expects="no token or password from the environment or the header fields",
    why="secrets get into logs and into the context of models",
)
async def no_secrets(subject: Subject) -> None:
    secrets = _secrets(subject)
    if not secrets:
        subject.raise_absent("secret in the environment or the header fields")
    for text in _error_texts(subject):
        shows = any(secret in text for secret in secrets)
        subject.expect(not shows, "no secret", "an error with a secret")
