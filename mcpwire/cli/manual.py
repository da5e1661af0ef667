"""What ``mcpwire --help`` prints. Plain text, so that printing it imports nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["AUTH", "EPILOG", "OVERVIEW", "VERBS", "Verb"]


class Verb(NamedTuple):
    """One command: what it does and which words it takes after its target."""

    summary: str
    words: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    takes_arguments: bool = False
    takes_target: bool = True
    is_at_url: bool = False
    details: str = ""

    def usage(self, name: str) -> str:
        """Return its two forms: TARGET first, or the server at the end."""
        words = [*self.words, *(f"[{word}]" for word in self.optional)]
        words += ["[KEY=VALUE ...]"] if self.takes_arguments else []
        if not self.takes_target:
            return f"mcpwire {name} [options]"
        if self.is_at_url:
            return f"mcpwire {name} [options] URL"
        first = " ".join(["mcpwire", name, "[options]", "TARGET", *words])
        last = " ".join(["mcpwire", name, "[options]", *words, "-- SERVER [ARG ...]"])
        return f"{first}\n       {last}"


ARGUMENTS: Final = """\
arguments:
  key=value     a value as the tool's schema asks for it: integer, number, true or
                false, null, one of an enum, an array or object as JSON, else text
  key:=json     a JSON value, whatever the schema says
  key=@file     the text of a file (key:=@file: the JSON in it)
  -             one JSON object with arguments, from standard input
"""

LOGIN: Final = """\
It opens the browser, which comes back to a port of this machine. Where the browser is
on another one, --no-browser prints the URL to log in at and asks for the one that the
browser was sent to. Without a terminal it prints that URL, with exit code 3, and
--callback-url - finishes what was begun so, with the URL from standard input.
"""

VERBS: Final[dict[str, Verb]] = {
    "ls": Verb(
        "list a server's tools, resources, templates and prompts",
        details="With --config FILE in place of TARGET: those of all servers there.\n",
    ),
    "call": Verb(
        "call a tool and print its result",
        words=("TOOL",),
        takes_arguments=True,
        details=ARGUMENTS,
    ),
    "read": Verb(
        "print a resource, or save it",
        words=("URI",),
        details="Binary contents are not printed on a terminal: pipe them or use -o.\n",
    ),
    "prompt": Verb(
        "get a prompt, filled in",
        words=("NAME",),
        takes_arguments=True,
        details="A prompt's arguments are text: key=value or key=@file.\n",
    ),
    "complete": Verb(
        "ask how an argument of a prompt or template could go on",
        words=("REF", "ARG"),
        optional=("VALUE",),
        details="REF is prompt:NAME or the URI template of a resource.\n",
    ),
    "skills": Verb(
        "list a server's skills, or print what one says",
        optional=("URI",),
        details="It is checked before it is printed, which needs PyYAML.\n",
    ),
    "ping": Verb("measure how fast a server answers"),
    "info": Verb("show what was agreed on, how, and what a server says of itself"),
    "auth login": Verb(
        "log in to a server at a URL, for all commands from then on",
        is_at_url=True,
        details=LOGIN,
    ),
    "auth status": Verb(
        "show the login to a server",
        is_at_url=True,
        details="Nothing is asked of any server. Exit code 3: nobody is logged in.\n",
    ),
    "auth logout": Verb("forget the login to a server, here and there", is_at_url=True),
    "demo": Verb(
        "run the main job against the embedded server and print each step",
        takes_target=False,
    ),
    "demo-server": Verb(
        "be the embedded server, over stdio or HTTP", takes_target=False
    ),
}


def _verb_lines(before: str = "") -> str:
    shown = {
        name.removeprefix(before): verb.summary
        for name, verb in VERBS.items()
        if name.startswith(before)
    }
    width = max(map(len, shown)) + 2
    return "\n".join(f"  {name:<{width}}{said}" for name, said in shown.items())


OVERVIEW: Final = f"""\
usage: mcpwire COMMAND [options] TARGET [words]
       mcpwire COMMAND [options] [words] -- SERVER [ARG ...]
       mcpwire serve [options] MODULE:SERVER
       mcpwire gateway [options] [NAME=TARGET ...]

Talk to Model Context Protocol servers, and run them.

commands:
{_verb_lines()}
  serve        run a server of yours, on stdio or over HTTP
  gateway      serve many servers as one, on stdio or over HTTP

TARGET is a URL, or the server's command line as one word, quoted; it is run without a
shell. Or leave TARGET out and put the command at the end, after `--`: everything there
is passed on as it is. @NAME is a server of a configuration: --config FILE, ./mcp.json.

  mcpwire auth login https://mcp.example.com/mcp
  mcpwire ls https://mcp.example.com/mcp
  mcpwire ls "npx -y @modelcontextprotocol/server-everything"
  mcpwire call "uvx mcp-server-time" get_current_time timezone=UTC
  mcpwire call get_current_time timezone=UTC -- uvx mcp-server-time
  mcpwire call @time get_current_time timezone=UTC
  mcpwire ls --config mcp.json

`mcpwire COMMAND --help` shows a command's options; `mcpwire --version` the version.
"""

AUTH: Final = f"""\
usage: mcpwire auth COMMAND [options] URL

Log in to servers at a URL.

commands:
{_verb_lines("auth ")}

`mcpwire auth COMMAND --help` shows a command's options.
"""

EPILOG: Final = """\
exit codes:
  0 ok   1 internal   2 usage   3 authorization   4 no connection   5 tool error
  6 protocol violation   7 timeout   8 JSON-RPC error   130 interrupted
"""
