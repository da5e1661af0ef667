"""Has a form filled in: field by field, then all of it to be looked at before it goes.

2025-11-25 client/elicitation, "User Interaction Model": who asks is shown, every answer
can be reviewed and changed before it is sent, and declining or cancelling is possible
at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.cli.ask.fields import Field
from mcpwire.cli.ask.terminal import Left
from mcpwire.cli.text.escape import one_line, shorten
from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.elicitation import fill_form, form_defaults
from mcpwire.types.elicitation import UnknownSchema

if TYPE_CHECKING:
    from mcpwire.cli.ask.host import Asker
    from mcpwire.cli.ask.terminal import Person
    from mcpwire.protocol.elicitation import Value
    from mcpwire.types import ElicitAction, ElicitRequestFormParams, RequestedSchema

__all__ = ["fields_of", "fill_in"]

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
        """Say who asks what, and how it is answered."""
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
