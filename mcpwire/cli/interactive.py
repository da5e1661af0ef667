"""Answers to a server's elicitation and sampling requests: by options or by a person.

Answers of the command line are used first; then a person is asked, if there is a
terminal and the output is not JSON. Otherwise the request is declined, and a line on
stderr names the request and an option that would answer it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from mcpwire.cli.arguments import literal, read_object, read_typed
from mcpwire.cli.failures import UsageError
from mcpwire.cli.output import one_line, plain, quoted, read_source, shorten
from mcpwire.cli.session import typed
from mcpwire.errors import InternalError, InvalidMessage, LocalProtocolError, RPCError
from mcpwire.protocol.client_features import USER_REJECTED, Elicitation
from mcpwire.protocol.elicitation import (
    check_value,
    choices_of,
    describe_url,
    fill_form,
    form_defaults,
    format_problem,
    url_problem,
)
from mcpwire.transports.duplex import can_watch
from mcpwire.types import (
    CreateMessageResult,
    ElicitRequestURLParams,
    TextContent,
    decode,
    encode,
)
from mcpwire.types.elicitation import (
    BooleanSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    UnknownSchema,
    UntitledMultiSelectEnumSchema,
)
from mcpwire.versions import Era, find_revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Session, Signals
    from mcpwire.errors import UrlElicitationRequired
    from mcpwire.protocol.elicitation import Value
    from mcpwire.types import (
        CreateMessageRequestParams,
        ElicitAction,
        ElicitRequestFormParams,
        PrimitiveSchemaDefinition,
        RequestedSchema,
    )
    from mcpwire.versions import Revision

T = TypeVar("T")

Answer: TypeAlias = "dict[str, Any] | ElicitAction"
"""The fields of an accepted form, or an action without fields."""

ACTIONS: Final[dict[str, ElicitAction]] = {"decline": "decline", "cancel": "cancel"}
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
"""Kind of request, as messages name it -> its method."""


class Asker(NamedTuple):
    """The server that sends a request."""

    name: str
    """The server's own name, escaped."""

    command: str
    """The target, which the server cannot forge."""

    revision: Revision

    def lines(self, what: str, message: str, person: Person) -> list[str]:
        """Return the lines that show the server and its message to the person."""
        heading = f"{person.strong(self.name)} {what}"
        lines = ["", heading, *quoted(message, person.width)]
        return [*lines, f"  asked by the server {self.command}"]


