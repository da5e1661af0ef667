"""The declarations of all options: each is an attribute of its group.

`Options` holds the value under the attribute's name; the annotation is its type. A
command names its groups (`mcpwire.cli.main.COMMANDS`), from which
`mcpwire.cli.parser` makes its parser and help.

    class Bench(Group, title="what is measured"):
        calls: int = option("--calls N", "how many", default=1_000)

A new group becomes a base of `Options`. This module does not import argparse.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, TypeAlias

from mcpwire.cli.failures import UsageError, close_matches, did_you_mean, usage_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwire.config import ServerEntry
    from mcpwire.types import LoggingLevel

__all__ = ["Group", "Option", "Options", "option"]

Kind: TypeAlias = Literal["process", "url", "http"]


class Option:
    """A descriptor: the option on the class, its value on an `Options` object.

    The annotation of the attribute sets the form: a `bool` is a flag (`--no-x` turns
    `x` off), a `bool | None` has both flags, a list may be repeated, an `int` without
    a metavar counts its flags, and any other type takes one value, which for an `int`
    is at least 1.

    Args:
        usage: The flags and the name of the value, as in `-o/--output FILE`; empty:
            only the variable sets the option.
        help: The help text.
        default: The value if the option is not given.
        variable: The environment variable that sets the default.
        excludes: Options with the same word here are mutually exclusive.
        type: Converts the text to a value; raises `ArgumentTypeError`. It replaces the
            conversion by the annotation.
        choices: The allowed values.
    """

    def __init__(
        self,
        usage: str,
        help: str = "",
        *,
        default: Any = None,
        variable: str | None = None,
        excludes: str | None = None,
        type: Callable[[str], Any] | None = None,
        choices: tuple[str, ...] | None = None,
    ) -> None:
        flags, _, metavar = usage.partition(" ")
        self.name = ""
        self.flags = flags.split("/") if flags else []
        self.action = "store"
        self.excludes = excludes
        self.settings: dict[str, Any] = {"help": help}
        self._metavar = metavar
        self._default = default
        self._variable = variable
        self._type = type
        self._choices = choices

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        annotation = owner.__annotations__[name]
        if annotation == "bool":
            is_negated = not name.startswith("no_") and "--no-" in "".join(self.flags)
            self.action = "store_false" if is_negated else "store_true"
            self._default = is_negated
        elif annotation == "bool | None":
            self.action = "yes_or_no"
        elif not self._metavar:
            self.action, self._default = "count", 0
        else:
            if annotation.startswith("list[") and annotation.endswith("]"):
                self.action, self._default = "append", []
            is_number = annotation in {"int", "int | None", "list[int]"}
            read = self._type or (parse_positive if is_number else str)
            self.settings |= {"metavar": self._metavar, "type": read}
            self.settings |= {"choices": self._choices} if self._choices else {}

    def __get__(self, options: object | None, owner: type) -> Any:
        return self if options is None else self.default

    @property
    def default(self) -> Any:
        """The value without a flag: that of the environment variable if it is set."""
        text = os.environ.get(self._variable or "")
        if text is None:
            return self._default
        if self.action == "store_true":
            return bool(text)
        return text if self._type is None else self._type(text)


option: Callable[..., Any] = Option
"""Makes an `Option`; type checkers see the type of the annotated attribute."""


class Group:
    """Options that commands share, under one title of the help.

    `only` limits the group to one kind of target: a process, a URL, or `--http`.
    """

    title: ClassVar[str] = ""
    only: ClassVar[Kind | None] = None

    def __init_subclass__(cls, title: str = "", only: Kind | None = None) -> None:
        cls.title = title
        cls.only = only

    @classmethod
    def options(cls) -> list[Option]:
        """Return the options that the group itself declares."""
        return [entry for entry in vars(cls).values() if isinstance(entry, Option)]

    def flags(self, *groups: type[Group]) -> list[str]:
        """Return the flags of the options that are set in the groups."""
        return [entry.flags[0] for entry in self._set_options(groups)]

    def values(self, *groups: type[Group]) -> dict[str, Any]:
        """Return the values of the options that are set in the groups, by name."""
        return {
            entry.name: getattr(self, entry.name) for entry in self._set_options(groups)
        }

    def _set_options(self, groups: tuple[type[Group], ...]) -> list[Option]:
        entries = (entry for group in groups for entry in group.options())
        return [entry for entry in entries if getattr(self, entry.name)]


# --- conversion of text to values


def _refuse(problem: str) -> NoReturn:
    from argparse import ArgumentTypeError

    raise ArgumentTypeError(problem)


def parse_seconds(text: str) -> float:
    """Parse a number of seconds above zero, infinity included."""
    value = float(text)
    if not value > 0:
        _refuse(f"must be above zero, got {text!r}")
    return value


def parse_positive(text: str) -> int:
    """Parse an integer of at least 1."""
    value = int(text)
    if value < 1:
        _refuse(f"must be at least 1, got {text!r}")
    return value


def parse_integer(text: str) -> int:
    """Parse an integer."""
    return int(text)


# Usage errors use these names for the expected value.
parse_seconds.__name__ = "a number of seconds"
parse_positive.__name__ = "an integer from 1 on"
parse_integer.__name__ = "an integer"


def _parse_folder(text: str) -> str:
    if not os.path.isdir(text):  # noqa: PTH112 - no Path needed
        _refuse(f"the folder {text!r} does not exist")
    return os.path.abspath(text)  # noqa: PTH100 - as above


def _parse_variable(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`, or `NAME`, which takes the value from the environment."""
    name, equals, value = text.partition("=")
    if not name:
        _refuse(f"must be NAME=VALUE or NAME, got {text!r}")
    if not equals and name not in os.environ:
        raise UsageError(f"--env {name}: {name} is not set")
    return name, value if equals else os.environ[name]


