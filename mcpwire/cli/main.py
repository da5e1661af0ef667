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
from mcpwire.cli.output import Output, deep_json, discard_stream, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence


class Command(NamedTuple):
    """A command of the command line."""

    run: str
    """``module:function`` in `mcpwire.cli`; takes `Options`, returns the exit code."""

    summary: str
    groups: tuple[type[o.Group], ...]
    target: str = "TARGET"
    """The first word: `TARGET`, any server; `URL`, one at a URL; `CLIENT`, the command
    line of a client; empty: none of them."""

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
        last = {"TARGET": "SERVER", "CLIENT": "CLIENT"}.get(self.target)
        return f"{first}\n       {head}{words} -- {last} [ARG ...]" if last else first


ARGUMENTS: Final = """\
arguments:
  key=value     a value, converted by the tool's schema: integer, number, true or
                false, null, one of an enum, an array or object as JSON, else text
  key:=json     a JSON value, whatever the schema says
  key=@file     the text of a file (key:=@file: the JSON in it)
  -             one JSON object with arguments, from standard input
"""

LOGIN: Final = """\
The login opens in the browser, which is redirected to a port of this machine. If the
browser is on another machine, use --no-browser: it prints the login URL and asks for
the URL of the redirect. Without a terminal it prints the login URL and exits with 3;
--callback-url - finishes the login with the URL of the redirect from standard input.
"""

CHECK: Final = """\
The cases run in all protocol versions that the server supports. Each case sends
messages and checks the answers against a rule of the specification, or for robustness.
Only tools with readOnlyHint are called. A finding shows the transferred bytes and the
command that repeats it. A case without an answer within --timeout is a hang. `mcpwire
check list` and `mcpwire check explain ID` show the cases; `mcpwire check diff` and
`mcpwire check page` read the reports of --json. Requires the package jsonschema-rs.

exit codes of check: 0 every checked MUST holds, 6 a MUST is broken or was not observed,
or a crash or hang (with --fail-on should also a broken SHOULD), 7 --budget was reached,
9 worse than the baseline, or an entry of it no longer occurs.
"""

BENCH: Final = """\
With --rate, calls start at fixed times, and latency counts from those times, even if
the server is too slow to keep up (open loop). Without it, each of --users waits for its
answer before the next call (closed loop). The floor is a server that does nothing; it
is measured in alternation with this server, under the same load. Requires the package
hdrhistogram.

exit codes of bench: 0 measured, 9 a condition of --fail-if is true.
"""

COMPARE: Final = """\
In 99 of 100 comparisons the intervals of all figures together contain the true ratios,
so that a figure of two equal servers is hardly ever called worse.

exit codes of bench compare: 0 no figure is worse, 9 a figure is worse.
"""

CHECK_CLIENT: Final = """\
CLIENT is the command line of a client, quoted as one word, that connects to its server,
sends some requests, and ends. {target} in it is replaced by the command line of the
server that checks it, or with --http by its URL; without {target} it is appended to the
command line. The client is started once for most cases, several at the same time; it is
judged by its messages and by its end. Requires the package jsonschema-rs.

exit codes: as those of check.
"""

TAP: Final = """\
Put `mcpwire tap -o FILE --` before the command of a server in the configuration of any
client: everything passes unchanged. For a server at a URL the client gets the URL that
is printed. A tape has one JSON object per line; credentials are replaced by ***.
"""

REPLAY: Final = """\
The server of the tape answers on stdin and stdout. A request is found by its method and
its params, so that the order of the requests may differ.

exit codes: 0 all requests of the client are on the tape, 9 not all (with --exact: the
bytes of the client differ).
"""

REPLAY_CLIENT: Final = """\
The requests of the tape are sent to the server, and its answers are compared with the
recorded ones.

exit codes: 0 the answers are equal, 9 they differ.
"""

CLIENTS: Final = """\
CLIENT is the command line of the client: a program that calls the tool `echo` any
number of times, and exits. {target} in it is replaced by the command line of the
server, or with --http by its URL; without {target} it is appended to the command line.
"""

START: Final = """\
A start ends with the first list of tools. The floor is the start of a Python server
that does nothing, measured in alternation with this server. The figures of --fail-if
are handshake and first list, both from the start of the process, and cpu.
"""

SIZE: Final = """\
The server's processes are measured after the handshake, after the first list of tools,
and after the calls. A server at a URL must run on this machine. The figures of
--fail-if are those at the end: processes, threads, descriptors, resident, private,
mapped files.
"""

