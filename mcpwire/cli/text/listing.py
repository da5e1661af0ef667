"""Writes what a server offers: a section each for tools, resources, templates, prompts.

Every line is printable, on a terminal or not: a listing is for reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwire.cli.text.escape import one_line
from mcpwire.cli.text.signatures import badges, prompt_signature, tool_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwire.types import Prompt, Resource, ResourceTemplate, Skill, Tool

__all__ = [
    "Style",
    "first_line",
    "prompts",
    "resources",
    "skills",
    "templates",
    "tools",
]

NAME_INDENT = "  "
TEXT_INDENT = "      "
MAX_DESCRIPTION = 120


class Style:
    """How headings and asides are shown, and how wide a line may be."""

    def __init__(
        self,
        bold: Callable[[str], str] = str,
        dim: Callable[[str], str] = str,
        width: int | None = None,
    ) -> None:
        self.bold = bold
        self.dim = dim
        self.width = width


def first_line(text: str | None) -> str:
    """Return the first line that says anything; of a long one its first sentences."""
    lines = (line.strip() for line in (text or "").split("\n"))
    line = one_line(next((line for line in lines if line), ""))
    if len(line) <= MAX_DESCRIPTION:
        return line
    head = line[: MAX_DESCRIPTION - len(" ...")]
    sentence = head.rfind(". ") + 1
    return f"{head[: sentence or max(head.rfind(' '), 0)] or head} ..."


def tools(items: Sequence[Tool], style: Style) -> list[str]:
    """Write the section of the tools."""
    lines = [style.bold(f"Tools ({len(items)})")]
    width = style.width - len(NAME_INDENT) if style.width is not None else None
    for tool in items:
        signature = tool_signature(tool, width)
        words = badges(tool.annotations)
        if words:
            signature[-1] += style.dim(f"  [{', '.join(words)}]")
        lines += _entry(signature, tool.description or tool.title, style)
    return lines


def resources(items: Sequence[Resource], style: Style) -> list[str]:
    """Write the section of the resources."""
    lines = [style.bold(f"Resources ({len(items)})")]
    for item in items:
        size = f"{item.size:,} bytes" if item.size is not None else None
        lines += _named(item.uri, item, (item.mime_type, size), style)
    return lines


def templates(items: Sequence[ResourceTemplate], style: Style) -> list[str]:
    """Write the section of the resource templates."""
    lines = [style.bold(f"Resource templates ({len(items)})")]
    for item in items:
        lines += _named(item.uri_template, item, (item.mime_type,), style)
    return lines


def prompts(items: Sequence[Prompt], style: Style) -> list[str]:
    """Write the section of the prompts."""
    lines = [style.bold(f"Prompts ({len(items)})")]
    width = style.width - len(NAME_INDENT) if style.width is not None else None
    for prompt in items:
        signature = prompt_signature(prompt, width)
        lines += _entry(signature, prompt.description or prompt.title, style)
    return lines


def skills(items: Sequence[Skill], style: Style) -> list[str]:
    """Write the section of the skills."""
    lines = [style.bold(f"Skills ({len(items)})")]
    for item in items:
        files = "dynamic" if item.is_dynamic else f"{len(item.resources)} file(s)"
        line = one_line(item.uri) + style.dim(f"  [{files}]")
        said = first_line(item.description)
        name = one_line(item.name)
        lines += _entry([line], f"{name}: {said}" if said else name, style)
    return lines


def _named(
    uri: str,
    item: Resource | ResourceTemplate,
    facts: tuple[str | None, ...],
    style: Style,
) -> list[str]:
    known = ", ".join(one_line(fact) for fact in facts if fact)
    line = one_line(uri) + (style.dim(f"  [{known}]") if known else "")
    name, said = one_line(item.display_name), first_line(item.description)
    return _entry([line], f"{name}: {said}" if said and said != name else name, style)


def _entry(lines: list[str], description: str | None, style: Style) -> list[str]:
    found = [f"{NAME_INDENT}{line}" for line in lines]
    said = first_line(description)
    if not said:
        return found
    if style.width is not None and len(said) + len(TEXT_INDENT) > style.width:
        from textwrap import wrap

        room = max(style.width - len(TEXT_INDENT), 20)
        return found + [f"{TEXT_INDENT}{line}" for line in wrap(said, room)]
    return [*found, f"{TEXT_INDENT}{said}"]
