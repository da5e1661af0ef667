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

from mcpwire.cli.arguments import json_text, read_object, read_typed
from mcpwire.cli.failures import UsageError
from mcpwire.cli.output import one_line, plain, quote_lines, read_source, shorten
from mcpwire.cli.session import read_stdin
from mcpwire.errors import InternalError, InvalidMessage, LocalProtocolError, RPCError
from mcpwire.protocol.client_features import USER_REJECTED, Elicitation
from mcpwire.protocol.elicitation import (
    check_value,
    choice_titles,
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
from mcpwire.types.client_features import (
    BooleanSchema,
    NumberSchema,
    StringSchema,
    TitledMultiSelectEnumSchema,
    UnknownSchema,
    UntitledMultiSelectEnumSchema,
)
from mcpwire.versions import Era, find_revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

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
MAX_MESSAGE: Final = 200
MAX_NAME: Final = 80

FORM: Final = "input"
PAGE: Final = "a visit to a URL"
MODEL: Final = "sampling"
METHODS: Final = {
    FORM: "elicitation/create",
    PAGE: "elicitation/create",
    MODEL: "sampling/createMessage",
}
"""Kind of request, as messages name it -> its method."""


class Requester(NamedTuple):
    """The server that sends a request."""

    name: str
    """The server's own name, escaped."""

    command: str
    """The target, which the server cannot forge."""

    revision: Revision

    def lines(self, request: str, message: str, terminal: Terminal) -> list[str]:
        """Return the lines that show the server and its message to the person."""
        heading = f"{terminal.strong(self.name)} {request}"
        lines = ["", heading, *quote_lines(message, terminal.width)]
        return [*lines, f"  request from the server {self.command}"]


class RequestHandlers:
    """The handlers of server requests during one command."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._output = session.output
        self._answers = _read_answers(session.options.answers)
        self._terminal = Terminal(session.output, session.signals)
        self._lock = asyncio.Lock()
        self.failure: UsageError | None = None

    def client_options(self) -> dict[str, Any]:
        """Return the handlers for `Client`."""
        return {
            "elicitation": Elicitation(form=self._handle_form, url=self._handle_url),
            "sampling": self._handle_sampling,
        }

    def finish(self) -> None:
        """Raise a deferred usage error; report unused --answer options."""
        if self.failure is not None:
            raise self.failure
        if self._answers:
            count = len(self._answers)
            plural = "s were" if count > 1 else " was"
            self._output.note(f"{count} --answer{plural} not used")

    def _requester(self) -> Requester:
        client, target = self._session.client, one_line(str(self._session.target))
        revision = find_revision(client.protocol_version or "")
        assert revision is not None
        info = client.server_info
        name = plain(shorten(info.name, MAX_NAME)) if info else "The server"
        return Requester(name, shorten(target, MAX_MESSAGE), revision)

    @property
    def _can_prompt(self) -> bool:
        can_read = can_watch(asyncio.get_running_loop())
        return self._output.can_prompt and can_read and not self._output.is_json

    def _report(self, kind: str, answer: str, message: str, reason: str) -> None:
        """Report on stderr a request that was answered without a person."""
        value = {"method": METHODS[kind], "answer": answer, "how": reason}
        value["message"] = message
        excerpt = plain(shorten(message, MAX_MESSAGE))
        text = (
            f'mcpwire: the server asked for {kind}; {reason}; its message: "{excerpt}"'
        )
        self._output.event("asked", value, text)

    def _decline(self, kind: str, message: str, hint: str) -> ElicitAction:
        condition = "with --json" if self._output.is_json else "without a terminal"
        self._report(kind, "decline", message, f"declined {condition} ({hint})")
        return "decline"

    async def _prompt_user(self, question: Awaitable[T]) -> T:
        try:
            return await question
        except asyncio.CancelledError:
            if self._session.signals.number is None:
                self._output.note("The server has withdrawn its request.")
            raise

    # Elicitation

    async def _handle_form(
        self, params: ElicitRequestFormParams
    ) -> Mapping[str, Any] | ElicitAction:
        async with self._lock:
            if self._answers:
                return self._use_answer(params, self._answers.pop(0))
            if self._can_prompt:
                form = Form(params.requested_schema, self._requester(), self._terminal)
                return await self._prompt_user(form.fill_in(params.message))
            names = [
                f'"{plain(name)}": ...' for name in params.requested_schema.properties
            ]
            fields = shorten(", ".join(names), MAX_MESSAGE)
            hint = f"to answer: --answer '{{{fields}}}'"
            return self._decline(FORM, params.message, hint)

    def _use_answer(self, params: ElicitRequestFormParams, answer: Answer) -> Answer:
        if isinstance(answer, dict):
            try:
                fill_form(params.requested_schema, answer, self._requester().revision)
            except LocalProtocolError as error:
                self.failure = UsageError(
                    f"--answer does not match the requested form: {error}"
                )
                answer = "cancel"
        action = answer if isinstance(answer, str) else "accept"
        self._report(FORM, action, params.message, f"answered by --answer ({action})")
        return answer

    async def _handle_url(self, params: ElicitRequestURLParams) -> ElicitAction:
        async with self._lock:
            if not self._can_prompt:
                hint = f"only a user at a terminal can agree to {one_line(params.url)}"
                return self._decline(PAGE, params.message, hint)
            return await self._prompt_user(
                request_consent(
                    params.url, params.message, self._requester(), self._terminal
                )
            )

    async def visit_required_urls(self, error: UrlElicitationRequired) -> bool:
        """Show the pages that a call requires; return whether to repeat the call."""
        data = error.data if isinstance(error.data, dict) else {}
        elicitations = data.get("elicitations")
        if not self._can_prompt:
            error.add_note("only a user at a terminal can agree to visit the URLs")
            return False
        if not isinstance(elicitations, list) or not elicitations:
            return False
        for raw in elicitations:
            try:
                page = decode(ElicitRequestURLParams, raw)
            except InvalidMessage:
                return False
            if url_problem(page.url) or await self._handle_url(page) != "accept":
                return False
        try:
            return await _confirm_done(self._terminal)
        except Dismissed:
            return False

    # Sampling

    async def _handle_sampling(
        self, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        """Return the result of a sampling request; raise `RPCError` if not allowed."""
        options = self._session.options
        request = request_text(params)
        if options.sample is not None:
            self._report(MODEL, "accept", request, "answered by --sample")
            return _sampling_result(options.sample, "mcpwire --sample")
        program = options.sample_with
        if not program:
            hint = "to answer: --sample TEXT or --sample-with COMMAND"
            self._report(MODEL, "reject", request, f"refused ({hint})")
            raise _rejection("the user has not allowed sampling")
        async with self._lock:
            requester = self._requester()
            if self._can_prompt:
                work = _review_sampling(params, program, requester, self._terminal)
                return await self._prompt_user(work)
            self._report(MODEL, "accept", request, f"answered by {program[0]}")
            return await run_program(params, program, requester)


def _read_answers(words: Sequence[str]) -> list[Answer]:
    """Read the answers: JSON objects, ``@file``, ``-``, ``decline`` or ``cancel``."""
    if words.count("-") > 1:
        raise UsageError("only one --answer can be read from standard input")
    answers: list[Answer] = []
    for word in words:
        if word in ACTIONS:
            answers.append(ACTIONS[word])
        elif word == "-" or word.startswith("@"):
            source = "standard input" if word == "-" else f"--answer {word}"
            answers.append(read_object(read_source(word), source))
        else:
            answers.append(read_object(word, "--answer"))
    return answers


# --- the terminal


class Dismissed(Exception):
    """The person declined or cancelled the whole request."""

    def __init__(self, action: ElicitAction) -> None:
        super().__init__(action)
        self.action = action


class Terminal:
    """The person at the terminal."""

    def __init__(self, output: Output, signals: Signals) -> None:
        self._output = output
        self._signals = signals
        self._buffer = b""
        self.strong, self.show = output.strong, output.show

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._output.prompt_width

    def discard_input(self) -> None:
        """Discard input that was typed before the prompt."""
        import termios

        self._buffer = b""
        with contextlib.suppress(termios.error):  # the terminal has gone
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def prompt(self, prompt: str) -> str:
        """Show a prompt and return the stripped line that the person types."""
        while True:
            line = await self._read_line(prompt)
            try:
                text = line.decode().strip()
            except UnicodeDecodeError:
                self.show(["  The line is not UTF-8 text."])
                continue
            if one_line(text) == text:
                return text
            self.show(
                ["  The line has control characters, such as those of arrow keys."]
            )

    async def _read_line(self, prompt: str) -> bytes:
        with self._output.prompting(prompt):
            try:
                while b"\n" not in self._buffer and (data := await self._read_input()):
                    self._buffer += data
            finally:
                line, newline, rest = self._buffer.partition(b"\n")
                if not newline:
                    self.show([""])
        if not newline:
            self.show(["Cancelled. The call continues; Ctrl-C ends it."])
            raise Dismissed("cancel")
        self._buffer = rest
        self._signals.was_interrupted = False
        return line

    async def _read_input(self) -> bytes:
        """Return the next input; empty after Ctrl-C or at the end of the input."""
        read = read_stdin()

        def stop() -> None:
            if not read.done():
                read.set_result(b"")

        with self._signals.handle_interrupt(stop):
            return await read


async def _choose(terminal: Terminal, prompt: str, answers: Mapping[str, T]) -> T:
    """Repeat a prompt until one of the answers is typed, with or without a "!"."""
    while True:
        text = (await terminal.prompt(prompt)).lower().removeprefix("!")
        if text in answers:
            return answers[text]


# --- forms


COMMANDS: Final = "!skip, !empty, !back, !decline or !cancel"

HELP: Final = (
    "Enter accepts the value in [ ], or omits the field if there is none. !skip omits "
    "the field, !empty enters an empty value, !back returns to the previous field. "
    "!decline declines the request, !cancel or Ctrl-C cancels it. Type !! for a text "
    "that begins with !. You can review all values before they are sent. Never enter "
    "passwords or keys here."
)

DISMISSALS: Final[dict[str, ElicitAction]] = {**ACTIONS, "d": "decline", "c": "cancel"}
MAX_VALUE: Final = 400


class Form:
    """The dialogue at the terminal for one form."""

    def __init__(
        self, schema: RequestedSchema, requester: Requester, terminal: Terminal
    ) -> None:
        self._schema = schema
        self._requester = requester
        self._terminal = terminal
        required = dict.fromkeys(schema.required or ())
        properties = dict(schema.properties)
        for name in required:
            properties.setdefault(name, UnknownSchema({}))
        self._fields = [
            Field(name, field, is_required=name in required)
            for name, field in properties.items()
        ]
        self._defaults = form_defaults(schema)
        self._values: dict[str, Value | None] = {
            field.name: self._defaults.get(field.name) for field in self._fields
        }

    async def fill_in(self, message: str) -> dict[str, Value | None] | ElicitAction:
        """Ask for each field, show the review, and return the result."""
        terminal, count = self._terminal, len(self._fields)
        terminal.show(self._requester.lines("asks for input", message, terminal))
        if count:
            how_many = f"{count} fields. " if count > 1 else ""
            terminal.show(wrap(how_many + HELP, max(terminal.width - 1, 40)))
        terminal.discard_input()
        try:
            index = 0
            while index < count:
                index = max(index + await self._prompt_field(index), 0)
            return await self._review()
        except Dismissed as dismissed:
            return dismissed.action

    async def _prompt_field(self, index: int) -> int:
        """Ask for one field; return the offset of the next one."""
        field, terminal = self._fields[index], self._terminal
        need = "required" if field.is_required else "optional"
        title = terminal.strong(field.title)
        terminal.show(
            ["", f"{index + 1}/{len(self._fields)} {title}: {field.kind}; {need}"]
        )
        terminal.show(field.lines(terminal.width))
        while True:
            value = self._values[field.name]
            offer = (
                f"[{shorten(field.format(value), 60)}] " if value is not None else ""
            )
            text = await terminal.prompt(f"  {offer}> ")
            try:
                return self._process_line(field, text)
            except ValueError as error:
                terminal.show([f"  {one_line(str(error))}"])

    def _process_line(self, field: Field, text: str) -> int:
        """Process a line typed for a field; return the offset of the next field."""
        if text.startswith("!") and not text.startswith("!!"):
            return self._run_command(field, text[1:])
        if text:
            self._values[field.name] = field.parse(text.removeprefix("!"))
        elif field.is_required and self._values[field.name] is None:
            raise ValueError("a value is required; !empty enters an empty one")
        return 1

    def _run_command(self, field: Field, command: str) -> int:
        if command in DISMISSALS:
            raise Dismissed(DISMISSALS[command])
        if command == "back":
            return -1
        if command == "empty":
            self._values[field.name] = field.empty_value()
            return 1
        if command != "skip":
            raise ValueError(f"unknown command: use {COMMANDS} (as text: !!{command})")
        if field.is_required:
            raise ValueError("a value is required; !decline declines the whole form")
        self._values[field.name] = None
        return 1

    # The review

    async def _review(self) -> dict[str, Value | None]:
        """Show all answers, accept changes, and return the answers to send."""
        terminal = self._terminal
        terminal.discard_input()
        count = len(self._fields)
        edit = "" if not count else "1: edit, " if count == 1 else f"1-{count}: edit, "
        prompt = f"s: send, {edit}d: decline, c: cancel > "
        while True:
            self._show_answers()
            text = (await terminal.prompt(prompt)).removeprefix("!").lower()
            if text in DISMISSALS:
                raise Dismissed(DISMISSALS[text])
            if text in {"s", "send"}:
                content = self._content()
                try:
                    fill_form(self._schema, content, self._requester.revision)
                except LocalProtocolError as error:
                    terminal.show([f"  {one_line(str(error))}"])
                    continue
                return content
            if text.isascii() and text.isdigit() and len(text) < 10:
                index = int(text) - 1
                if 0 <= index < len(self._fields):
                    await self._prompt_field(index)

    def _show_answers(self) -> None:
        heading = "Your answers:" if self._fields else "The form has no fields."
        lines = ["", heading]
        digits = len(str(len(self._fields)))
        for number, field in enumerate(self._fields, 1):
            text = shorten(field.format(self._values[field.name]), MAX_VALUE)
            lines.append(f"  {number:>{digits}}  {field.title}: {text}")
        self._terminal.show(lines)

    def _content(self) -> dict[str, Value | None]:
        """Return the answers to send; a skipped field with a default is null."""
        return {
            name: value
            for name, value in self._values.items()
            if value is not None or name in self._defaults
        }


LIST_SCHEMAS: Final = (UntitledMultiSelectEnumSchema, TitledMultiSelectEnumSchema)
BOOLEAN_WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False}
BOOLEAN_WORDS["false"] = False
MAX_LABEL: Final = 60
"""Maximum characters of a value or a title in a line."""


class Field:
    """One field of a form."""

    def __init__(
        self, name: str, schema: PrimitiveSchemaDefinition, *, is_required: bool
    ) -> None:
        self.name = name
        self.is_required = is_required
        self._schema = schema
        self._choices = list(choice_titles(schema).items())
        title = getattr(schema, "title", None)
        label = plain(shorten(name, MAX_LABEL))
        self.title = f"{plain(shorten(title, MAX_LABEL))} ({label})" if title else label

    # Description

    def lines(self, width: int) -> list[str]:
        """Return the description and the choices, for display below the title."""
        description = getattr(self._schema, "description", None)
        lines = quote_lines(description, width, "    ") if description else []
        digits = len(str(len(self._choices)))
        for number, (value, title) in enumerate(self._choices, 1):
            label = plain(shorten(title, MAX_LABEL))
            if title != value:
                label += f"  ({plain(shorten(value, MAX_LABEL))})"
            lines.append(f"    {number:>{digits}}  {label}")
        return lines

    @property
    def kind(self) -> str:
        """The accepted input, as in "an integer, 1 to 10"."""
        schema = self._schema
        if isinstance(schema, LIST_SCHEMAS):
            bounds = _range_text(schema.min_items, schema.max_items)
            how_many = f"{bounds} of these" if bounds else "any of these"
            return f"{how_many}, as numbers separated by commas"
        if self._choices:
            return "the number of one of these"
        if isinstance(schema, BooleanSchema):
            return "yes or no"
        if isinstance(schema, NumberSchema):
            noun = "an integer" if schema.type == "integer" else "a number"
            bounds = _range_text(schema.minimum, schema.maximum)
            return f"{noun}, {bounds}" if bounds else noun
        if isinstance(schema, StringSchema):
            length = _range_text(schema.min_length, schema.max_length)
            noun = format_problem("", schema.format) or "text"
            return f"{noun}, {length} characters" if length else noun
        return "text, or a value as JSON"

    def format(self, value: Value | None) -> str:
        """Return a value as escaped text; titles of choices are shortened."""
        if value is None:
            return "(omitted)"
        if isinstance(value, list):
            return ", ".join(map(self._format_choice, value)) or "(none)"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if self._choices and isinstance(value, str):
            return self._format_choice(value)
        return plain(value if isinstance(value, str) and value else json_text(value))

    def _format_choice(self, value: str) -> str:
        return plain(shorten(dict(self._choices).get(value, value), MAX_LABEL))

    # Input

    def parse(self, text: str) -> Value:
        """Convert a typed line to a valid value; raise ValueError for any other."""
        return check_value(self._schema, self._convert(text))

    def empty_value(self) -> Value:
        """Return an empty text or an empty list; raise ValueError if not allowed."""
        return check_value(
            self._schema, [] if isinstance(self._schema, LIST_SCHEMAS) else ""
        )

    def _convert(self, text: str) -> Any:
        schema = self._schema
        if isinstance(schema, LIST_SCHEMAS):
            # A line with only digits and spaces is split at spaces, others at commas.
            is_plain = re.fullmatch(r"[0-9 ]+", text)
            parts = text.split() if is_plain else map(str.strip, text.split(","))
            return [self._find_choice(part) for part in parts if part]
        if self._choices:
            return self._find_choice(text)
        if isinstance(schema, BooleanSchema):
            if text.lower() not in BOOLEAN_WORDS:
                raise ValueError(
                    f"expected yes or no, got {shorten(text, MAX_LABEL)!r}"
                )
            return BOOLEAN_WORDS[text.lower()]
        if isinstance(schema, NumberSchema):
            return read_typed(text, [schema.type])
        if isinstance(schema, UnknownSchema):
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(text)
        return text

    def _find_choice(self, text: str) -> str:
        """Return the choice with that number, value or title."""
        if text.isascii() and text.isdigit() and len(text) < MAX_LABEL:
            number = int(text)
            if 1 <= number <= len(self._choices):
                return self._choices[number - 1][0]
        for value, title in self._choices:
            if text in {value, title}:
                return value
        raise ValueError(
            f"expected a number from 1 to {len(self._choices)}, "
            f"got {shorten(text, MAX_LABEL)!r}"
        )


def _range_text(low: float | None, high: float | None) -> str:
    """Describe a range of numbers; an empty text if it has no bounds."""
    if low is not None and low == high:
        return f"exactly {low:g}"
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return f"at most {high:g}" if high is not None else ""


# --- pages


CONSENT: Final[dict[str, ElicitAction]] = {
    **dict.fromkeys(("y", "yes"), "accept"),
    **dict.fromkeys(("d", "n", "no", "decline"), "decline"),
    **dict.fromkeys(("c", "cancel"), "cancel"),
}

OPENER: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"

OPENER_TIMEOUT_S: Final = 3.0
"""If the opener still runs after this time, it is the browser itself."""

RUNNING_BROWSERS: Final[list[subprocess.Popen[bytes]]] = []
"""Browsers that outlive the command; they are never waited for."""


async def request_consent(
    url: str, message: str, requester: Requester, terminal: Terminal
) -> ElicitAction:
    """Show a URL that a server asks the person to visit; return the person's action."""
    terminal.show(requester.lines("asks you to visit a URL", message, terminal))
    terminal.show(_url_lines(url, terminal))
    terminal.discard_input()
    try:
        answer = await _choose(terminal, "y: agree, d: decline, c: cancel > ", CONSENT)
        if answer != "accept":
            return answer
        await _offer_to_open(url, terminal)
        # Since 2026-07-28 the answer is sent with a repeated call, so the person has
        # to finish at the page before that.
        ends_request = requester.revision.era is Era.STATELESS
        if ends_request and not await _confirm_done(terminal):
            return "cancel"
    except Dismissed as dismissed:
        return dismissed.action
    return "accept"


async def _confirm_done(terminal: Terminal) -> bool:
    """Wait until the person returns from a page; return whether to continue."""
    question = "When you have finished there, r: continue, c: cancel > "
    return await _choose(terminal, question, {"r": True, "c": False})


def _url_lines(url: str, terminal: Terminal) -> list[str]:
    """Return the lines for a URL: the whole URL, its host in bold, and warnings."""
    parts = describe_url(url)
    start = url.lower().find(parts.host, len("http://"))
    end = start + len(parts.host)
    host = terminal.strong(parts.host)
    styled = (url[:start], terminal.strong(url[start:end]), url[end:])
    lines = ["", f"  URL   {''.join(styled) if start > 0 else url}", f"  host  {host}"]
    if parts.unicode_host != parts.host:
        lines[-1] += f" (a browser may show {one_line(parts.unicode_host)})"
    lines += [
        f"  {terminal.strong('Warning')}: {warning}" for warning in parts.warnings
    ]
    return [
        *lines,
        "",
        "mcpwire has not opened this URL, and does not see what you do there.",
    ]


async def _offer_to_open(url: str, terminal: Terminal) -> None:
    """Ask whether to open the page in a browser; open it if agreed."""
    text = await terminal.prompt(
        "o: open it in your browser, Enter: open it yourself > "
    )
    if text.lower().removeprefix("!") in {"o", "open"}:
        opened = await asyncio.to_thread(open_in_browser, url)
        message = "Opened in your browser." if opened else "No browser could be opened."
        terminal.show([f"  {message}"])


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
        return process.wait(OPENER_TIMEOUT_S) == 0
    except subprocess.TimeoutExpired:
        RUNNING_BROWSERS.append(process)
        return True


# --- sampling


MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a program's answer; no model generates that much."""


def _sampling_result(text: str, model: str) -> CreateMessageResult:
    return CreateMessageResult("assistant", TextContent(text), model, "endTurn")


def _rejection(reason: str) -> RPCError:
    return RPCError(reason, code=USER_REJECTED)


def request_text(params: CreateMessageRequestParams) -> str:
    """Return the messages of a sampling request as text."""
    lines = [f"system: {params.system_prompt}"] if params.system_prompt else []
    for message in params.messages:
        for block in message.blocks:
            text = block.text if isinstance(block, TextContent) else f"[{block.type}]"
            lines.append(f"{message.role}: {text}")
    return "\n".join(lines)


async def _review_sampling(
    params: CreateMessageRequestParams,
    command: Sequence[str],
    requester: Requester,
    terminal: Terminal,
) -> CreateMessageResult:
    """Ask the person to agree to the request, then to the program's answer."""
    request = request_text(params)
    terminal.show(
        requester.lines("asks for an answer from your model", request, terminal)
    )
    limit = f"at most {params.max_tokens:,} tokens"
    terminal.show([f"  {limit}; the program that answers: {one_line(command[0])}"])
    await _require_consent(terminal, "y: run the program, d: decline > ")
    result = await run_program(params, command, requester)
    terminal.show(["The program's answer:", *quote_lines(result.text, terminal.width)])
    await _require_consent(terminal, "y: send it, d: decline > ")
    return result


async def _require_consent(terminal: Terminal, question: str) -> None:
    terminal.discard_input()
    with contextlib.suppress(Dismissed):
        if await _choose(terminal, question, CONSENT) == "accept":
            return
    raise _rejection("the user declined")


async def run_program(
    params: CreateMessageRequestParams, command: Sequence[str], requester: Requester
) -> CreateMessageResult:
    """Run a program that reads the request as JSON and prints the answer's text."""
    request = json.dumps(encode(params, requester.revision)).encode()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        raise InternalError(f"the client's program cannot be run: {error}") from error
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(request)
        process.stdin.close()
        await process.stdout.readexactly(MAX_ANSWER_BYTES + 1)
        raise InternalError("the answer of the client's program is too long")
    except asyncio.IncompleteReadError as error:
        answer = error.partial
        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            while await process.stdout.read(65_536):
                pass  # `wait` does not end while output is unread
            await process.wait()
    if process.returncode:
        raise InternalError(f"the client's program exited with {process.returncode}")
    text = answer.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    return _sampling_result(text, command[0])
