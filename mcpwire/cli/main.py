"""The table of the commands, and the entry point that parses, runs and reports one.

A new command is a row of `COMMANDS`: the function that runs it, its help text, and the
groups of its options (`mcpwire.cli.options`). Its module is imported when it runs, so
that ``--help`` and a typing error do not import the client.

All exceptions are caught here: a person gets one sentence and a script gets one exit
code, never a traceback (except for internal errors, with -v).
"""

from __future__ import annotations

import importlib
import re
import sys
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwire._package import __version__
from mcpwire.cli import options as o
from mcpwire.cli.failures import (
    Exit,
    OutputError,
    UsageError,
    close_matches,
    did_you_mean,
    exit_code,
    unknown_name,
)
from mcpwire.cli.output import Output, discard_stdout, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence


class Command(NamedTuple):
    """A command of the command line."""

    run: str
    """``module:function`` in `mcpwire.cli`; takes `Options`, returns the exit code."""

    summary: str
    groups: tuple[type[o.Group], ...]
    target: str = "TARGET"
    """The first word: `TARGET`, any server; `URL`, one at a URL; empty: no server."""

    words: str = ""
    """The words after the target: `NAME`, `[OPTIONAL]`, `[ANY NUMBER ...]`."""

    details: str = ""
    description: str = ""

    def word_counts(self) -> tuple[list[str], float]:
        """Return the required words and the maximum number of words."""
        words = re.findall(r"\[[^]]*\]|\S+", self.words)
        required = [word for word in words if not word.startswith("[")]
        return required, inf if "..." in self.words else len(words)

    def usage(self, name: str) -> str:
        """Return the usage: TARGET first, or the server's command at the end."""
        head = f"mcpwire {name} [options]"
        words = f" {self.words}" if self.words else ""
        first = f"{head}{self.target and f' {self.target}'}{words}"
        if self.target != "TARGET":
            return first
        return f"{first}\n       {head}{words} -- SERVER [ARG ...]"


ARGUMENTS: Final = """\
arguments:
  key=value     a value as the tool's schema asks for it: integer, number, true or
                false, null, one of an enum, an array or object as JSON, else text
  key:=json     a JSON value, whatever the schema says
  key=@file     the text of a file (key:=@file: the JSON in it)
  -             one JSON object with arguments, from standard input
"""

LOGIN: Final = """\
It opens the browser, which returns to a port of this machine. Where the browser is
on another one, --no-browser prints the URL to log in at and asks for the one that the
browser was sent to. Without a terminal it prints that URL, with exit code 3, and
--callback-url - finishes what was begun so, with the URL from standard input.
"""

CHECK: Final = """\
It runs cases in all protocol revisions that the server speaks: each sends something and
checks the answer against a rule. Only tools that say that they only read are called. A
finding shows its octets and the command that repeats it. `mcpwire check list` and
`mcpwire check explain ID` show the cases, `mcpwire check diff` and `mcpwire check page`
work on the reports of --json. One answer may take 5 s, or --timeout; then the case is a
hang. It needs the package jsonschema-rs.

exit codes of check: 0 no MUST is broken, 6 one is, or a crash or hang, 7 the budget ran
out, 9 worse than the baseline.
"""

BENCH: Final = """\
With --rate calls begin when they are due, and latency counts from then, also where the
server is too slow to take them (open loop); without, each of --users waits for its
answer (closed loop). The floor is a server that does nothing, measured in turns with
this one under the same load. It needs the package hdrhistogram.

exit codes of bench: 0 measured, 9 a --fail-if is true.
"""

COMPARE: Final = """\
The intervals of all figures hold their ratios together in 99 of 100 cases, so that of
two results that do not differ, hardly ever one has a figure that is called worse.

exit codes of bench compare: 0 no figure is worse, 9 one is.
"""

CLIENTS: Final = """\
TARGET is here the command line of the client, a program that calls the tool `echo` as
often as it likes, and ends. In it {target} stands for the command line of the server,
or with --http for its URL; without {target} that comes last.
"""

START: Final = """\
A start ends when the first list of tools is there. The floor is the start of a server
in Python that does nothing, in turns with this one. The figures of --fail-if are
handshake, first list (both from the begin of the process on) and cpu.
"""

