"""Answers the requests of a server: by the command line, the person, or not at all.

What was given on the command line comes first; then the person, if there is a terminal
and the result is no JSON document; then the answer is no, and a line on stderr says to
what, and how it can be answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, get_args

from mcpwire.cli.arguments import read_object
from mcpwire.cli.escape import one_line, plain, quoted, shorten
from mcpwire.cli.failures import UsageError, close_matches, did_you_mean
from mcpwire.cli.schemas import literal
from mcpwire.errors import InternalError, LocalProtocolError, RPCError
from mcpwire.protocol.client_features import USER_REJECTED
from mcpwire.protocol.elicitation import (
    check_value,
    choices_of,
    fill_form,
    form_defaults,
    format_problem,
)
from mcpwire.types import CreateMessageResult, TextContent, encode
from mcpwire.types.elicitation import (
    BooleanSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    UnknownSchema,
    UntitledMultiSelectEnumSchema,
)
from mcpwire.types.requests import LoggingLevel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Signals
    from mcpwire.client import Client
    from mcpwire.errors import UrlElicitationRequired
    from mcpwire.protocol.elicitation import Value
    from mcpwire.types import (
        CreateMessageRequestParams,
        ElicitAction,
        ElicitRequestFormParams,
        ElicitRequestURLParams,
        PrimitiveSchemaDefinition,
        RequestedSchema,
    )
    from mcpwire.versions import Revision


__all__ = [
    "Answer",
    "Asker",
    "Field",
    "Host",
    "Left",
    "Person",
    "ask_program",
    "asked_text",
    "canned",
    "fields_of",
    "fill_in",
    "parse_answers",
    "read_options",
    "rejection",
    "reviewed",
]

T = TypeVar("T")


MESSAGE_SHOWN: Final = 200
NAME_SHOWN: Final = 80

FORM: Final = "input"
PAGE: Final = "a visit to a page"
MODEL: Final = "an answer of a model"
METHODS: Final = {
    FORM: "elicitation/create",
    PAGE: "elicitation/create",
    MODEL: "sampling/createMessage",
}
"""What is asked for, in our words and in the protocol's."""


class Asker(NamedTuple):
    """The server that asks."""

    name: str
    """What it calls itself; harmless."""

    command: str
    """What was started, which it has no influence on."""

    revision: Revision

    def lines(self, what: str, message: str, person: Person) -> list[str]:
        """Print the server and its request."""
        heading = f"{person.strong(self.name)} {what}"
        lines = ["", heading, *quoted(message, person.width)]
        return [*lines, f"  asked by the server {self.command}"]