class Host:
    """The handlers of server requests during one command."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._output = session.output
        self._answers = _read_answers(session.options.answers)
        self._person = Person(session.output, session.signals)
        self._turn = asyncio.Lock()
        self.failure: UsageError | None = None

    def handlers(self) -> dict[str, Any]:
        """Return the handlers for `Client`."""
        return {
            "elicitation": Elicitation(form=self._fill_in, url=self._visit),
            "sampling": self._sample,
        }

    def finish(self) -> None:
        """Raise a deferred usage error; report unused --answer options."""
        if self.failure is not None:
            raise self.failure
        if self._answers:
            left = len(self._answers)
            plural = "s were" if left > 1 else " was"
            self._output.note(f"{left} --answer{plural} not asked for")

    def _asker(self) -> Asker:
        client, target = self._session.client, one_line(str(self._session.target))
        revision = find_revision(client.protocol_version or "")
        assert revision is not None
        info = client.server_info
        name = plain(shorten(info.name, NAME_SHOWN)) if info else "The server"
        return Asker(name, shorten(target, MESSAGE_SHOWN), revision)

    @property
    def _is_attended(self) -> bool:
        return self._person.is_there and not self._output.is_json

    def _report(self, what: str, answer: str, message: str, how: str) -> None:
        """Report on stderr a request that was answered without a person."""
        said = {"method": METHODS[what], "answer": answer, "how": how}
        said["message"] = message
        shown = plain(shorten(message, MESSAGE_SHOWN))
        text = f'mcpwire: the server asked for {what}; {how}; it said "{shown}"'
        self._output.event("asked", said, text)

    def _declined(self, what: str, message: str, hint: str) -> ElicitAction:
        why = "with --json" if self._output.is_json else "without a terminal"
        self._report(what, "decline", message, f"declined {why} ({hint})")
        return "decline"

    async def _asked(self, question: Awaitable[T]) -> T:
        try:
            return await question
        except asyncio.CancelledError:
            if self._session.signals.number is None:
                self._output.note("The server no longer asks.")
            raise

    # Elicitation

    async def _fill_in(
        self, params: ElicitRequestFormParams
    ) -> Mapping[str, Any] | ElicitAction:
        async with self._turn:
            if self._answers:
                return self._given(params, self._answers.pop(0))
            if self._is_attended:
                form = Form(params.requested_schema, self._asker(), self._person)
                return await self._asked(form.fill_in(params.message))
            names = [
                f'"{plain(name)}": ...' for name in params.requested_schema.properties
            ]
            wanted = shorten(", ".join(names), MESSAGE_SHOWN)
            hint = f"--answer '{{{wanted}}}' answers"
            return self._declined(FORM, params.message, hint)

    def _given(self, params: ElicitRequestFormParams, answer: Answer) -> Answer:
        if isinstance(answer, dict):
            try:
                fill_form(params.requested_schema, answer, self._asker().revision)
            except LocalProtocolError as error:
                self.failure = UsageError(
                    f"--answer does not fit what the server asks: {error}"
                )
                answer = "cancel"
        said = answer if isinstance(answer, str) else "accept"
        self._report(FORM, said, params.message, f"answered by --answer ({said})")
        return answer

    async def _visit(self, params: ElicitRequestURLParams) -> ElicitAction:
        async with self._turn:
            if not self._is_attended:
                hint = f"a terminal is needed to agree to {one_line(params.url)}"
                return self._declined(PAGE, params.message, hint)
            return await self._asked(
                ask_consent(params.url, params.message, self._asker(), self._person)
            )

    async def visit_all(self, error: UrlElicitationRequired) -> bool:
        """Show the pages that a call requires; return whether to repeat the call."""
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
            if url_problem(page.url) or await self._visit(page) != "accept":
                return False
        try:
            return await _is_done_there(self._person)
        except Left:
            return False

    # Sampling

    async def _sample(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Return the result of a sampling request; raise `RPCError` if not allowed."""
        options = self._session.options
        request = asked_text(params)
        if options.sample is not None:
            self._report(MODEL, "accept", request, "answered by --sample")
            return _answer(options.sample, "mcpwire --sample")
        program = options.sample_with
        if not program:
            hint = "--sample TEXT or --sample-with COMMAND allows it"
            self._report(MODEL, "reject", request, f"refused ({hint})")
            raise _rejection("the user has not allowed sampling")
        async with self._turn:
            asker = self._asker()
            if self._is_attended:
                work = _reviewed(params, program, asker, self._person)
                return await self._asked(work)
            self._report(MODEL, "accept", request, f"answered by {program[0]}")
            return await ask_program(params, program, asker)


def _read_answers(words: Sequence[str]) -> list[Answer]:
    """Read the answers: JSON objects, ``@file``, ``-``, ``decline`` or ``cancel``."""
    if words.count("-") > 1:
        raise UsageError("standard input can be one --answer, not several")
    found: list[Answer] = []
    for word in words:
        if word in ACTIONS:
            found.append(ACTIONS[word])
        elif word == "-" or word.startswith("@"):
            what = "standard input" if word == "-" else f"--answer {word}"
            found.append(read_object(read_source(word), what))
        else:
            found.append(read_object(word, "--answer"))
    return found


# --- the terminal


class Left(Exception):
    """The person declined or cancelled the whole request."""

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
        """Whether a terminal can show prompts and be read."""
        return self._output.can_ask and can_watch(asyncio.get_running_loop())

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._output.asking_width

    def strong(self, text: str) -> str:
        """Return a text in bold, if the terminal has styles."""
        return self._output.strong(text)

    def show(self, lines: Iterable[str]) -> None:
        """Show lines that are already escaped."""
        self._output.page(lines)

    def forget(self) -> None:
        """Discard input that was typed before the prompt."""
        import termios

        self._typed = b""
        try:
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        except termios.error:  # pragma: no cover - the terminal has gone
            return

    async def ask(self, prompt: str) -> str:
        """Show a prompt and return the stripped line that the person types."""
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
        with self._output.prompting(prompt):
            try:
                while b"\n" not in self._typed and (data := await self._read()):
                    self._typed += data
            finally:
                line, newline, rest = self._typed.partition(b"\n")
                if not newline:
                    self.show([""])
        if not newline:
            self.show(["Cancelled. The call goes on; Ctrl-C now ends that."])
            raise Left("cancel")
        self._typed = rest
        self._signals.stay()
        return line

    async def _read(self) -> bytes:
        """Return the next input; empty after Ctrl-C or at the end of the input."""
        read = typed()

        def stop() -> None:
            if not read.done():
                read.set_result(b"")

        with self._signals.interrupts(stop):
            return await read


async def _choose(person: Person, prompt: str, answers: Mapping[str, T]) -> T:
    """Repeat a prompt until one of the answers is typed, with or without a "!"."""
    while True:
        text = (await person.ask(prompt)).lower().removeprefix("!")
        if text in answers:
            return answers[text]


# --- forms


