"""Runs the code blocks of the documents, and compares the output with the shown one.

``python tests/docs/documents.py --write`` writes the real output into the documents.

===========  ==============================================================
``python``   a program; without ``asyncio.run`` it gets a `client` of the
             demo server around it, in http.md of one at a URL. One that
             begins with ``# name.py`` is a file for the commands below it
``console``  ``$ command`` lines for a shell, each followed by its output
``text``     behind a program its output, else only to be read
``sh``       only to be read: what changes the machine, or serves until it is ended
===========  ==============================================================

The pages about servers (`IN_PROCESS`) have snippets as for ``python -m asyncio``, with
a `server` before them: they run here, without a process for each.

Programs of the documents are found through a folder of shims: nothing is fetched. What
shows the address of a server on this machine gets one, on any port that is free. Who
logs in does it at a terminal, with a browser that consents, and keeps it for the block.
What clients send and get meanwhile `watched` sees, for the record in `tests/record`.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import itertools
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

import pytest  # noqa: E402 - found through the line above
import watched  # noqa: E402 - as above
from real_servers import real_server  # noqa: E402 - as above
from served import ADDRESS, served  # noqa: E402 - as above
from unmeasured import unmeasured  # noqa: E402 - as above

import mcpwire  # noqa: E402 - as above

if TYPE_CHECKING:
    from warmed import ForkServer

ROOT = TESTS.parent
PAGES = {path.name for path in (ROOT / "docs").glob("*.md")} - {"architecture.md"}
DOCUMENTS = ("README.md", *sorted(f"docs/{name}" for name in PAGES))
IN_PROCESS = frozenset(
    {
        *(f"docs/{name}.md" for name in ("config", "gateway", "group", "tools")),
        *(f"docs/{name}.md" for name in ("server", "server-auth", "server-http")),
        *("docs/tasks.md", "docs/transports.md"),
    }
)
MEASURED_DOCUMENTS = frozenset({"docs/bench.md"})
"""Pages with figures that differ in each run; their traffic is not recorded."""

LANGUAGES = frozenset({"python", "console", "text", "sh"})
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROGRAM_TIMEOUT_S = 60.0
EVERYTHING = "@modelcontextprotocol/server-everything"

FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

FILE = re.compile(r"# ([\w/]+\.py)\n")

AROUND = """\
import asyncio
import mcpwire

async def main():
    async with mcpwire.Client("{target}") as client:
{code}

asyncio.run(main())
"""

MEASURED = re.compile(r" *\d[\d,]*(\.\d+)?(?= (ms|µs|s)\b)|\d[\d,]*(?=/s)")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d UTC")
QUERY = re.compile(r"(?<=/authorize\?)\S+")
BROWSER = """\
import os, sys, urllib.request
if os.fork():  # as browsers do: what was started returns
    os._exit(0)
with urllib.request.urlopen(sys.argv[1]) as page:
    page.read()
"""
VERSION = re.compile(r"\b\d+\.\d+\.\d+(\.dev\d+|rc\d+)?\b")
BETWEEN = re.compile(r"```\s*```text\n")
FIGURE = re.compile(
    r"(?<![\w.])-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( ?(us|ms|s|[KMG]iB|B)\b)?(/s|%)?"
    r"|-(?= |$)"
)
VERDICT = re.compile(r"\b(better|worse|no difference shown)$")


class Block(NamedTuple):
    document: str
    line: int
    language: str
    text: str
    span: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(
            document,
            text.count("\n", 0, match.start()) + 1,
            match[1],
            match[2],
            match.span(2),
        )
        for match in FENCE.finditer(text)
    ]


def pairs(document: str) -> list[tuple[Block, Block | None]]:
    """Return the blocks to run, each with the block that shows its output."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = blocks(document)
    result: list[tuple[Block, Block | None]] = []
    for block, after in itertools.zip_longest(found, found[1:]):
        if block.language == "console":
            result.append((block, block))
        elif block.language == "python" and file_name(block) is None:
            follows = after is not None and BETWEEN.fullmatch(
                text, block.span[1], after.span[0]
            )
            result.append((block, after if follows else None))
    return result


def record_name(block: Block) -> str:
    """Return a name from the block's heading, stable when other lines change."""
    text = (ROOT / block.document).read_text(encoding="utf-8")
    above = FENCE.sub("\0", text[: block.span[0]])
    heading = list(HEADING.finditer(above))[-1]
    number = above.count("\0", heading.end()) + 1
    return f"{block.document} {heading[1]} {number}"


def file_name(block: Block) -> str | None:
    """Return the file name of a block, or ``None`` if the block is not a file."""
    found = FILE.match(block.text) if block.language == "python" else None
    return None if found is None else found[1]


def files_for(block: Block) -> dict[str, str]:
    """Return the files that a document has shown before a block, by name."""
    return {
        name: each.text
        for each in blocks(block.document)
        if (name := file_name(each)) and each.line < block.line
    }


def commands(block: Block) -> list[str]:
    return [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]


def is_recorded(block: Block) -> bool:
    """Return whether the traffic of the block's clients is in the record.

    A check of a client runs it many times at once, against servers that are wrong.
    """
    checks_client = "check client" in block.text or "run_client" in block.text
    return block.document not in MEASURED_DOCUMENTS and not checks_client


def needs_everything(block: Block) -> bool:
    return EVERYTHING in block.text


def normal(text: str) -> str:
    """Return the text without the parts that differ from run to run."""
    text = QUERY.sub("...", DATE.sub("DATE", text))
    return VERSION.sub("VERSION", MEASURED.sub("N", text))