class Host:
    """Answers what the server of one command asks.

    Attributes:
        failure: What was wrong with an answer from the command line.
    """

    def __init__(self, options: Options, output: Output, signals: Signals) -> None:
        from mcpwire.cli.interactive import Person

        self._options = options
        self._output = output
        self._answers: list[Answer] = list(options.answers)
        self._signals = signals
        self._person = Person(output, signals)
        self._turn = asyncio.Lock()
        self._client: Client | None = None
        self._target = ""
        self.failure: UsageError | None = None

    def handlers(self) -> dict[str, Any]:
        """Return what a `Client` takes to be asked."""
        from mcpwire.protocol.client_features import Elicitation

        return {
            "elicitation": Elicitation(form=self.fill_in, url=self.visit),
            "sampling": self.sample,
        }

    def belongs_to(self, client: Client, target: str) -> None:
        """Print the name of the asking server."""
        self._client = client
        self._target = one_line(target)

    def finish(self) -> None:
        """Tell of answers that nobody asked for; there may be a mistake in them.

        Raises:
            UsageError: An answer from the command line did not fit.
        """
        if self.failure is not None:
            raise self.failure
        if self._answers:
            left = len(self._answers)
            plural = "s were" if left > 1 else " was"
            self._output.note(f"{left} --answer{plural} not asked for")

    def _asker(self) -> Asker:
        from mcpwire.versions import find_revision

        assert self._client is not None
        revision = find_revision(self._client.protocol_version or "")
        assert revision is not None
        info = self._client.server_info
        name = plain(shorten(info.name, NAME_SHOWN)) if info else "The server"
        return Asker(name, shorten(self._target, MESSAGE_SHOWN), revision)

    @property
    def _is_attended(self) -> bool:
        return self._person.is_there and not self._output.is_json

    def _tell(self, what: str, answer: str, message: str, how: str) -> None:
        """Leave a trace of what was asked, and answered without a person."""
        said = {"method": METHODS[what], "answer": answer, "how": how}
        said["message"] = message
        shown = plain(shorten(message, MESSAGE_SHOWN))
        text = f'mcpwire: the server asked for {what}; {how}; it said "{shown}"'
        self._output.tell("asked", said, text)

    # Elicitation...

    async def fill_in(
        self, params: ElicitRequestFormParams
    ) -> Mapping[str, Any] | ElicitAction:
        """Answer a form."""
        async with self._turn:
            if self._answers:
                return self._given(params, self._answers.pop(0))
            if self._is_attended:
                from mcpwire.cli.interactive import fill_in

                return await self._asked(fill_in(params, self._asker(), self._person))
            names = [
                f'"{plain(name)}": ...' for name in params.requested_schema.properties
            ]
            wanted = shorten(", ".join(names), MESSAGE_SHOWN)
            hint = f"--answer '{{{wanted}}}' answers"
            return self._declined(FORM, params.message, hint)

    def _given(self, params: ElicitRequestFormParams, answer: Answer) -> Answer:
        from mcpwire.protocol.elicitation import fill_form

        if isinstance(answer, dict):
            try:
                fill_form(params.requested_schema, answer, self._asker().revision)
            except LocalProtocolError as error:
                self.failure = UsageError(
                    f"--answer does not fit what the server asks: {error}"
                )
                answer = "cancel"
        said = answer if isinstance(answer, str) else "accept"
        self._tell(FORM, said, params.message, f"answered by --answer ({said})")
        return answer

    async def visit(self, params: ElicitRequestURLParams) -> ElicitAction:
        """Answer whether a page may be visited."""
        async with self._turn:
            if not self._is_attended:
                hint = f"a terminal is needed to agree to {one_line(params.url)}"
                return self._declined(PAGE, params.message, hint)
            from mcpwire.cli.login import ask_consent

            return await self._asked(
                ask_consent(params.url, params.message, self._asker(), self._person)
            )

    async def visit_all(self, error: UrlElicitationRequired) -> bool:
        """Show the pages that a call failed for; return whether to call again."""
        from mcpwire.errors import InvalidMessage
        from mcpwire.protocol.elicitation import url_problem
        from mcpwire.types import ElicitRequestURLParams, decode

        data = error.data if isinstance(error.data, dict) else {}
        given = data.get("elicitations")
        if not self._is_attended:
            error.add_note("a terminal is needed to agree to the pages to be visited")
            return False
        if not isinstance(given, list) or not given:
            return False
        for raw in given:
            try:
                page = decode(ElicitRequestURLParams, raw)
            except InvalidMessage:
                return False
            if url_problem(page.url) is not None or await self.visit(page) != "accept":
                return False
        from mcpwire.cli.interactive import Left
        from mcpwire.cli.login import is_done_there

        try:
            return await is_done_there(self._person)
        except Left:
            return False

    def _declined(self, what: str, message: str, hint: str) -> ElicitAction:
        why = "with --json" if self._output.is_json else "without a terminal"
        self._tell(what, "decline", message, f"declined {why} ({hint})")
        return "decline"

    async def _asked(self, question: Awaitable[T]) -> T:
        try:
            return await question
        except asyncio.CancelledError:
            if self._signals.number is None:
                self._output.note("The server no longer asks.")
            raise

    # Sampling...

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Answer as a model, if that was allowed.

        Raises:
            RPCError: It was not.
        """
        text, program = self._options.sample, self._options.sample_program
        request = asked_text(params)
        if text is not None:
            self._tell(MODEL, "accept", request, "answered by --sample")
            return canned(text)
        if not program:
            hint = "--sample TEXT or --sample-with COMMAND allows it"
            self._tell(MODEL, "reject", request, f"refused ({hint})")
            raise rejection("the user has not allowed sampling")
        async with self._turn:
            asker = self._asker()
            if self._is_attended:
                work = reviewed(params, program, asker, self._person)
                return await self._asked(work)
            self._tell(MODEL, "accept", request, f"answered by {program[0]}")
            return await ask_program(params, program, asker)


READ_BYTES: Final = 65_536


class Left(Exception):
    """The person answered the whole question at once.

    Attributes:
        action: ``decline`` or ``cancel``.
    """

    def __init__(self, action: ElicitAction) -> None:
        super().__init__(action)
        self.action = action


class Person:
    """The person at the terminal."""

    def __init__(self, output: Output, signals: Signals) -> None:
        self._output = output
        self._signals = signals
        self._typed = b""

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal to ask and to be answered on."""
        from mcpwire.transports.duplex import can_watch

        return all(
            stream is not None and not stream.closed and stream.isatty()
            for stream in (sys.stdin, sys.stderr)
        ) and can_watch(asyncio.get_running_loop())

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._output.asking_width

    def strong(self, text: str) -> str:
        """Return a text as the terminal shows what is to be noticed."""
        return self._output.strong(text)

    def show(self, lines: Iterable[str]) -> None:
        """Show lines that are printable already."""
        self._output.page(lines)

    def forget(self) -> None:
        """Forget what was typed before it was asked for: it answers nothing."""
        import termios

        self._typed = b""
        try:
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except termios.error:  # pragma: no cover - the terminal has gone
            return

    async def ask(self, prompt: str) -> str:
        """Return the line that is typed behind a prompt, without white space around.

        Raises:
            Left: Ctrl-C or Ctrl-D: the question is left unanswered.
        """
        while True:
            line = await self._line(prompt)
            try:
                text = line.decode().strip()
            except UnicodeDecodeError:
                self.show(["  That is no UTF-8 text."])
                continue
            if one_line(text) == text:
                return text
            self.show(["  That has control characters in it, such as those of arrows."])

    async def _line(self, prompt: str) -> bytes:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[bytes] = loop.create_future()
        fd = sys.stdin.fileno()
        ended = False
        with self._output.prompting(prompt):
            loop.add_reader(fd, self._readable, fd, line)
            try:
                with self._signals.interrupts(lambda: _set(line, b"")):
                    self._take(line)
                    found = await line
                    ended = found.endswith(b"\n")
            finally:
                loop.remove_reader(fd)
                if not ended:
                    self.show([""])
        if not ended:
            self.show(["Cancelled. The call goes on; Ctrl-C now ends that."])
            raise Left("cancel")
        self._signals.stay()
        return found

    def _readable(self, fd: int, line: asyncio.Future[bytes]) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except OSError:  # the terminal has gone
            data = b""
        self._typed += data
        if data:
            self._take(line)
        else:
            _set(line, b"")

    def _take(self, line: asyncio.Future[bytes]) -> None:
        typed, newline, rest = self._typed.partition(b"\n")
        if newline and not line.done():
            self._typed = rest
            line.set_result(typed + newline)


