"""Tools in the formats of model APIs, and the calls in models' answers.

`Export` converts tools to the format of a vendor's API and remembers its changes: names
that the vendor refuses, and arguments that strict mode requires. So the calls in a
model's answer are converted back to the original names and arguments::

    offered = Export(tools, "anthropic")
    ...                                   # your request, with tools=offered
    for call in offered.calls(answer):
        ...                               # call.name, call.arguments
    messages += offered.results(outcomes)

All formats are plain objects; no vendor's library is needed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcpwire.exporters import anthropic, gemini, neutral, openai
from mcpwire.exporters.neutral import Exportable, Form, ModelCall, Outcome
from mcpwire.exporters.schemas import (
    NameRule,
    VendorNames,
    merge_root_alternatives,
    remove_nulls,
    rename_members,
)
from mcpwire.limits import check_choice
from mcpwire.tools.results import cut_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.exporters.neutral import Outcomes
    from mcpwire.types import JsonObject

__all__ = ["EXPORT_FORMS", "Export", "ExportForm", "Exportable", "ModelCall", "Outcome"]

ExportForm: TypeAlias = Literal[
    "neutral", "anthropic", "openai", "openai-responses", "gemini"
]


_FORMS: Final[dict[str, Form]] = {
    "neutral": neutral.FORM,
    "anthropic": anthropic.FORM,
    "openai": openai.CHAT,
    "openai-responses": openai.RESPONSES,
    "gemini": gemini.FORM,
}

EXPORT_FORMS: Final = tuple(_FORMS)


class Export(list["JsonObject"]):
    """Tools in the format of an API: a list of objects that converts calls back.

    Args:
        tools: Views of tools, or other objects with name, description and schema.
        form: ``"neutral"``, ``"anthropic"`` (Messages), ``"openai"`` (chat
            completions), ``"openai-responses"``, or ``"gemini"`` (function
            declarations).
        strict: Whether tools use OpenAI's strict mode, if it can express their
            schemas.
        max_description: The largest size of a description in UTF-8; some deployments
            refuse more than 1024 bytes.

    Raises:
        ValueError: The form is unknown, or has no strict mode.
    """

    def __init__(
        self,
        tools: Iterable[Exportable],
        form: ExportForm = "neutral",
        *,
        strict: bool = False,
        max_description: int | None = None,
    ) -> None:
        exported = tuple(tools)
        api_form = self._api_form = _FORMS[check_choice(form, "form", EXPORT_FORMS)]
        self.form = form
        """The form, such as ``"anthropic"``."""

        self.names = VendorNames((tool.name for tool in exported), api_form.names)
        """The original names and the vendor's."""

        if strict and not api_form.can_be_strict:
            raise ValueError(f"the form {form!r} has no strict mode")
        make_tool = partial(api_form.tool, strict=True) if strict else api_form.tool
        self._original_schemas = {
            tool.name: merge_root_alternatives(tool.input_schema)
            for tool in (exported if strict else ())
        }
        self._arguments: dict[str, VendorNames] = {}
        super().__init__(
            make_tool(
                self.names.of(tool.name),
                tool.description or ""
                if max_description is None
                else cut_text(tool.description or "", max_description),
                self._schema(tool, api_form.arguments),
            )
            for tool in exported
        )

    def _schema(self, tool: Exportable, rule: NameRule | None) -> JsonObject:
        if rule is None:
            return tool.input_schema
        schema, names = rename_members(merge_root_alternatives(tool.input_schema), rule)
        if names is not None:
            self._arguments[tool.name] = names
        return schema

    def calls(self, answer: object) -> list[ModelCall]:
        """Return the calls in a model's answer, with the original names.

        Args:
            answer: The response, the message in it, or the list of its parts: plain
                objects, or models of a vendor's library, which have `model_dump`.

        An unknown name is returned unchanged, so that its lookup fails as for any
        unknown tool. A call with invalid arguments has a `problem`.
        """
        return list(map(self._restore_call, self._api_form.calls(answer)))

    def results(self, outcomes: Outcomes, *, media: bool = True) -> list[JsonObject]:
        """Return the messages with the results of calls for a model.

        Args:
            outcomes: Each call with its result, an exception, or a text that describes
                the failure; all calls of one answer, in order.
            media: Whether images, audio and files are included if the API accepts
                them; else the text has a line for each.
        """
        return self._api_form.results(outcomes, media=media)

    def _restore_call(self, call: ModelCall) -> ModelCall:
        name = self.names.find(call.called_as)
        if name is None:
            return call
        arguments = call.arguments
        names = self._arguments.get(name)
        if names is not None:
            arguments = {names.find(key) or key: arguments[key] for key in arguments}
        schema = self._original_schemas.get(name)
        if schema is not None:
            arguments = remove_nulls(arguments, schema, schema)
        return attrs.evolve(call, name=name, arguments=arguments)