SOAK: Final = """\
Like bench, but one round of 10 minutes (--for). `memory slope` is the growth of the
server's memory over time. `p99 drift` is the increase of p99 from the first tenth of
the time to the last: --fail-if 'p99 drift > 20%'.
"""

GATEWAYS: Final = """\
The server is measured alone and behind `mcpwire gateway`, over the same transport, in
alternation; the differences are shown too. Over stdio, cpu and memory of the gateway
include the server's. The conditions of --fail-if apply to the gateway.
"""

SERVE: Final = """\
Run a server. The target is `module:name` or `path/to/file.py:name`; the name is that of
an mcpwire.Server or of a function that returns one. The default name is `server`,
`mcp`, `app`, or that of the only server in the module.

Without --http it serves one client on stdin and stdout; what it prints goes to stderr.
"""

GATEWAY: Final = """\
Serve many servers as one: those of --config FILE, and NAME=TARGET, where TARGET is a
URL or a quoted command line. Tools and prompts are named NAME_TOOL.

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
CLIENT_GROUPS: Final = (*COMMON_GROUPS, o.Record, *SERVER_GROUPS)
BENCH_GROUPS: Final = (*COMMON_GROUPS, o.Config, o.Process, o.Url, o.Mode)
LOAD_GROUPS: Final = (o.Processes, o.Limits, o.LoadReports, *BENCH_GROUPS)
CALL_GROUPS: Final = (o.ServerRequests, o.ServerMessages)
LOGIN_GROUPS: Final = (o.Config, o.Url, o.Login)

COMMANDS: Final[dict[str, Command]] = {
    "ls": Command(
        "commands:ls",
        "list a server's tools, resources, templates and prompts",
        (o.ServerRequests, *CLIENT_GROUPS),
        details=(
            "With --config FILE instead of TARGET, all servers of FILE are listed.\n"
        ),
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
        "print or save a resource",
        (*CALL_GROUPS, o.Reading, *CLIENT_GROUPS),
        words="URI",
        details=(
            "Binary contents are not printed on a terminal: redirect them, or use -o.\n"
        ),
    ),
    "prompt": Command(
        "commands:prompt",
        "get a prompt with its arguments filled in",
        (*CALL_GROUPS, o.Check, *CLIENT_GROUPS),
        words="NAME [KEY=VALUE ...]",
        details="The arguments of a prompt are text: key=value or key=@file.\n",
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
        "list a server's skills, or print one",
        CLIENT_GROUPS,
        words="[URI]",
        details=(
            "A skill is verified before it is printed. Requires the package PyYAML.\n"
        ),
    ),
    "ping": Command(
        "commands:ping",
        "measure the round-trip time to a server",
        (o.Ping, *CLIENT_GROUPS),
    ),
    "info": Command(
        "commands:info",
        "show the handshake and the server's description of itself",
        CLIENT_GROUPS,
    ),
    "check": Command(
        "check:check",
        "check a server against the specification",
        (
            *(o.CaseSelection, o.Cases, o.CheckLimits, o.ServerChecks, o.ServerWait),
            *(o.CheckReports, o.Results, o.Verbose, o.Config, o.Process, o.Url),
        ),
        details=CHECK,
    ),
    "check client": Command(
        "check:check_client",
        "check a client against the specification",
        (
            *(o.OverHttp, o.CaseSelection, o.Cases, o.CheckLimits),
            *(o.CheckReports, o.Results, o.Verbose),
        ),
        target="CLIENT",
        details=CHECK_CLIENT,
    ),
    "check list": Command(
        "check:list_cases", "list the cases", (o.Results, o.CaseSelection), target=""
    ),
    "check explain": Command(
        "check:explain",
        "show the requests, the expectation and the rule of a case",
        (o.Results,),
        target="",
        words="ID",
    ),
    "check diff": Command(
        "check:diff",
        "compare two reports of check --json",
        (o.Results,),
        target="",
        words="BEFORE AFTER",
    ),
    "check page": Command(
        "check:page",
        "write a static site from reports of check --json",
        (),
        target="",
        words="DIR REPORT [REPORT ...]",
    ),
    "tap": Command(
        "tape:tap",
        "record the session of any client with a server",
        (o.Recording, o.Listening, o.Quiet),
        details=TAP,
    ),
    "replay": Command(
        "tape:replay",
        "play the server of a recorded session",
        (o.Playing,),
        target="",
        words="TAPE",
        details=REPLAY,
    ),
    "replay client": Command(
        "tape:replay_client",
        "send a recorded client's requests to a server, and compare the answers",
        (o.Comparing, *COMMON_GROUPS, o.Config, o.Process, o.Url),
        words="TAPE",
        details=REPLAY_CLIENT,
    ),
    "bench": Command(
        "bench:bench",
        "measure the latency and cost of a server, and the load that it can take",
        (
            *(o.Workload, o.LoadSize, o.Rounds, o.LoadShape, o.Against, o.WithFloor),
            *LOAD_GROUPS,
        ),
        words="[KEY=VALUE ...]",
        details=BENCH,
    ),
    "bench start": Command(
        "bench:start",
        "measure the start-up time of a server",
        (
            *(o.Starts, o.WithFloor, o.Limits),
            *(*COMMON_GROUPS, o.Config, o.Process, o.Mode),
        ),
        details=START,
    ),
    "bench size": Command(
        "bench:size",
        "measure the memory, threads, descriptors and mapped files of a server",
        (o.Workload, o.SizeCalls, o.Processes, o.Limits, *BENCH_GROUPS),
        words="[KEY=VALUE ...]",
        details=SIZE,
    ),
    "bench soak": Command(
        "bench:soak",
        "measure growth of memory and latency under long load",
        (o.Workload, o.LoadSize, *LOAD_GROUPS),
        words="[KEY=VALUE ...]",
        details=SOAK,
    ),
    "bench gateway": Command(
        "bench:gateway",
        "measure the cost of a gateway in front of a server",
        (o.Workload, o.LoadSize, o.Rounds, *LOAD_GROUPS),
        words="[KEY=VALUE ...]",
        details=GATEWAYS,
    ),
    "bench client": Command(
        "bench:client",
        "measure the cost of a client, with a server that does nothing",
        (o.OverHttp, o.ClientRuns, o.Results),
        target="CLIENT",
        details=CLIENTS,
    ),
    "bench floor": Command(
        "bench:floor",
        "measure the limits of this machine: pipe, socket, HTTP, event stream",
        (o.FloorTime, o.Results),
        target="",
    ),
    "bench compare": Command(
        "bench:compare_results",
        "compare two results of bench --json",
        (o.ComparedFigures, o.Results),
        target="",
        words="BEFORE AFTER",
        details=COMPARE,
    ),
    "bench page": Command(
        "bench:page",
        "write an HTML page from results of bench --json",
        (),
        target="",
        words="FILE RESULT [RESULT ...]",
    ),
    "auth login": Command(
        "login:log_in",
        "log in to a server at a URL, for all later commands",
        (o.Browser, o.Results, o.UserTime, o.Verbose, *LOGIN_GROUPS),
        target="URL",
        details=LOGIN,
    ),
    "auth status": Command(
        "login:status",
        "show the stored login for a server",
        (*COMMON_GROUPS, *LOGIN_GROUPS),
        target="URL",
        details="No request is sent. Exit code 3: not logged in.\n",
    ),
    "auth logout": Command(
        "login:log_out",
        "delete the stored login for a server, and revoke its tokens if possible",
        (*COMMON_GROUPS, *LOGIN_GROUPS),
        target="URL",
    ),
    "serve": Command(
        "serve:serve",
        "run your own server, on stdio or over HTTP",
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
        "demonstrate the main features with the built-in server",
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

TARGET is a URL, or the server's command line, quoted as one word; it is run without a
shell. Or omit TARGET and put the command at the end, after `--`: its words are not
changed. @NAME is a server of a configuration file, --config FILE or ./mcp.json.

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
    """Run one command and return its exit code; raise no exception."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
    except BrokenPipeError:
        discard_stream("stdout")
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
        Output().show(OVERVIEW.splitlines())
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
    return int(getattr(runner, function)(options))


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
        f"auth needs one of {names}{did_you_mean(similar[:1])}", suggestions=similar
    )


def _report(argv: list[str], error: BaseException) -> int:
    """Report an error in the format that the words ask for; ignore Ctrl-C meanwhile."""
    import signal
    import threading

    is_main = threading.current_thread() is threading.main_thread()
    old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        if isinstance(error, OutputError):
            discard_stream("stdout")
        own_words = argv[: argv.index("--")] if "--" in argv else argv
        verbose = any(re.fullmatch("-v+|--verbose", word) for word in own_words)
        output = Output(is_json="--json" in own_words, verbose=verbose)
        code = exit_code(error)
        if code == Exit.INTERNAL:
            import traceback

            for line in "".join(traceback.format_exception(error)).splitlines():
                output.detail(line)
        with deep_json():
            output.fail(error)
        return code
    finally:
        if old_handler is not None:
            signal.signal(signal.SIGINT, old_handler)