def _set(line: asyncio.Future[bytes], value: bytes) -> None:
    if not line.done():
        line.set_result(value)


COMMANDS: Final = "!skip, !empty, !back, !decline or !cancel"

HELP: Final = (
    "Enter takes what stands in [ ], and leaves a field out where nothing does. !skip "
    "leaves it out in any case, !empty makes it an empty one, !back returns to the one "
    "before. !decline refuses to answer, !cancel or Ctrl-C leaves it open. A text that "
    "begins with ! is typed with !!. Nothing is sent before you have seen all of it. "
    "Never enter passwords or keys here."
)

ACTIONS: Final[dict[str, ElicitAction]] = {
    "d": "decline",
    "decline": "decline",
    "c": "cancel",
    "cancel": "cancel",
}
SENDING: Final = frozenset({"s", "send"})
VALUE_SHOWN: Final = 400


def fields_of(schema: RequestedSchema) -> list[Field]:
    """Return the fields of a form, those included that it only says it must have."""
    required = dict.fromkeys(schema.required or ())
    named = dict.fromkeys(required, UnknownSchema({}))
    ordered = {**schema.properties, **(named | schema.properties)}
    return [
        Field(name, field, is_required=name in required)
        for name, field in ordered.items()
    ]


async def fill_in(
    params: ElicitRequestFormParams, asker: Asker, person: Person
) -> dict[str, Value | None] | ElicitAction:
    """Ask for each field and for leave to send; return the answer."""
    schema = params.requested_schema
    form = _Form(params, asker, person)
    form.introduce(params.message)
    try:
        await form.ask_all()
        content = await form.review(schema)
    except Left as left:
        return left.action
    return content


