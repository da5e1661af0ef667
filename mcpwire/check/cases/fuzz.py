"""Fuzzing: arguments with one deviation from their schema; secrets in errors.

The last request before a finding is a minimal example: its arguments are valid except
for one member. A case sends at most `CALLS` requests and stops after `ROOM_S` seconds;
the seed of the run selects the requests.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpwire.check.case import Family, NoAnswer, NotAnswered, Start
from mcpwire.check.cases._items import fit_tools
from mcpwire.check.cases.prompts import fit_arguments, prompt_arguments
from mcpwire.check.roles import arguments_for
from mcpwire.check.subject import Answer
from mcpwire.protocol.json_schema import properties_of, required_of
from mcpwire.transports.targets import Stdio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcpwire.check.subject import Message, Subject

FAMILY: Final = Family("fuzz")

CALLS: Final = 40
SECRET_NAME: Final = re.compile(
    r"(?i)token|secret|passw|passphrase|key|credential|"
    r"(?:^|[_-])(?:auth|authorization|cookie|jwt|pass|pat|pwd)(?:$|[_-])"
)
"""Names of environment variables and header fields with secret values."""

ROOM_S: Final = 2.5
UNFIT: Final = 2  # failures with plain values after which a case tries no further one
FINE: Final = frozenset({-32600, -32602, -32002, -32020})
"""Error codes that report a fault of the request."""

Arguments: TypeAlias = dict[str, Any]

_OF_TYPE: Final[dict[str, Any]] = {
    "null": None,
    "boolean": True,
    "integer": 7,
    "number": 1.5,
    "string": "mcpwire",
    "array": ["mcpwire"],
    "object": {"mcpwire": 1},
}
TEXTS: Final = (
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


def _deep(levels: int = 100) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


ODD: Final = {
    "number": (1e308, -0.0, 2**53 + 1, -(2**63)),
    "string": ("\u0000" * 100,),
    "array": (_deep(),),
}


def _schemas(tool: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and schemas of the arguments of a tool."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return []
    found = properties_of(schema).items()
    return [(name, each) for name, each in found if isinstance(each, dict)]


def _types(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    found = {kind} if isinstance(kind, str) else set(kind or ())
    return found | ({"integer"} if "number" in found else set())


Deviate: TypeAlias = "Callable[[Mapping[str, Any], Arguments], Iterator[Arguments]]"


def _chosen(
    subject: Subject, deviate: Deviate
) -> list[tuple[str, Arguments, Arguments]]:
    """Return the calls of a case: tool name, valid arguments, arguments to send.

    More than `CALLS` calls are reduced to a random sample.
    """
    found = [
        (str(tool["name"]), fit, arguments)
        for tool, fit in fit_tools(subject)
        for arguments in deviate(tool, fit)
    ]
    if len(found) > CALLS:
        found = subject.random.sample(found, CALLS)
    return found or subject.absent("tool with such arguments")


def _check(
    subject: Subject, answer: Answer, expected: str = "a result or an error -32602"
) -> None:
    """Check that an answer is a result or an error with a code in `FINE`."""
    subject.expect(_is_fine(answer), expected, answer)


async def _call(subject: Subject, params: dict[str, Any]) -> Answer:
    """Call a tool; accept an error without an id as the answer.

    The error for a request that the server cannot read has no id.
    """
    id, before = subject.next_id(), len(subject.received)

    def refusals() -> list[Message]:
        came = (each for each in subject.received[before:] if each.is_answer)
        return [m for m in came if m.value.get("error") and m.value.get("id") is None]

    response = await subject.send(subject.message("tools/call", params, id=id))
    if response is None:
        bound = subject.bound_s
        if await subject.until(lambda: subject.answers_to(id) or refusals(), bound):
            return Answer((subject.answers_to(id) or refusals())[0])
        raise NoAnswer(f"an answer with the id {id!r} within {bound:g} s", "no answer")
    try:
        return await subject.answer(id, response)
    except NotAnswered:
        if refused := refusals():
            return Answer(refused[0], response)
        raise


async def _is_slow(subject: Subject, name: str, fit: Arguments) -> bool:
    """Return whether a call with valid arguments exceeds the time limit."""
    shown = subject.last_sent
    try:
        await _call(subject, {"name": name, "arguments": fit})
    except NoAnswer:
        return True
    subject.last_sent = shown
    return False


def _fuzzed(
    id: str, title: str, sends: str, *, is_wrong: bool = True, is_quick: bool = True
) -> Callable[[Deviate], Deviate]:
    """Return a decorator that adds a case for the arguments that a function yields.

    Invalid arguments (`is_wrong`) must be answered within the time limit. A tool that
    exceeds the limit with valid arguments is skipped.
    """

    def add(deviate: Deviate) -> Deviate:
        async def run(subject: Subject) -> None:
            began, is_answered = monotonic(), False
            for name, fit, arguments in _chosen(subject, deviate):
                if name in subject.facts.unfit:
                    continue
                try:
                    answer = await _call(
                        subject, {"name": name, "arguments": arguments}
                    )
                except NoAnswer:
                    if is_wrong and not await _is_slow(subject, name, fit):
                        raise
                    subject.facts.unfit.add(name)
                else:
                    is_answered = True
                    _check(subject, answer)
                if monotonic() - began > ROOM_S:
                    break
            if not is_answered:
                subject.absent("tool that answers in time")

        fine = "a result, or an error such as -32602"
        FAMILY.robust(
            id,
            f"{title} cause no internal error and no crash",
            rules=("TOOL-18",),
            needs=("call:",),
            sends=sends,
            expects=f"{fine}, within the time limit" if is_wrong else fine,
            why="mistakes of a model break the server, or look like server failures",
            is_quick=is_quick,
        )(run)
        return deviate

    return add


@_fuzzed(
    "F09.i",
    "arguments of the wrong type",
    "each argument of each tool as a value of each other JSON type",
)
def _wrong_types(tool: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    for name, schema in _schemas(tool):
        types = _types(schema)
        for kind, value in _OF_TYPE.items():
            if types and kind not in types:
                yield {**fit, name: value}


@_fuzzed(
    "F09.j",
    "missing arguments",
    "calls of each tool without one of its required arguments",
)
def _missing(tool: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    for name in required_of(tool.get("inputSchema") or {}):
        yield {key: value for key, value in fit.items() if key != name}


@_fuzzed(
    "F09.k",
    "arguments out of bounds",
    "each argument just outside its minimum, maximum, length or enum",
)
def _beyond(tool: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    """Yield arguments just outside the bounds in their schemas."""
    for name, schema in _schemas(tool):
        types = _types(schema)
        for keyword, step in (("minimum", -1), ("maximum", 1)):
            if types & {"integer", "number"} and _is_number(schema.get(keyword)):
                yield {**fit, name: schema[keyword] + step}
        if "string" in types and _is_number(schema.get("maxLength")):
            yield {**fit, name: "x" * min(schema["maxLength"] + 1, 100_000)}
        least: Any = schema.get("minLength")
        if "string" in types and _is_number(least) and least > 0:
            yield {**fit, name: "x" * min(least - 1, 100_000)}
        if isinstance(schema.get("enum"), list) and "string" in types:
            yield {**fit, name: "mcpwire-none-of-these"}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@_fuzzed(
    "F09.l",
    "odd or long strings",
    "each string argument as empty, long, right-to-left, with NUL, quotes or paths",
    is_wrong=False,
)
def _texts(tool: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    for name, schema in _schemas(tool):
        if "string" in _types(schema):
            for text in TEXTS:
                yield {**fit, name: text}


@_fuzzed(
    "F09.m",
    "unknown arguments",
    "an additional argument, with names such as __proto__",
    is_wrong=False,
    is_quick=False,
)
def _extra(_: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    for name in ("mcpwire_extra", "__proto__", "constructor", "", "self", "a.b"):
        yield {**fit, name: {"mcpwire": 1}}


@_fuzzed(
    "F09.n",
    "deep or extreme values",
    "each argument as 100 nested arrays, or 1e308, if its type is another",
    is_quick=False,
)
def _odd(tool: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    """Yield values of a wrong type only: a valid number may set an amount of work."""
    for name, schema in _schemas(tool):
        types = _types(schema)
        if types and not types & {"number", "integer"}:
            for kind, values in ODD.items():
                if kind not in types:
                    yield from ({**fit, name: value} for value in values)


@_fuzzed(
    "F09.o",
    "optional arguments",
    "each optional argument, with a value of its schema",
    is_wrong=False,
    is_quick=False,
)
def _more(tool: Mapping[str, Any], fit: Arguments) -> Iterator[Arguments]:
    """Yield valid arguments with one more optional argument each."""
    for name, schema in _schemas(tool):
        if name not in fit:
            only = {"properties": {name: schema}, "required": [name]}
            found = arguments_for({"inputSchema": only})
            if found:
                yield {**fit, **found}


@FAMILY.must(
    "TOOL-18.c",
    "a call with an argument out of bounds is refused",
    source="server/tools#security-considerations",
    rules=("TOOL-16",),
    needs=("call:",),
    sends="arguments just outside their minimum, maximum, length or enum",
    expects="an error, or a result with isError; lenient: another result",
    why="the tool runs with arguments that its schema excludes",
)
async def out_of_bounds(subject: Subject) -> None:
    refusal = "an error, or a result with isError"
    for name, _, arguments in _chosen(subject, _beyond)[:8]:
        params = {"name": name, "arguments": arguments}
        try:
            answer = await subject.request("tools/call", params)
        except NotAnswered:
            raise
        except NoAnswer:
            subject.lenient(refusal, "no answer within the time limit")
        if not answer.has_failed:
            subject.lenient(refusal, answer)


# --- prompts and resources ------------------------------------------------------------


async def _get(subject: Subject, name: str, arguments: Arguments) -> Answer | None:
    """Get a prompt; return ``None`` if it exceeds the time limit, now or earlier."""
    key = f"prompt {name}"
    if key in subject.facts.unfit:
        return None
    params = {"name": name, "arguments": arguments}
    try:
        return await subject.request("prompts/get", params)
    except NoAnswer:
        subject.facts.unfit.add(key)
        return None


def _is_fine(answer: Answer | None) -> bool:
    """Return whether an answer is a result or an error with a code in `FINE`.

    A failure with plain arguments may be an unreachable backend: skip the others.
    """
    return answer is not None and (answer.error is None or answer.code in FINE)


@FAMILY.robust(
    "F09.p",
    "odd arguments of prompts cause no internal error and no crash",
    rules=("PROMPT-05", "PROMPT-07"),
    needs=("prompt:",),
    sends="each argument of a prompt as a number, an array and an odd string",
    expects="a result, or an error such as -32602",
    why="mistakes of a client break the server",
)
async def prompts(subject: Subject) -> None:
    sent, unfit, spent = 0, 0, 0.0
    for prompt in subject.facts.prompts:
        name, arguments = str(prompt.get("name")), prompt_arguments(prompt)
        fit = fit_arguments(prompt)
        if not arguments or unfit == UNFIT:
            continue
        if not _is_fine(await _get(subject, name, fit)):
            unfit += 1
            continue
        began = monotonic()
        for argument in arguments:
            for value in (7, ["a"], *subject.random.sample(TEXTS, 3)):
                if sent == CALLS or spent + monotonic() - began > ROOM_S:
                    return
                given = {**fit, argument["name"]: value}
                if (answer := await _get(subject, name, given)) is not None:
                    sent += 1
                    _check(subject, answer)
        spent += monotonic() - began
    if not sent:
        subject.absent("prompt that accepts any text")


_VALUES: Final = (
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
    "odd variables of templates cause no internal error and no crash",
    rules=("RES-08",),
    needs=("template:",),
    sends="reads of each template with empty, encoded, long and non-ASCII values",
    expects="contents, or an error such as -32602 or -32002",
    why="mistakes of a client break the server",
)
async def templates(subject: Subject) -> None:
    sent, unfit, spent = 0, 0, 0.0
    for template in subject.facts.templates:
        before, brace, rest = str(template.get("uriTemplate")).partition("{")
        rest = re.sub(r"^[^}]*\}|\{[^}]*\}", "", rest)
        if not brace or unfit == UNFIT:
            continue
        if not _is_fine(await _read(subject, f"{before}mcpwire{rest}")):
            unfit += 1
            continue
        began = monotonic()
        for value in _VALUES:
            if sent == CALLS or spent + monotonic() - began > ROOM_S:
                return
            answer = await _read(subject, before + value + rest)
            if answer is None:
                return  # a slow read is no fault; the runner checks the server after it
            sent += 1
            _check(subject, answer, "contents, or an error -32602 or -32002")
        spent += monotonic() - began
    if not sent:
        subject.absent("template with variables that can be read in time")


async def _read(subject: Subject, uri: str) -> Answer | None:
    """Read a resource; return ``None`` if that exceeds the time limit."""
    try:
        return await subject.request("resources/read", {"uri": uri})
    except NoAnswer:
        return None


# --- secrets and internals in errors --------------------------------------------------

TRACES: Final = re.compile(
    r"Traceback \(most recent call last\)"
    r"|File \\*\"[^\"]+\", line \d+, in "
    r"|\n\s+at .+\(.+:\d+:\d+\)"
    r"|goroutine \d+ \[running\]"
    r"|thread '.*' panicked at"
    r"|\n\s+at [\w.<>`]+\(.*\) in .+:line \d+"
    r"|\n\s+at [\w.$]+\([\w]+\.java:\d+\)"
)


def _failures(subject: Subject) -> Iterator[str]:
    """Yield the texts of all errors and failed results."""
    for message in subject.received:
        if not message.is_answer:
            continue
        result = message.value.get("result")
        is_failed = isinstance(result, dict) and result.get("isError") is True
        if is_failed or "error" in message.value:
            found = result if is_failed else message.value["error"]
            yield _text(found)


def _text(value: Any) -> str:
    """Return the scalars in a value as text, one per line."""
    if isinstance(value, dict):
        return "\n".join(_text(each) for each in value.values())
    if isinstance(value, list):
        return "\n".join(_text(each) for each in value)
    return str(value)


@FAMILY.robust(
    "D19.a",
    "errors show no stack trace",
    start=Start.LAST,
    sends="nothing; checks all errors of the connection",
    expects="no stack trace of Python, JavaScript, Go, Rust, C# or Java",
    why="clients see paths and internals of the server",
)
async def no_traces(subject: Subject) -> None:
    for text in _failures(subject):
        subject.expect(not TRACES.search(text), "no stack trace", text)
    subject.need_judged("error")


def _secrets(subject: Subject) -> list[str]:
    """Return the secrets given as environment variables, tokens or header fields."""
    env = subject.target.env if isinstance(subject.target, Stdio) else None
    found = [value for name, value in (env or {}).items() if SECRET_NAME.search(name)]
    found += subject.facts.tokens.values()
    if subject.http is not None:
        for name, value in subject.http.headers.items():
            if name.lower() in {"authorization", "x-api-key", "cookie"}:
                found.append(value.rpartition(" ")[2])
    return [each for each in found if len(each) >= 8]


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
        subject.absent("secret in the environment or the header fields")
    for text in _failures(subject):
        shows = any(secret in text for secret in secrets)
        subject.expect(not shows, "no secret", "an error with a secret")