def _parse_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        _refuse(f"must be NAME=VALUE, got {text!r}")
    return name, value


def parse_duration(text: str) -> float:
    """Parse a time above zero, in seconds or with the unit `s`, `m` or `h`."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return parse_seconds(text) if unit is None else parse_seconds(text[:-1]) * unit


def parse_duration_or_zero(text: str) -> float:
    """Parse a time as `parse_duration` does, or 0."""
    return 0.0 if text in {"0", "0s"} else parse_duration(text)


parse_duration.__name__ = parse_duration_or_zero.__name__ = "a time"


def _parse_mode(text: str) -> str:
    """Check a negotiation mode or protocol revision."""
    from mcpwire.protocol.negotiation import parse_mode

    with usage_errors():
        parse_mode(text)
    return text


def parse_rate(text: str) -> float:
    """Parse a rate per second above zero, with or without `/s`."""
    return parse_seconds(text.removesuffix("/s"))


parse_rate.__name__ = "a rate"


def _parse_sessions(text: str) -> int | str:
    return text if text == "per-call" else parse_positive(text)


_parse_sessions.__name__ = "per-call or an integer from 1 on"


def _parse_token(text: str) -> tuple[str, str]:
    kind, equals, variable = text.partition("=")
    if not equals:
        kind, variable = "good", text
    if kind not in {"good", "expired", "audience", "scope"}:
        _refuse(f"KIND is good, expired, audience or scope, got {kind!r}")
    if not os.environ.get(variable):
        raise UsageError(f"--auth {text}: {variable} is not set")
    return kind, variable


def _parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _parse_words(text: str) -> list[str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        _refuse(f"cannot split {text!r}: {error}")
    if not words:
        _refuse("the command is empty")
    return words


def _parse_level(text: str) -> str:
    from typing import get_args

    from mcpwire.types.requests import LoggingLevel

    levels = get_args(LoggingLevel)
    if text not in levels:
        advice = f"; the levels are {', '.join(levels)}"
        similar = did_you_mean(close_matches(text, levels)[:1])
        _refuse(f"unknown level {text!r}{similar or advice}")
    return text


# --- options of all commands that connect


class Results(Group):
    json: bool = option("--json", "print one JSON document, errors as JSON")


class Connecting(Group):
    timeout: float | None = option(
        "--timeout SECONDS",
        "limit of connecting and of each request (30 s; inf: none)",
        type=parse_seconds,
    )
    no_cache: bool = option("", variable="MCPWIRE_NO_CACHE")


class UserTime(Group):
    timeout: float | None = option(
        "--timeout SECONDS",
        "how long the user may take (300 s; inf: none)",
        type=parse_seconds,
    )


class Verbose(Group):
    verbose: int = option(
        "-v/--verbose",
        "show each message, the handshake's record and the server's stderr; -vv: "
        "messages in full",
    )


# --- options of one or a few commands


class ServerRequests(Group):
    """The option to declare no capabilities that allow server requests."""

    may_ask: bool = option("--no-ask", "tell the server that it cannot ask questions")


class ServerMessages(Group, title="while the server works"):
    progress: bool | None = option(
        "--progress", "show progress, a line each where stderr is no terminal; or never"
    )
    log_level: LoggingLevel | None = option(
        "--log-level LEVEL",
        "show the server's log messages from debug, info, warning, error, ... on",
        type=_parse_level,
    )
    answers: list[str] = option(
        "--answer JSON",
        "answer a form with a JSON object, @FILE or -, or with decline or cancel; "
        "once for each form",
    )
    sample: str | None = option(
        "--sample TEXT",
        "answer with this text where the server asks for a model",
        excludes="sampling",
    )
    sample_with: list[str] | None = option(
        "--sample-with COMMAND",
        "answer with a command: it reads the request as JSON and prints a text",
        excludes="sampling",
        type=_parse_words,
    )


class Timing(Group):
    timing: bool = option(
        "--timing", "show when the call was queued, written, answered and decoded"
    )


class Reading(Group):
    output: str | None = option(
        "-o/--output FILE", "save it (-: standard output, as is)"
    )


class Check(Group):
    check: bool = option(
        "--no-check",
        "send name and arguments as given, without asking for their schema",
    )


class Ping(Group):
    count: int = option("-n/--count N", "how often (1)", default=1)


class Completion(Group):
    context: list[tuple[str, str]] = option(
        "--context NAME=VALUE",
        "another argument that is already decided",
        type=_parse_pair,
    )


class Browser(Group):
    no_browser: bool = option(
        "--no-browser", "print where to log in, and ask where that led"
    )
    callback_url: str | None = option(
        "--callback-url -|@FILE",
        "finish a login that was begun before: read where it led",
    )


# --- the target server


class Config(Group):
    config: str | None = option(
        "--config FILE", "the configuration (.toml, .json) that has the servers"
    )


class Process(Group, title="the server's process", only="process"):
    env: list[tuple[str, str]] = option(
        "--env NAME[=VALUE]",
        "set a variable, or pass one of yours on; else it gets PATH, HOME and the like",
        type=_parse_variable,
    )
    inherit_env: bool = option("--inherit-env", "pass your whole environment on")
    cwd: str | None = option("--cwd DIR", "its working directory")


class Url(Group, title="a server at a URL", only="url"):
    headers: list[str] = option(
        "-H/--header 'NAME: VALUE'",
        "send a header with each request, or those in @FILE (@-: standard input)",
    )
    header_env: list[str] = option(
        "--header-env NAME=[TEXT ]VARIABLE",
        "send a header with the value of a variable, as secrets need: "
        "'Authorization=Bearer TOKEN' sends the value of TOKEN",
    )
    ca: str | None = option("--ca FILE", "trust these authorities only (PEM)")
    cert: str | None = option("--cert FILE[,KEY]", "your certificate and its key (PEM)")
    proxy: str | None = option(
        "--proxy URL", "a proxy (default: that of HTTPS_PROXY, and NO_PROXY)"
    )
    allow_insecure: bool = option(
        "--allow-insecure", "send secrets to http URLs of other machines too"
    )


AUTHORIZATION: Final = "authorization of a server at a URL"


class Tokens(Group, title=AUTHORIZATION, only="url"):
    auth: bool = option(
        "--auth",
        "log in if the server requires it; an existing login (`mcpwire auth login`) "
        "is used without this option",
    )
    auth_env: str | None = option(
        "--auth-env VARIABLE", "send the token that this variable holds"
    )


class Login(Group, title=AUTHORIZATION, only="url"):
    client_id: str | None = option(
        "--client-id ID", "this client, as it is registered there"
    )
    client_secret_env: str | None = option(
        "--client-secret-env VARIABLE",
        "and the variable that holds its secret; needs --issuer",
    )
    issuer: str | None = option(
        "--issuer URL", "the authorization server that they belong to"
    )
    scopes: list[str] = option(
        "--scope SCOPE",
        "ask for this instead of what the server names; may be repeated",
    )
    profile: str | None = option(
        "--profile NAME", "which of several accounts (default)"
    )


class AnyServer(Group, title="any server"):
    roots: list[str] = option(
        "--roots DIR",
        "a folder that the server may work in, if it asks; may be repeated",
        type=_parse_folder,
    )
    max_message: int | None = option(
        "--max-message BYTES", "limit of one message of the server (64 MiB)"
    )


class Mode(Group, title="any server"):
    mode: str | None = option(
        "--mode/--revision MODE",
        "auto, session, stateless, or one protocol revision",
        type=_parse_mode,
    )


# --- options of ``check``


class CaseSelection(Group, title="which cases"):
    chosen: list[str] = option(
        "--only ID|FAMILY|LEVEL",
        "these only: an id or its beginning, a family, must, should, robust",
    )


class Cases(Group, title="which cases"):
    skip: list[str] = option("--skip ID|FAMILY|LEVEL", "leave these out")
    revisions: list[str] = option(
        "--revision DATE",
        "this protocol revision only; may be repeated (all that it speaks)",
    )
    full: bool = option(
        "--full", "run the slow cases too, and each case in all its revisions"
    )
    hostile: bool = option(
        "--hostile", "also run cases that flood the server or exhaust it"
    )
    case_profile: str | None = option(
        "--profile NAME", "a frozen set of cases, such as 2026.1"
    )


class CheckSettings(Group, title="how the server is treated"):
    timeout: float | None = option(
        "--timeout SECONDS", "limit of each answer (5 s)", type=parse_seconds
    )
    seed: int = option(
        "--seed N", "of random inputs (1)", type=parse_integer, default=1
    )
    budget: float | None = option(
        "--budget TIME", "end after so long, such as 60s or 5m", type=parse_duration
    )
    roles: list[tuple[str, str]] = option(
        "--map ROLE=TOOL",
        "the tool to use as echo, slow, big, notify, ask, change or task (found by "
        "its name and schema)",
        type=_parse_pair,
    )
    allow_calls: list[str] = option(
        "--allow-calls GLOB",
        "call such tools too, beside those that say that they only read",
    )
    access_tokens: list[tuple[str, str]] = option(
        "--auth [KIND=]VARIABLE",
        "the variable with an access token: good (default), expired, audience or "
        "scope (a valid one that must be refused for that reason)",
        type=_parse_token,
    )
    official: bool = option(
        "--official", "run the official suite instead, strictly; it has to be installed"
    )
    suite: str | None = option("--suite PROGRAM", "the official suite's program")


class ServerWait(Group, title="how the server is treated", only="url"):
    wait: float | None = option(
        "--wait TIME",
        "wait so long for a server at a URL that does not listen yet (0)",
        type=parse_duration,
    )


class CheckReports(Group, title="reports"):
    baseline: str | None = option(
        "--baseline FILE",
        "accept the findings it names; entries that do not show any more fail",
    )
    write_baseline: str | None = option("--write-baseline FILE", "write such a file")
    fail_on: str = option(
        "--fail-on {must,should,worse}",
        "what makes the exit code: a broken MUST (default), a SHOULD too, or only "
        "what the baseline does not name",
        choices=("must", "should", "worse"),
        default="must",
    )
    junit: str | None = option("--junit FILE", "write JUnit XML")
    sarif: str | None = option("--sarif FILE", "write SARIF 2.1")
    markdown: str | None = option("--md FILE", "write Markdown")
    badge: str | None = option("--badge FILE", "write the JSON of a shields.io badge")
    html: str | None = option("--html DIR", "write pages (needs Jinja2)")
    tapes: str | None = option(
        "--tap DIR", "write the octets of each case as JSON lines"
    )


# --- options of ``bench``


class Workload(Group, title="what is asked of the server"):
    tool: str | None = option(
        "--call TOOL", "call a tool, with the words KEY=VALUE", excludes="call"
    )
    list_tools: bool = option("--list", "list all tools", excludes="call")
    ping: bool = option("--ping", "ping it (the default)", excludes="call")
    mix: str | None = option(
        "--mix FILE",
        "a JSON array of calls, objects with method, params and weight",
        excludes="call",
    )


class LoadSize(Group, title="how much"):
    rate: float | None = option(
        "--rate N[/s]",
        "begin so many calls a second, whatever becomes of them",
        type=parse_rate,
    )
    users: int | None = option(
        "--users N", "or let N users call one after the other (1)"
    )
    seconds: float | None = option(
        "--for TIME",
        "how long each server is measured, such as 30s (10s)",
        type=parse_duration,
    )
    warm_up: float | None = option(
        "--warm-up TIME",
        "load before each round that is not measured (0.5s)",
        type=parse_duration_or_zero,
    )
    sessions: Any = option(
        "--sessions N|per-call",
        "connections of each worker, or one for each call (1)",
        type=_parse_sessions,
    )
    workers: int | None = option("--workers N", "processes that make the load (1)")


class Rounds(Group, title="how much"):
    """The rounds of commands that restart the server in each."""

    rounds: int | None = option("--rounds N", "how often all is started anew (5)")


class LoadShape(Group, title="how much"):
    find_max: str | None = option(
        "--find-max CONDITION",
        "find the highest rate that keeps it, such as 'p99<20ms'",
    )
    shape: str | None = option(
        "--shape {constant,ramp,spike}",
        "how the rate goes: up to --rate, or five times as high in the middle",
        choices=("constant", "ramp", "spike"),
    )


class Starts(Group, title="how much"):
    starts: int = option("--starts N", "how often it is started (10)", default=10)


class SizeCalls(Group, title="how much"):
    size_calls: int = option(
        "--calls N", "how many calls are made (1000)", default=1_000
    )


class ClientRuns(Group, title="the client"):
    over_http: bool = option("--http", "it is given a URL, in place of a command line")
    client_rounds: int = option("--rounds N", "how often it is run (3)", default=3)
    client_timeout: float = option(
        "--timeout SECONDS",
        "how long one run may take (60)",
        type=parse_seconds,
        default=60.0,
    )


class FloorTime(Group):
    floor_seconds: float = option(
        "--for TIME", "how long to measure (2s)", type=parse_duration, default=2.0
    )


MEASURED: Final = "what is measured"


class Against(Group, title=MEASURED):
    against: str | None = option(
        "--against TARGET", "measure a second server in turns, and compare"
    )
    against_env: list[tuple[str, str]] = option(
        "--against-env NAME[=VALUE]",
        "as --env, for the second server, which has none of the first one's",
        type=_parse_variable,
    )
    against_headers: list[str] = option(
        "--against-header 'NAME: VALUE'", "as --header, for the second server"
    )
    against_header_env: list[str] = option(
        "--against-header-env NAME=[TEXT ]VARIABLE",
        "as --header-env, for the second server",
    )
    counts: bool = option(
        "--counts", "measure no time, count messages and system calls of a call only"
    )


class WithFloor(Group, title=MEASURED):
    floor: bool = option(
        "--no-floor", "leave out the server that does nothing, measured in turns"
    )


class Processes(Group, title=MEASURED):
    pids: list[int] = option(
        "--pid N", "a process of the server, where it is not found"
    )


class Limits(Group, title=MEASURED):
    fail_if: list[str] = option(
        "--fail-if CONDITION",
        "exit with 9 if it is true: 'p99 > 20ms', 'p99 +10%% vs base.json'",
    )


class ComparedFigures(Group):
    figures: list[str] | None = option(
        "--on FIGURE[,FIGURE ...]",
        "compare these only, such as p50,cpu: fewer have narrower intervals",
        type=_parse_names,
    )


class LoadReports(Group, title="reports"):
    hgrm: str | None = option("--hgrm FILE", "write the percentile distribution")
    bench_html: str | None = option("--html FILE", "write a page (needs Jinja2)")


# --- options of commands that serve


class Listening(Group):
    http: str | None = option(
        "--http [HOST]:PORT", "serve HTTP there; port 0: a free one", excludes="where"
    )


class Stdio(Group):
    stdio: bool = option(
        "--stdio", "serve stdin and stdout (the default)", excludes="where"
    )


class Quiet(Group, title="over HTTP", only="http"):
    quiet: bool = option("--quiet", "do not report the start and the requests")


class Endpoint(Group, title="over HTTP", only="http"):
    """Options with the names of parameters of `Server.run` and `Gateway.asgi`."""

    path: str | None = option("--path PATH", "where the endpoint is (default: /mcp)")
    allowed_hosts: list[str] = option(
        "--allow-host NAME", "a host name that clients may use; may be repeated"
    )
    allowed_origins: list[str] = option(
        "--allow-origin ORIGIN",
        "web pages that may call, such as https://example.com; may be repeated",
    )
    cors: bool = option("--cors", "let those pages read the answers")


class Serve(Group, title="over HTTP", only="http"):
    stateless: bool = option("--stateless", "keep no sessions")
    legacy_sse: bool = option("--legacy-sse", "serve clients of 2024-11-05, too")
    reload: bool = option("--reload", "start again when a source file changes")


class DemoServer(Group, title="over HTTP", only="http"):
    requires_tokens: bool = option(
        "--auth",
        "require tokens, of a test issuer at the same port that gives them to all",
    )


class Gateway(Group, title="the servers"):
    allow: list[str] = option("--allow GLOB", "only such tools; may be repeated")
    deny: list[str] = option("--deny GLOB", "no such tools; may be repeated")
    strict: bool = option("--strict", "refuse sessions if a server is missing")
    watch: bool = option("--watch", "reload when the file changes")
    trace: str | None = option(
        "--trace FILE", "append a line of JSON for each exchange, credentials masked"
    )
    timeout: float | None = option(
        "--timeout SECONDS", "for each request (300)", type=parse_seconds
    )


class GatewayHttp(Group, title="over HTTP", only="http"):
    paths: bool = option(
        "--path-per-server", "each server at PATH/NAME as well, with its own names"
    )
    status: str | None = option(
        "--status PATH", "show there how the servers are, as JSON"
    )
    session_key_env: str | None = option(
        "--session-key-env VAR",
        "the variable with the keys that seal session ids, base64 of 32 bytes each,"
        " the newest first",
    )
    from_headers: bool = option(
        "--from-headers", "clients choose the servers themselves, by X-MCP-Servers"
    )
    forward_headers: list[str] = option(
        "--forward-header NAME",
        "a field of requests that goes along to the servers; may be repeated",
    )


class Options(
    Results,
    Connecting,
    UserTime,
    Verbose,
    ServerRequests,
    ServerMessages,
    Timing,
    Reading,
    Check,
    Ping,
    Completion,
    CaseSelection,
    Cases,
    CheckSettings,
    ServerWait,
    CheckReports,
    Workload,
    LoadSize,
    Rounds,
    LoadShape,
    Starts,
    SizeCalls,
    Against,
    WithFloor,
    Processes,
    Limits,
    LoadReports,
    ComparedFigures,
    ClientRuns,
    FloorTime,
    Browser,
    Config,
    Process,
    Url,
    Tokens,
    Login,
    AnyServer,
    Mode,
    Listening,
    Stdio,
    Quiet,
    Endpoint,
    Serve,
    DemoServer,
    Gateway,
    GatewayHttp,
):
    """The parsed command line; options that are not given have their defaults."""

    verb: str
    """The command, such as `ls` or `auth login`."""

    groups: tuple[type[Group], ...] = ()
    """The groups of the command's options."""

    help: str | None = None
    """The help text if it was requested; then the other attributes are not valid."""

    command: tuple[str, ...] = ()
    """The server's command and its arguments; a single word is not yet split."""

    words: list[str]
    """The words after the target."""

    raw_words: tuple[str, ...] = ()
    """All words after the command's name, unchanged."""

    entry: ServerEntry | None = None
    """The server's entry in the configuration, if the target is ``@NAME``."""

    warnings: tuple[str, ...] = ()
    """Warnings of that configuration."""

    is_at_url: bool = False
    """Whether the target is a URL and not a command."""