class _Form:
    """A form while it is filled in."""

    def __init__(
        self, params: ElicitRequestFormParams, asker: Asker, person: Person
    ) -> None:
        schema = params.requested_schema
        self._asker = asker
        self._person = person
        self._fields = fields_of(schema)
        self._defaults = form_defaults(schema)
        self._values: dict[str, Value | None] = {
            field.name: self._defaults.get(field.name) for field in self._fields
        }

    def introduce(self, message: str) -> None:
        """Print the server, its request and the answer."""
        from textwrap import wrap

        person, count = self._person, len(self._fields)
        person.show(self._asker.lines("asks for input", message, person))
        if count:
            how_many = f"{count} fields. " if count > 1 else ""
            person.show(wrap(how_many + HELP, max(person.width - 1, 40)))
        person.forget()

    async def ask_all(self) -> None:
        """Ask for every field, back and forth.

        Raises:
            Left: The whole question is declined or left open.
        """
        at = 0
        while at < len(self._fields):
            at = max(at + await self._ask(at), 0)

    async def _ask(self, at: int) -> int:
        """Ask for one field; return where the next one is."""
        field, person = self._fields[at], self._person
        need = "required" if field.is_required else "optional"
        title = person.strong(field.title)
        person.show(["", f"{at + 1}/{len(self._fields)} {title}: {field.kind}; {need}"])
        person.show(field.lines(person.width))
        while True:
            value = self._values[field.name]
            offer = f"[{shorten(field.shown(value), 60)}] " if value is not None else ""
            text = await person.ask(f"  {offer}> ")
            try:
                return self._take(field, text)
            except ValueError as error:
                person.show([f"  {one_line(str(error))}"])

    def _take(self, field: Field, text: str) -> int:
        """Take what was typed for a field; return where the next one is.

        Raises:
            ValueError: It does not fit; says why.
            Left: The whole question is declined or left open.
        """
        if text.startswith("!") and not text.startswith("!!"):
            return self._obey(field, text[1:])
        if text:
            self._values[field.name] = field.read(text.removeprefix("!"))
        elif field.is_required and self._values[field.name] is None:
            raise ValueError("it is required; !empty if it is to be empty")
        return 1

    def _obey(self, field: Field, command: str) -> int:
        if command in ACTIONS:
            raise Left(ACTIONS[command])
        if command == "back":
            return -1
        if command == "empty":
            self._values[field.name] = field.empty()
            return 1
        if command != "skip":
            raise ValueError(f"that is none of {COMMANDS} (a text: !!{command})")
        if field.is_required:
            raise ValueError("it is required; !decline refuses the whole form")
        self._values[field.name] = None
        return 1

    # The review...

    async def review(self, schema: RequestedSchema) -> dict[str, Value | None]:
        """Show all answers, let them be changed, and return those to be sent.

        Raises:
            Left: The whole question is declined or left open.
        """
        person = self._person
        person.forget()
        while True:
            self._show_answers()
            text = (await person.ask(self._question())).removeprefix("!").lower()
            if text in ACTIONS:
                raise Left(ACTIONS[text])
            if text in SENDING:
                content = self._content()
                try:
                    fill_form(schema, content, self._asker.revision)
                except LocalProtocolError as error:
                    person.show([f"  {one_line(str(error))}"])
                    continue
                return content
            if text.isascii() and text.isdigit() and len(text) < 10:
                at = int(text) - 1
                if 0 <= at < len(self._fields):
                    await self._ask(at)

    def _show_answers(self) -> None:
        heading = "Your answers:" if self._fields else "It asks for no more than that."
        lines = ["", heading]
        digits = len(str(len(self._fields)))
        for number, field in enumerate(self._fields, 1):
            shown = shorten(field.shown(self._values[field.name]), VALUE_SHOWN)
            lines.append(f"  {number:>{digits}}  {field.title}: {shown}")
        self._person.show(lines)

    def _question(self) -> str:
        count = len(self._fields)
        edit = "" if not count else "1 edits, " if count == 1 else f"1-{count} edits, "
        return f"s sends, {edit}d declines, c cancels > "

    def _content(self) -> dict[str, Value | None]:
        """Return the answers; what has a default and was left out is said to be."""
        return {
            name: value
            for name, value in self._values.items()
            if value is not None or name in self._defaults
        }


LISTS: Final = (UntitledMultiSelectEnumSchema, TitledMultiSelectEnumSchema)
WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False}
WORDS["false"] = False
SHOWN: Final = 60
"""How much of a value or a title one line shows, in characters."""


