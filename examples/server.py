"""A server of notes: `python server.py`, or `mcpwire serve server.py --http :8000`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import mcpwire
from mcpwire import Arg, Context, Depends, ToolError


@dataclass
class Note:
    """A result of the tools; clients get its JSON Schema."""

    title: str
    text: str
    tags: list[str] = field(default_factory=list)


@asynccontextmanager
async def lifespan(_: mcpwire.Server) -> AsyncIterator[dict[str, Note]]:
    """Open the resources of the server: a dict here, a database elsewhere."""
    yield {"tea": Note("tea", "Boil water.", ["kitchen"])}


async def all_notes(ctx: Context) -> Any:
    """Return the notes for a function; its schema does not contain them."""
    return ctx.lifespan


Notes = Annotated[dict[str, Note], Depends(all_notes)]

server = mcpwire.Server("notes", "1.0", lifespan=lifespan, instructions="Keeps notes.")


@server.tool(annotations={"readOnlyHint": True})
async def find(
    words: Annotated[str, "What to look for"],
    notes: Notes,
    limit: Annotated[int, Arg(ge=1, le=100)] = 10,
) -> list[Note]:
    """Find notes by their title or text."""
    found = [note for note in notes.values() if words in note.title + note.text]
    return found[:limit]


@server.tool
async def write(note: Note, ctx: Context, notes: Notes) -> str:
    """Write a note; ask the user before overwriting one."""
    if note.title in notes:
        answer = await ctx.elicit(f"Overwrite {note.title!r}?", bool)
        if not answer.value:
            raise ToolError("the user wants to keep the old one")
    notes[note.title] = note
    server.notify_resource_updated(f"note://{note.title}")
    return f"wrote {note.title!r}"


@server.tool(timeout=60)
async def export(ctx: Context, notes: Notes) -> str:
    """Return one text of all notes, and report progress."""
    parts = []
    for number, note in enumerate(notes.values(), start=1):
        parts.append(f"# {note.title}\n{note.text}")
        ctx.progress(number, len(notes), note.title)
    return "\n".join(parts)


@server.resource("note://{title}", mime_type="text/markdown")
async def read(title: str, notes: Notes) -> str | None:
    """Read one note; ``None`` means that it does not exist."""
    return notes[title].text if title in notes else None


@server.prompt
async def improve(
    title: str, notes: Notes, style: Literal["short", "friendly"] = "short"
) -> str:
    """Improve a note."""
    if title not in notes:
        raise mcpwire.InvalidParams(f"there is no note {title!r}")
    return f"Make this note {style}:\n{notes[title].text}"


@server.completion("improve", "title")
@server.completion("note://{title}", "title")
async def titles(typed: str, notes: Notes) -> list[str]:
    """Complete the titles of notes, for the prompt and for the template."""
    return [title for title in notes if title.startswith(typed)]


if __name__ == "__main__":
    server.run()
