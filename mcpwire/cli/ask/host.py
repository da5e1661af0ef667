"""Decides who answers what a server asks: the command line, the person, or nobody.

What was given on the command line comes first; then the person, if there is a terminal
and the result is no JSON document; then the answer is no, and a line on stderr says to
what, and how it can be answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from mcpwire.cli.failures import UsageError
from mcpwire.cli.text.escape import one_line, shorten
from mcpwire.cli.text.quoting import plain, quoted
from mcpwire.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from mcpwire.cli.ask.answers import Answer
    from mcpwire.cli.ask.terminal import Person
    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Signals
    from mcpwire.client import Client
    from mcpwire.errors import UrlElicitationRequired
    from mcpwire.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitAction,
        ElicitRequestFormParams,
        ElicitRequestURLParams,
    )
    from mcpwire.versions import Revision

T = TypeVar("T")

__all__ = ["Asker", "Host"]

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
        """Say who asks, and for what."""
        heading = f"{person.strong(self.name)} {what}"
        lines = ["", heading, *quoted(message, person.width)]
        return [*lines, f"  asked by the server {self.command}"]


class Host:
    """Answers what the server of one command asks.

    Attributes:
        failure: What was wrong with an answer from the command line.
    """

    def __init__(self, options: Options, output: Output, signals: Signals) -> None:
        from mcpwire.cli.ask.terminal import Person

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
        """Say whose questions they are."""
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
                from mcpwire.cli.ask.forms import fill_in

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
            from mcpwire.cli.ask.pages import ask_consent

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
        from mcpwire.cli.ask.pages import is_done_there
        from mcpwire.cli.ask.terminal import Left

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
        from mcpwire.cli.ask import models

        text, program = self._options.sample, self._options.sample_program
        request = models.asked_text(params)
        if text is not None:
            self._tell(MODEL, "accept", request, "answered by --sample")
            return models.canned(text)
        if not program:
            hint = "--sample TEXT or --sample-with COMMAND allows it"
            self._tell(MODEL, "reject", request, f"refused ({hint})")
            raise models.rejection("the user has not allowed sampling")
        async with self._turn:
            asker = self._asker()
            if self._is_attended:
                work = models.reviewed(params, program, asker, self._person)
                return await self._asked(work)
            self._tell(MODEL, "accept", request, f"answered by {program[0]}")
            return await models.ask_program(params, program, asker)