class Field:
    """One field, by its name.

    Attributes:
        name: What it is called in the answer.
        title: What it is called on the terminal; harmless.
        is_required: Whether the answer must have it.
    """

    def __init__(
        self, name: str, schema: PrimitiveSchemaDefinition, *, is_required: bool
    ) -> None:
        self.name = name
        self.is_required = is_required
        self._schema = schema
        self._choices = list(choices_of(schema).items())
        title = getattr(schema, "title", None)
        shown = plain(shorten(name, SHOWN))
        self.title = f"{plain(shorten(title, SHOWN))} ({shown})" if title else shown

    # What is said of it...

    def lines(self, width: int) -> list[str]:
        """Describe it, below its title."""
        description = getattr(self._schema, "description", None)
        lines = quoted(description, width, "    ") if description else []
        digits = len(str(len(self._choices)))
        for number, (value, title) in enumerate(self._choices, 1):
            label = plain(shorten(title, SHOWN))
            if title != value:
                label += f"  ({plain(shorten(value, SHOWN))})"
            lines.append(f"    {number:>{digits}}  {label}")
        return lines

    @property
    def kind(self) -> str:
        """What it takes, as in "an integer, 1 to 10"."""
        schema = self._schema
        if isinstance(schema, LISTS):
            bounds = _range(schema.min_items, schema.max_items)
            how_many = f"{bounds} of these" if bounds else "any of these"
            return f"{how_many}, by numbers with commas between"
        if self._choices:
            return "one of these, by its number"
        if isinstance(schema, BooleanSchema):
            return "yes or no"
        if isinstance(schema, NumberSchema):
            noun = "an integer" if schema.type == "integer" else "a number"
            return _joined(noun, _range(schema.minimum, schema.maximum))
        if isinstance(schema, StringSchema):
            length = _range(schema.min_length, schema.max_length)
            noun = format_problem("", schema.format) or "text"
            return _joined(noun, f"{length} characters" if length else "")
        return "text, or a value as JSON"

    def shown(self, value: Value | None) -> str:
        """Write a value of it, harmless and not too long."""
        if value is None:
            return "(left out)"
        if isinstance(value, list):
            return ", ".join(map(self._shown_choice, value)) or "(none)"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self._choices and isinstance(value, str):
            return self._shown_choice(value)
        return plain(value if isinstance(value, str) and value else literal(value))

    def _shown_choice(self, value: str) -> str:
        return plain(shorten(dict(self._choices).get(value, value), SHOWN))

    # What a typed line means...

    def read(self, text: str) -> Value:
        """Return the value that a line stands for.

        Raises:
            ValueError: It does not fit; says why.
        """
        return check_value(self._schema, self._value(text))

    def empty(self) -> Value:
        """Return the value that is nothing, and is there all the same.

        Raises:
            ValueError: It does not fit; says why.
        """
        return check_value(self._schema, [] if isinstance(self._schema, LISTS) else "")

    def _value(self, text: str) -> Any:
        schema = self._schema
        if isinstance(schema, LISTS):
            return [self._choice(part) for part in _parts(text)]
        if self._choices:
            return self._choice(text)
        if isinstance(schema, BooleanSchema):
            if text.lower() not in WORDS:
                raise ValueError(f"expected yes or no, got {shorten(text, SHOWN)!r}")
            return WORDS[text.lower()]
        if isinstance(schema, NumberSchema):
            return _typed(text, schema.type)
        if isinstance(schema, UnknownSchema):
            return _json_or_text(text)
        return text

    def _choice(self, text: str) -> str:
        """Return the choice of that number, or of that very text."""
        if text.isascii() and text.isdigit() and len(text) < SHOWN:
            number = int(text)
            if 1 <= number <= len(self._choices):
                return self._choices[number - 1][0]
        for value, title in self._choices:
            if text in {value, title}:
                return value
        raise ValueError(
            f"expected a number from 1 to {len(self._choices)}, "
            f"got {shorten(text, SHOWN)!r}"
        )


def _joined(noun: str, rest: str) -> str:
    return f"{noun}, {rest}" if rest else noun


def _range(low: float | None, high: float | None) -> str:
    """Say which numbers are meant."""
    if low is not None and low == high:
        return f"exactly {low:g}"
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


def _parts(text: str) -> list[str]:
    """Cut a line at its commas, or where it has none but only numbers, at spaces."""
    if re.fullmatch(r"[0-9 ]+", text):
        return text.split()
    return [part.strip() for part in text.split(",") if part.strip()]


def _typed(text: str, kind: str) -> Any:
    from mcpwire.cli.arguments import coerce
    from mcpwire.cli.schemas import SchemaReader

    return coerce(text, {"type": kind}, SchemaReader({}))


def _json_or_text(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


Answer: TypeAlias = "dict[str, Any] | ElicitAction"
"""The fields of an accepted form, or the action that answers it without."""

ANSWERS: Final[dict[str, ElicitAction]] = {"decline": "decline", "cancel": "cancel"}
LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)