COMMANDS: Final = "!skip, !empty, !back, !decline or !cancel"

HELP: Final = (
    "Enter takes what stands in [ ], and leaves a field out where nothing does. !skip "
    "leaves it out in any case, !empty makes it an empty one, !back returns to the one "
    "before. !decline refuses to answer, !cancel or Ctrl-C leaves it open. A text that "
    "begins with ! is typed with !!. Nothing is sent before you have seen all of it. "
    "Never enter passwords or keys here."
)

TYPED: Final[dict[str, ElicitAction]] = {**ACTIONS, "d": "decline", "c": "cancel"}
SENDING: Final = frozenset({"s", "send"})
VALUE_SHOWN: Final = 400


class Form:
    """The dialogue at the terminal for one form."""

    def __init__(self, schema: RequestedSchema, asker: Asker, person: Person) -> None:
        self._schema = schema
        self._asker = asker
        self._person = person
        required = dict.fromkeys(schema.required or ())
        described = dict(schema.properties)
        for name in required:
            described.setdefault(name, UnknownSchema({}))
        self._fields = [
            Field(name, field, is_required=name in required)
            for name, field in described.items()
        ]
        self._defaults = form_defaults(schema)
        self._values: dict[str, Value | None] = {
            field.name: self._defaults.get(field.name) for field in self._fields
        }

    async def fill_in(self, message: str) -> dict[str, Value | None] | ElicitAction:
        """Ask for each field, show the review, and return the result."""
        person, count = self._person, len(self._fields)
        person.show(self._asker.lines("asks for input", message, person))
        if count:
            how_many = f"{count} fields. " if count > 1 else ""
            person.show(wrap(how_many + HELP, max(person.width - 1, 40)))
        person.forget()
        try:
            at = 0
            while at < count:
                at = max(at + await self._ask(at), 0)
            return await self._review()
        except Left as left:
            return left.action

    async def _ask(self, at: int) -> int:
        """Ask for one field; return the offset of the next one."""
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
        """Process a line typed for a field; return the offset of the next field."""
        if text.startswith("!") and not text.startswith("!!"):
            return self._obey(field, text[1:])
        if text:
            self._values[field.name] = field.read(text.removeprefix("!"))
        elif field.is_required and self._values[field.name] is None:
            raise ValueError("it is required; !empty if it is to be empty")
        return 1

    def _obey(self, field: Field, command: str) -> int:
        if command in TYPED:
            raise Left(TYPED[command])
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

    # The review

    async def _review(self) -> dict[str, Value | None]:
        """Show all answers, accept changes, and return the answers to send."""
        person = self._person
        person.forget()
        while True:
            self._show_answers()
            text = (await person.ask(self._question())).removeprefix("!").lower()
            if text in TYPED:
                raise Left(TYPED[text])
            if text in SENDING:
                content = self._content()
                try:
                    fill_form(self._schema, content, self._asker.revision)
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
        """Return the answers to send; a skipped field with a default is null."""
        return {
            name: value
            for name, value in self._values.items()
            if value is not None or name in self._defaults
        }


LISTS: Final = (UntitledMultiSelectEnumSchema, TitledMultiSelectEnumSchema)
WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False}
WORDS["false"] = False
SHOWN: Final = 60
"""Maximum characters of a value or a title in a line."""


class Field:
    """One field of a form."""

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

    # Description

    def lines(self, width: int) -> list[str]:
        """Return the description and the choices, for display below the title."""
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
        """The accepted input, as in "an integer, 1 to 10"."""
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
            bounds = _range(schema.minimum, schema.maximum)
            return f"{noun}, {bounds}" if bounds else noun
        if isinstance(schema, StringSchema):
            length = _range(schema.min_length, schema.max_length)
            noun = format_problem("", schema.format) or "text"
            return f"{noun}, {length} characters" if length else noun
        return "text, or a value as JSON"

    def shown(self, value: Value | None) -> str:
        """Return a value as escaped text; titles of choices are shortened."""
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

    # Input

    def read(self, text: str) -> Value:
        """Convert a typed line to a valid value; raise ValueError for any other."""
        return check_value(self._schema, self._value(text))

    def empty(self) -> Value:
        """Return an empty text or an empty list; raise ValueError if not allowed."""
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
            return read_typed(text, [schema.type])
        if isinstance(schema, UnknownSchema):
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(text)
        return text

    def _choice(self, text: str) -> str:
        """Return the choice with that number, value or title."""
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


def _range(low: float | None, high: float | None) -> str:
    """Describe a range of numbers; an empty text if it has no bounds."""
    if low is not None and low == high:
        return f"exactly {low:g}"
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