SIZE: Final = """\
It looks at the server's processes after the handshake, after the first list of tools,
and after calls. A server at a URL has to be of this machine. The figures of --fail-if
are those at the end: processes, threads, descriptors, resident, private, mapped files.
"""

SOAK: Final = """\
As bench, for 10 minutes (--for) without a new start. `memory slope` is how fast its
memory grows, and `p99 drift` how far p99 of the last tenth of the time is above that
of the first: --fail-if 'p99 drift > 20%'.
"""

GATEWAYS: Final = """\
The server alone and behind `mcpwire gateway`, over the same transport, in turns, with
the differences. Over stdio cpu and memory of the gateway have the server's in them.
The conditions of --fail-if are about the gateway.
"""

SERVE: Final = """\
Run a server: the target is `module:name` or `path/to/file.py:name`, where the name is
that of an mcpwire.Server or of a function that makes one; without a name it is
`server`, `mcp`, `app`, or the only server there is.

Without --http it serves one client on stdin and stdout; what it prints goes to stderr.
"""

GATEWAY: Final = """\
Serve many servers as one: those of --config FILE, and NAME=TARGET, where TARGET is a
URL or a command line as one word. Tools and prompts are called NAME_TOOL.

Without --http it serves one client on stdin and stdout.
"""

COMMON_GROUPS: Final = (o.Results, o.Connecting, o.Verbose)
SERVER_GROUPS: Final = (
    o.Config,
    o.Process,
    o.Url,
    o.Tokens,
    o.Login,
    o.AnyServer,
    o.Mode,
)
CLIENT_GROUPS: Final = (*COMMON_GROUPS, *SERVER_GROUPS)
BENCH_GROUPS: Final = (*COMMON_GROUPS, o.Config, o.Process, o.Url, o.Mode)
CALL_GROUPS: Final = (o.ServerRequests, o.ServerMessages)
LOGIN_GROUPS: Final = (o.Config, o.Url, o.Login)