def parse_answers(
    words: Sequence[str],
    *,
    read_file: Callable[[str], str],
    read_input: Callable[[], str],
) -> list[Answer]:
    """Read the answers: JSON objects, ``@file``, ``-``, ``decline`` or ``cancel``.

    Raises:
        UsageError: One is none of these.
    """
    if words.count("-") > 1:
        raise UsageError("standard input can be one --answer, not several")
    found: list[Answer] = []
    for word in words:
        if word in ANSWERS:
            found.append(ANSWERS[word])
        elif word == "-":
            found.append(read_object(read_input(), "standard input"))
        elif word.startswith("@"):
            found.append(read_object(read_file(word[1:]), f"--answer {word}"))
        else:
            found.append(read_object(word, "--answer"))
    return found


def read_options(
    options: Options, *, read_file: Callable[[str], str], read_input: Callable[[], str]
) -> None:
    """Read what the options say that are about the server's questions and words.

    Raises:
        UsageError: One of them makes no sense, or two do not go together.
    """
    words = options.given_answers
    if "-" in words and "-" in options.words:
        raise UsageError("standard input can be arguments or an --answer, not both")
    options.answers = parse_answers(words, read_file=read_file, read_input=read_input)
    if options.sample_with is not None:
        options.sample_program = _program(options)
    level = options.log_level
    if level is not None and level not in LEVELS:
        similar = close_matches(level, LEVELS)
        advice = did_you_mean(similar[:1]) or f"; the levels are {', '.join(LEVELS)}"
        raise UsageError(f"--log-level: no level is {level!r}{advice}")


def _program(options: Options) -> Sequence[str]:
    import shlex

    line = options.sample_with or ""
    if options.sample is not None:
        raise UsageError("--sample and --sample-with do not go together")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--sample-with: cannot split {line!r}: {error}") from error
    if not words:
        raise UsageError("--sample-with: the command is empty")
    return words


CANNED_MODEL: Final = "mcpwire --sample"
MAX_ANSWER: Final = 16 * 1024 * 1024
"""Bytes of a program's answer; no model writes as much."""


def canned(text: str, model: str = CANNED_MODEL) -> CreateMessageResult:
    """Return a text as what a model answered."""
    return CreateMessageResult("assistant", TextContent(text), model, "endTurn")


def rejection(why: str) -> RPCError:
    """Return the error for a refusal by the user."""
    return RPCError(why, code=USER_REJECTED)


def asked_text(params: CreateMessageRequestParams) -> str:
    """Write what a server wants a model to read."""
    lines = [f"system: {params.system_prompt}"] if params.system_prompt else []
    for message in params.messages:
        for block in message.blocks:
            text = block.text if isinstance(block, TextContent) else f"[{block.type}]"
            lines.append(f"{message.role}: {text}")
    return "\n".join(lines)


async def reviewed(
    params: CreateMessageRequestParams,
    command: Sequence[str],
    asker: Asker,
    person: Person,
) -> CreateMessageResult:
    """Let the person see what goes to the program, and what it answers.

    Raises:
        RPCError: They do not want that, or the program failed.
    """
    request = asked_text(params)
    person.show(asker.lines("asks for an answer of a model", request, person))
    most = f"at most {params.max_tokens:,} tokens"
    person.show([f"  {most}; the program is {one_line(command[0])}"])
    await _agree(person, "y runs the program, d declines > ")
    result = await ask_program(params, command, asker)
    person.show(["The program answers:", *quoted(result.text, person.width)])
    await _agree(person, "y sends that, d declines > ")
    return result


async def _agree(person: Person, question: str) -> None:
    person.forget()
    try:
        while True:
            text = (await person.ask(question)).lower().removeprefix("!")
            if text in {"y", "yes"}:
                return
            if text in {"d", "n", "no", "decline", "c", "cancel"}:
                break
    except Left:
        pass
    raise rejection("the user declined")


async def ask_program(
    params: CreateMessageRequestParams, command: Sequence[str], asker: Asker
) -> CreateMessageResult:
    """Have a program answer: it reads the request as JSON and prints a text.

    Raises:
        RPCError: It cannot be run, or it failed.
    """
    request = json.dumps(encode(params, asker.revision)).encode()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        raise InternalError(f"the client's program cannot be run: {error}") from error
    try:
        answer, _ = await process.communicate(request)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise InternalError(f"the client's program ended with {process.returncode}")
    if len(answer) > MAX_ANSWER:
        raise InternalError("the client's program answered too much")
    text = answer.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    return canned(text, command[0])