def _parts(text: str) -> list[str]:
    """Split a line at commas, or at spaces if it has only digits and spaces."""
    if re.fullmatch(r"[0-9 ]+", text):
        return text.split()
    return [part.strip() for part in text.split(",") if part.strip()]


# --- pages


CONSENT: Final[dict[str, ElicitAction]] = {
    **dict.fromkeys(("y", "yes"), "accept"),
    **dict.fromkeys(("d", "n", "no", "decline"), "decline"),
    **dict.fromkeys(("c", "cancel"), "cancel"),
}

OPENER: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"

OPENING_S: Final = 3.0
"""If the opener still runs after this time, it is the browser itself."""

STAYING: Final[list[subprocess.Popen[bytes]]] = []
"""Browsers that outlive the command; they are never waited for."""


async def ask_consent(
    url: str, message: str, asker: Asker, person: Person
) -> ElicitAction:
    """Show a URL that a server asks the person to visit; return the person's action."""
    person.show(asker.lines("asks you to visit a page", message, person))
    person.show(_shown_url(url, person))
    person.forget()
    try:
        answer = await _choose(person, "y agrees, d declines, c cancels > ", CONSENT)
        if answer != "accept":
            return answer
        await _offer_to_open(url, person)
        # Since 2026-07-28 the answer is sent with a repeated call, so the person has
        # to finish at the page before that.
        is_last_word = asker.revision.era is Era.STATELESS
        if is_last_word and not await _is_done_there(person):
            return "cancel"
    except Left as left:
        return left.action
    return "accept"


async def _is_done_there(person: Person) -> bool:
    """Wait until the person returns from a page; return whether to continue."""
    question = "When you are done there: r goes on with the call, c gives it up > "
    return await _choose(person, question, {"r": True, "c": False})


def _shown_url(url: str, person: Person) -> list[str]:
    """Return the lines for a URL: the whole URL, its host in bold, and warnings."""
    about = describe_url(url)
    start = url.lower().find(about.host, len("http://"))
    end = start + len(about.host)
    host = person.strong(about.host)
    parts = (url[:start], person.strong(url[start:end]), url[end:])
    lines = ["", f"  URL   {''.join(parts) if start > 0 else url}", f"  host  {host}"]
    if about.unicode_host != about.host:
        lines[-1] += f" (a browser may show {one_line(about.unicode_host)})"
    lines += [f"  {person.strong('Take care')}: {said}" for said in about.warnings]
    return [
        *lines,
        "",
        "Nothing has been fetched or opened. What you do there mcpwire does not see.",
    ]


async def _offer_to_open(url: str, person: Person) -> None:
    """Ask whether to open the page in a browser; open it if agreed."""
    text = await person.ask("o opens it in your browser, Enter leaves that to you > ")
    if text.lower().removeprefix("!") in {"o", "open"}:
        opened = await asyncio.to_thread(open_in_browser, url)
        said = "It was handed to your browser." if opened else "No browser took it."
        person.show([f"  {said}"])


def open_in_browser(url: str) -> bool:
    """Open a URL in the person's browser; return whether that succeeded.

    A separate process opens it: output of a browser must not mix with results, and a
    browser that keeps running must not block the command.
    """
    process = subprocess.Popen(  # noqa: S603 - no shell; the URL is one checked word
        [sys.executable, "-I", "-c", OPENER, url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(OPENING_S) == 0
    except subprocess.TimeoutExpired:
        STAYING.append(process)
        return True


# --- sampling


MAX_ANSWER: Final = 16 * 1024 * 1024
"""Maximum bytes of a program's answer; no model generates that much."""


def _answer(text: str, model: str) -> CreateMessageResult:
    return CreateMessageResult("assistant", TextContent(text), model, "endTurn")


def _rejection(why: str) -> RPCError:
    return RPCError(why, code=USER_REJECTED)


def asked_text(params: CreateMessageRequestParams) -> str:
    """Return the messages of a sampling request as text."""
    lines = [f"system: {params.system_prompt}"] if params.system_prompt else []
    for message in params.messages:
        for block in message.blocks:
            text = block.text if isinstance(block, TextContent) else f"[{block.type}]"
            lines.append(f"{message.role}: {text}")
    return "\n".join(lines)


async def _reviewed(
    params: CreateMessageRequestParams,
    command: Sequence[str],
    asker: Asker,
    person: Person,
) -> CreateMessageResult:
    """Ask the person to agree to the request, then to the program's answer."""
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
    with contextlib.suppress(Left):
        if await _choose(person, question, CONSENT) == "accept":
            return
    raise _rejection("the user declined")


async def ask_program(
    params: CreateMessageRequestParams, command: Sequence[str], asker: Asker
) -> CreateMessageResult:
    """Run a program that reads the request as JSON and prints the answer's text."""
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
    return _answer(text, command[0])