COMMANDS: Final[dict[str, Command]] = {
    "ls": Command(
        "commands:ls",
        "list a server's tools, resources, templates and prompts",
        (o.ServerRequests, *CLIENT_GROUPS),
        details="With --config FILE in place of TARGET it lists all servers there.\n",
    ),
    "call": Command(
        "commands:call",
        "call a tool and print its result",
        (*CALL_GROUPS, o.Timing, o.Check, *CLIENT_GROUPS),
        words="TOOL [KEY=VALUE ...]",
        details=ARGUMENTS,
    ),
    "read": Command(
        "commands:read",
        "print a resource, or save it",
        (*CALL_GROUPS, o.Reading, *CLIENT_GROUPS),
        words="URI",
        details="Binary contents are not printed on a terminal: pipe them or use -o.\n",
    ),
    "prompt": Command(
        "commands:prompt",
        "get a prompt, filled in",
        (*CALL_GROUPS, o.Check, *CLIENT_GROUPS),
        words="NAME [KEY=VALUE ...]",
        details="A prompt's arguments are text: key=value or key=@file.\n",
    ),
    "complete": Command(
        "commands:complete",
        "complete an argument of a prompt or of a resource template",
        (o.Completion, *CLIENT_GROUPS),
        words="REF ARG [VALUE]",
        details="REF is prompt:NAME or the URI template of a resource.\n",
    ),
    "skills": Command(
        "commands:skills",
        "list a server's skills, or print what one says",
        CLIENT_GROUPS,
        words="[URI]",
        details="It is checked before it is printed, which needs PyYAML.\n",
    ),
    "ping": Command(
        "commands:ping", "measure how fast a server answers", (o.Ping, *CLIENT_GROUPS)
    ),
    "info": Command(
        "commands:info",
        "show the handshake, and what a server says of itself",
        CLIENT_GROUPS,
    ),
    "check": Command(
        "check:check",
        "check a server against the specification",
        (
            *(o.CaseSelection, o.Cases, o.CheckSettings, o.ServerWait),
            *(o.CheckReports, o.Results, o.Verbose, o.Config, o.Process, o.Url),
        ),
        details=CHECK,
    ),
    "check list": Command(
        "check:list_cases", "list the cases", (o.Results, o.CaseSelection), target=""
    ),
    "check explain": Command(
        "check:explain",
        "show what a case sends, expects, and why",
        (o.Results,),
        target="",
        words="ID",
    ),
    "check diff": Command(
        "check:diff",
        "say what got worse between two reports of check --json",
        (o.Results,),
        target="",
        words="BEFORE AFTER",
    ),
    "check page": Command(
        "check:page",
        "write a static site of reports of check --json",
        (),
        target="",
        words="DIR REPORT [REPORT ...]",
    ),
    "bench": Command(
        "bench:bench",
        "measure what a server costs, and under which load it breaks",
        (
            *(o.Workload, o.LoadSize, o.Rounds, o.LoadShape, o.Against, o.WithFloor),
            *(o.Processes, o.Limits, o.LoadReports, *BENCH_GROUPS),
        ),
        words="[KEY=VALUE ...]",
        details=BENCH,
    ),
    "bench start": Command(
        "bench:start",
        "measure how long a server takes to start",
        (
            *(o.Starts, o.WithFloor, o.Limits),
            *(*COMMON_GROUPS, o.Config, o.Process, o.Mode),
        ),
        details=START,
    ),
    "bench size": Command(
        "bench:size",
        "measure what a server holds: memory, threads, descriptors, files",
        (o.Workload, o.SizeCalls, o.Processes, o.Limits, *BENCH_GROUPS),
        words="[KEY=VALUE ...]",
        details=SIZE,
    ),
    "bench soak": Command(
        "bench:soak",
        "put a server under load for long: does it grow, does it slow down?",
        (
            *(o.Workload, o.LoadSize, o.Processes, o.Limits, o.LoadReports),
            *BENCH_GROUPS,
        ),
        words="[KEY=VALUE ...]",
        details=SOAK,
    ),
    "bench gateway": Command(
        "bench:gateway",
        "measure what a gateway in front of a server costs",
        (
            *(o.Workload, o.LoadSize, o.Rounds, o.Processes, o.Limits),
            *(o.LoadReports, *BENCH_GROUPS),
        ),
        words="[KEY=VALUE ...]",
        details=GATEWAYS,
    ),
    "bench client": Command(
        "bench:client",
        "measure what a client costs, with a server that does nothing",
        (o.ClientRuns, o.Results),
        details=CLIENTS,
    ),
    "bench floor": Command(
        "bench:floor",
        "measure what this machine can do: pipe, socket, HTTP, event stream",
        (o.FloorTime, o.Results),
        target="",
    ),
    "bench compare": Command(
        "bench:compare_results",
        "say what differs between two results of bench --json",
        (o.ComparedFigures, o.Results),
        target="",
        words="BEFORE AFTER",
        details=COMPARE,
    ),
    "bench page": Command(
        "bench:page",
        "write a page of results of bench --json",
        (),
        target="",
        words="FILE RESULT [RESULT ...]",
    ),
    "auth login": Command(
        "login:log_in",
        "log in to a server at a URL, for all commands from then on",
        (o.Browser, o.Results, o.UserTime, o.Verbose, *LOGIN_GROUPS),
        target="URL",
        details=LOGIN,
    ),
    "auth status": Command(
        "login:status",
        "show the login to a server",
        (*COMMON_GROUPS, *LOGIN_GROUPS),
        target="URL",
        details="Nothing is asked of any server. Exit code 3: nobody is logged in.\n",
    ),
    "auth logout": Command(
        "login:log_out",
        "delete the login to a server, and revoke its tokens if it can",
        (*COMMON_GROUPS, *LOGIN_GROUPS),
        target="URL",
    ),
    "serve": Command(
        "serve:serve",
        "run a server of yours, on stdio or over HTTP",
        (o.Listening, o.Endpoint, o.Serve, o.Quiet),
        target="",
        words="MODULE:SERVER",
        description=SERVE,
    ),
    "gateway": Command(
        "serve:gateway",
        "serve many servers as one, on stdio or over HTTP",
        (
            *(o.Config, o.Listening, o.Stdio, o.Gateway),
            *(o.GatewayHttp, o.Endpoint, o.Quiet),
        ),
        target="",
        words="[NAME=TARGET ...]",
        description=GATEWAY,
    ),
    "demo": Command(
        "demo:demo",
        "use the built-in server, and print each step",
        COMMON_GROUPS,
        target="",
    ),
    "demo-server": Command(
        "serve:demo_server",
        "run the built-in server, on stdio or over HTTP",
        (o.Listening, o.DemoServer, o.Quiet),
        target="",
    ),
}


