"""A server with every feature, written with mcpwire's public names, for the cases.

Without arguments it serves stdio; ``--http PORT`` serves HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Annotated, Literal

import mcpwire
from mcpwire import Arg, Context, Image, Skills, Tasks, types

TEA = {
    "SKILL.md": "---\nname: tea\ndescription: How to make tea.\n---\nBoil water.\n",
    "notes/leaves.md": "Two spoons.\n",
}

server = mcpwire.Server(
    "mcpwire-subject",
    "1.0",
    page_size=4,
    extensions=[Tasks(poll_interval=0.02), Skills({"tea": TEA})],
)

READS = {"annotations": {"readOnlyHint": True}}
ICON = "data:image/png;base64,iVBORw0KGgo="
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(8)


@server.tool(**READS)
async def echo(message: str) -> str:
    """Give a text back."""
    return message


@server.tool(**READS)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(**READS)
async def slow(seconds: float = 0.05) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool(**READS)
async def big(characters: int = 200_000) -> str:
    """Return a long text."""
    return "x" * characters


@server.tool(**READS)
async def notify(context: Context, steps: int = 3) -> str:
    """Report progress and write to the log."""
    for step in range(steps):
        context.progress(step + 1, steps)
        context.info(f"step {step + 1}")
    return "done"


@server.tool(**READS)
def forecast(
    city: Annotated[str, Arg(header="City")],
    days: Annotated[int, Arg(header="Days")] = 1,
    exact: Annotated[bool, Arg(header="Exact")] = False,  # noqa: FBT002 - a tool's
) -> str:
    """Repeat arguments that HTTP repeats in header fields."""
    return f"{city} {days} {exact}"


@server.tool(**READS)
async def poll(context: Context) -> str:
    """End the stream before the answer, so that clients come back for it."""
    context.close_stream(retry=0.05)
    await asyncio.sleep(0.1)
    return "done"


@server.resource("subject://text", mime_type="text/plain")
async def text() -> str:
    """A text."""
    return "a text"


@server.resource("subject://item/{name}")
async def item(name: str) -> str:
    """One of many."""
    return f"item {name}"


@server.prompt
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}"


# --- for the cases of features --------------------------------------------------------


@server.tool(
    icons=[types.Icon("https://example.com/search.png", mime_type="image/png")],
    meta={"com.example/kind": "search"},
    **READS,
)
async def search(
    query: Annotated[str, Arg(min_length=1, max_length=50)],
    limit: Annotated[int, Arg(ge=1, le=100)] = 10,
    sort: Literal["name", "date"] = "name",
) -> list[str]:
    """Search for something."""
    return [f"{query} by {sort}"][:limit]


@server.tool(structured=False, **READS)
async def pictures() -> list:
    """Show blocks of every kind."""
    return [
        "a picture",
        Image(PIXEL, mime_type="image/png"),
        types.ResourceLink("subject://text", "text"),
        types.EmbeddedResource(types.TextResourceContents("subject://text", "a text")),
    ]


@server.tool(**READS)
async def fail() -> str:
    """Fail always."""
    raise KeyError("a secret of the inside")


@server.tool(**READS)
async def ask(context: Context) -> str:
    """Ask the user for a name."""
    answer = await context.elicit("Your name?", str)
    return f"{answer.action}: {answer.value}"


@server.tool(title="Sample", icons=[types.Icon(ICON)], **READS)
async def sample(context: Context) -> str:
    """Ask the client's model, with tools if it takes them."""
    tool = types.Tool("add", {"type": "object"})
    tools = [tool] if context.can("sampling.tools") else None
    answer = await context.sample("Say hello.", max_tokens=10, tools=tools)
    return f"{answer.model} answered"


@server.tool(task="optional", **READS)
async def later(context: Context, seconds: float = 0.1) -> str:
    """Take a while, as a task too."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool(task="required", **READS)
async def only_later() -> str:
    """Run as a task only."""
    return "done"


@server.tool(name="change", **READS)
async def change() -> str:
    """Show a tool, a prompt and a resource, or hide them again."""
    handles = (
        server.tools["extra"],
        server.prompts["extra"],
        server.resources["subject://extra"],
    )
    shows = next(state)
    for handle in handles:
        handle.enable() if shows else handle.disable()
    server.notify_resource_updated("subject://text")
    return "shown" if shows else "hidden"


def _alternate():
    while True:
        yield True
        yield False


state = _alternate()


@server.tool(**READS)
async def extra() -> str:
    """Be there now and then."""
    return "here"


@server.prompt(name="extra")
async def extra_prompt() -> str:
    """Be there now and then."""
    return "here"


server.add_resource("subject://extra", "here")
server.add_resource(
    "subject://picture.png",
    PIXEL,
    mime_type="image/png",
    size=16,
    annotations=types.Annotations(last_modified="2026-01-12T15:00:58Z"),
)
for _name in ("one", "two", "three"):
    server.add_resource(f"subject://{_name}", _name)

for _kind in ("a", "b", "c", "d"):

    @server.resource(f"subject://{_kind}/{{name}}", name=_kind)
    async def of_kind(name: str) -> str:
        """One of a kind."""
        return f"{name}"

    @server.prompt(name=f"say-{_kind}")
    async def say(word: str, tone: Literal["loud", "low"] = "low") -> str:
        """Say a word."""
        return f"Say {word}, {tone}."


@server.prompt
async def show() -> list:
    """Show a picture."""
    return ["What is this?", Image(PIXEL, mime_type="image/png")]


@server.completion("greet", "name")
async def names(typed: str) -> types.Completion:
    found = [name for name in ("Ada", "Alan", "Grace") if name.startswith(typed)]
    return types.Completion(found, total=len(found), has_more=False)


for _handle in (
    server.tools["extra"],
    server.prompts["extra"],
    server.resources["subject://extra"],
):
    _handle.disable()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--http", type=int, metavar="PORT")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    if options.uvloop:
        import uvloop

        uvloop.install()
    server.run(http=None if options.http is None else f"127.0.0.1:{options.http}")


if __name__ == "__main__":
    main()