def without_figures(text: str) -> str:
    """Return the text of a measurement without the parts that depend on the machine.

    Those are numbers with their units, their padding, verdicts, and notes about a busy
    machine.
    """
    lines = [line for line in text.splitlines() if not line.startswith("note: ")]
    shown = VERSION.sub("VERSION", "\n".join(VERDICT.sub("V", line) for line in lines))
    words = map(str.split, FIGURE.sub("N", shown).splitlines())
    return "\n".join(map(" ".join, words))


class Runner:
    """Runs blocks in a separate folder, with shims for the programs they name.

    With a fork server, the programs are forked from it.
    """

    def __init__(self, folder: Path, forking: ForkServer | None = None) -> None:
        self.shims = folder / "shims"
        self.shims.mkdir()
        self.folder = folder / "work"
        self.folder.mkdir()
        self.seen = folder / "seen"
        self.seen.mkdir()
        watched_by = f'{watched.VARIABLE}="{self.seen}" PYTHONPATH="{TESTS / "docs"}"'
        python = f'{watched_by} exec "{sys.executable}"'
        if forking is None:
            self._programs(python)
        else:
            launched = shlex.join(forking.command("-m", "forked"))
            self._programs(f"{watched_by} exec {launched}")
            # pytest rewrites only modules that were not imported before.
            either = f'test "$1" != -m || {python} "$@"\n{watched_by} exec {launched}'
            self.python = self._shim("python", f'{either} "$@"')
        (folder / "browser.py").write_text(BROWSER, encoding="utf-8")
        self._shim("browser", f'{python} -S "{folder}/browser.py" "$@"')
        self.state = folder / "state"
        self.state.mkdir()
        self.everything = real_server("everything", folder)
        server = " ".join(f'"{word}"' for word in self.everything.argv)
        self._shim("npx", f'test "$*" = "-y {EVERYTHING}" || exit 127\nexec {server}')

    def _programs(self, python: str) -> None:
        """Write the shims of our own programs, by how Python is started."""
        self._shim("mcpwire", f'{python} -m mcpwire "$@"')
        self.python = self._shim("python", f'{python} "$@"')

    def _shim(self, name: str, code: str) -> str:
        path = self.shims / name
        path.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def _printed(self, block: Block) -> str:
        with pytest.MonkeyPatch.context() as patch:
            watched.install(self.seen, patch.setattr)
            return printed(block)

    def output(self, block: Block) -> str:
        """Return the output that the block should show, commands included."""
        if block.document in IN_PROCESS and block.language == "python":
            return self._printed(block)
        if block.document in MEASURED_DOCUMENTS:
            self._programs(f'exec "{sys.executable}"')
        for name, text in files_for(block).items():
            (self.folder / name).write_text(text, encoding="utf-8")
        if block.language == "python":
            code = program(block)
            with served(code) as place:
                raw = self._run([self.python, "-c", place.put(code)])
            return place.show(raw)
        parts = []
        with served(block.text) as place:
            for command in commands(block):
                run = self._type if " auth login " in command else self._run
                raw = run(["/bin/sh", "-c", place.put(command)])
                parts.append(f"$ {command}\n{place.show(raw)}")
        return "".join(parts)

    def _run(self, argv: list[str]) -> str:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=self.environment,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
        text = done.stdout.decode()
        return text if not text or text.endswith("\n") else f"{text}\n"

    @property
    def environment(self) -> dict[str, str]:
        return unmeasured(
            PATH=f"{self.shims}:{os.environ['PATH']}",
            XDG_STATE_HOME=str(self.state),
            BROWSER=str(self.shims / "browser"),
        )

    def _type(self, argv: list[str]) -> str:
        parent_fd, child_fd = pty.openpty()
        process = subprocess.Popen(
            argv,
            stdin=child_fd,
            stdout=child_fd,
            stderr=child_fd,
            cwd=self.folder,
            env={**self.environment, "TERM": "dumb"},
        )
        os.close(child_fd)
        received = b""
        # Linux reports the end as an error; the login's own timeout bounds the loop.
        with contextlib.suppress(OSError):
            while data := os.read(parent_fd, 65_536):
                received += data
        os.close(parent_fd)
        process.wait(PROGRAM_TIMEOUT_S)
        return received.decode().replace("\r\n", "\n")


def program(block: Block) -> str:
    """Return a block's code as a whole program."""
    code = block.text
    if "asyncio.run(" in code or re.search(r"mcpwire\.sync\.(Client|Group)\(", code):
        return code
    at_url = block.document.endswith("http.md")
    target = f"http://{ADDRESS}/mcp" if at_url else "mcpwire demo-server"
    return AROUND.format(code=textwrap.indent(code, " " * 8), target=target)


def printed(block: Block) -> str:
    """Run a snippet in this process, on a new loop; return its output."""
    code = compile(
        block.text, "server.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    names = {
        "__name__": "__main__",
        "asyncio": asyncio,
        "mcpwire": mcpwire,
        "server": mcpwire.Server("demo", "1.0"),
    }
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        outcome = eval(code, names)
        if inspect.iscoroutine(outcome):
            asyncio.run(asyncio.wait_for(outcome, PROGRAM_TIMEOUT_S))
    return stdout.getvalue()


def is_same(block: Block, output: str, shown: str) -> bool:
    """Return whether a document shows the output of a block."""
    if block.document in MEASURED_DOCUMENTS:
        return without_figures(output) == without_figures(shown)
    return normal(output) == normal(shown)


def write() -> None:
    """Write the real output of each block into its document."""
    for document in DOCUMENTS:
        path = ROOT / document
        text = path.read_text(encoding="utf-8")
        for block, shown in reversed(pairs(document)):
            if shown is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                output = Runner(Path(folder)).output(block)
            if not is_same(block, output, shown.text):
                start, end = shown.span
                text = text[:start] + output + text[end:]
                sys.stdout.write(f"{shown}: written\n")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/docs/documents.py --write")
    write()