def _command_rows(prefix: str = "") -> str:
    summaries = {
        name.removeprefix(prefix): command.summary
        for name, command in COMMANDS.items()
        if name.startswith(prefix)
    }
    width = max(map(len, summaries)) + 2
    return "\n".join(
        f"  {name:<{width}}{summary}" for name, summary in summaries.items()
    )


OVERVIEW: Final = f"""\
usage: mcpwire COMMAND [options] TARGET [words]
       mcpwire COMMAND [options] [words] -- SERVER [ARG ...]
       mcpwire serve [options] MODULE:SERVER
       mcpwire gateway [options] [NAME=TARGET ...]

Talk to Model Context Protocol servers, and run them.

commands:
{_command_rows()}

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
{_command_rows("auth ")}

`mcpwire auth COMMAND --help` shows a command's options.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; raise no exception.

    Args:
        argv: The words after the program's name; default: ``sys.argv[1:]``.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
    except BrokenPipeError:
        discard_stdout()
        code = Exit.BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the boundary
        code = _report(words, error)
    signal = sys.modules.get("signal")
    if argv is None and signal is not None:
        # No cleanup is left, so Ctrl-C may end the process at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def _run(argv: list[str]) -> int:
    if not argv:
        sys.stderr.write(OVERVIEW)
        return Exit.USAGE
    text = None
    if argv[0] == "help" and argv[1:]:
        argv = [*argv[1:], "--help"]
    if argv[0] in {"-h", "--help", "help"}:
        text = OVERVIEW
    elif argv[0] == "--version":
        text = f"mcpwire {__version__}\n"
    elif argv[:2] in (["auth", "-h"], ["auth", "--help"]):
        text = AUTH
    else:
        options = parse(argv)
        text = options.help
    if text is not None:
        write_text(text)
        return Exit.OK
    module, _, function = COMMANDS[options.verb].run.partition(":")
    runner = importlib.import_module(f"mcpwire.cli.{module}")
    code: int = getattr(runner, function)(options)
    return code


def parse(argv: Sequence[str]) -> o.Options:
    """Parse the words of a command line."""
    from mcpwire.cli import parser

    name, words = argv[0], argv[1:]
    if name == "auth" or " ".join(argv[:2]) in COMMANDS:
        name, words = " ".join(argv[:2]), argv[2:]
    if name not in COMMANDS:
        raise _unknown_command(name)
    return parser.parse(name, COMMANDS[name], words)


def _unknown_command(name: str) -> UsageError:
    if name.startswith("-"):
        return UsageError(f"the command comes before its options, got {name!r} first")
    if name.partition(" ")[0] != "auth":
        advice = "; mcpwire --help lists the commands"
        return unknown_name(f"unknown command {name!r}", name, list(COMMANDS), advice)
    auth_commands = [command for command in COMMANDS if command.startswith("auth ")]
    names = ", ".join(command.removeprefix("auth ") for command in auth_commands)
    similar = close_matches(name, auth_commands) if name != "auth" else []
    return UsageError(
        f"auth is followed by one of {names}{did_you_mean(similar[:1])}",
        suggestions=similar,
    )


def _report(argv: list[str], error: BaseException) -> int:
    """Report an error in the format of the words' options, even if they are invalid.

    Ctrl-C is ignored during the report.
    """
    import signal
    import threading

    is_main = threading.current_thread() is threading.main_thread()
    old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        if isinstance(error, OutputError):
            discard_stdout()
        own_words = argv[: argv.index("--")] if "--" in argv else argv
        verbose = any(word in {"-v", "-vv", "--verbose"} for word in own_words)
        output = Output(is_json="--json" in own_words, verbose=verbose)
        code = exit_code(error)
        if code == Exit.INTERNAL:
            import traceback

            for line in "".join(traceback.format_exception(error)).splitlines():
                output.detail(line)
        output.fail(error)
        return code
    finally:
        if old_handler is not None:
            signal.signal(signal.SIGINT, old_handler)
