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
    is at least 1. A `type` converts the text instead, and raises `ArgumentTypeError`.

    Without flags in `usage` only the environment variable `variable` sets the option.
    Options with the same word in `excludes` are mutually exclusive.
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
                self.settings["help"] += "; may be repeated"
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
parse_positive.__name__ = "an integer of at least 1"
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


def _parse_set_variable(text: str) -> str:
    if not os.environ.get(text):
        raise UsageError(f"--mask-env {text}: {text} is not set")
    return text


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


_parse_sessions.__name__ = "per-call or an integer of at least 1"


def _parse_token(text: str) -> tuple[str, str]:
    kind, equals, variable = text.partition("=")
    if not equals:
        kind, variable = "good", text
    if kind not in {"good", "expired", "audience", "scope"}:
        _refuse(f"KIND is good, expired, audience or scope, got {kind!r}")
    if not os.environ.get(variable):
        raise UsageError(f"--auth {text}: {variable} is not set")
    return kind, variable


def _parse_words(text: str) -> tuple[str, ...]:
    from mcpwire.cli.targets import split_command

    return split_command(text, "--sample-with program")


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
    json: bool = option("--json", "print one JSON document; errors are JSON too")


class Connecting(Group):
    timeout: float | None = option(
        "--timeout SECONDS",
        "time limit for each request (default 30) and for connecting (default 60); "
        "inf: no limit",
        type=parse_seconds,
    )
    no_cache: bool = option("", variable="MCPWIRE_NO_CACHE")


class UserTime(Group):
    timeout: float | None = option(
        "--timeout SECONDS",
        "time limit for the user's login (default 300; inf: no limit)",
        type=parse_seconds,
    )


class Verbose(Group):
    verbose: int = option(
        "-v/--verbose",
        "show messages, handshake and the server's stderr; -vv: whole messages",
    )


class Record(Group):
    record: str | None = option("--record FILE", "record the session on a tape")


# --- options of one or a few commands


class ServerRequests(Group):
    may_ask: bool = option(
        "--no-ask", "declare no elicitation or sampling, and start no login"
    )


class ServerMessages(Group, title="during the request"):
    progress: bool | None = option(
        "--progress", "show progress, or never (default: only on a terminal)"
    )
    log_level: LoggingLevel | None = option(
        "--log-level LEVEL",
        "show the server's log messages from this level up: debug, info, warning, ...",
        type=_parse_level,
    )
    answers: list[str] = option(
        "--answer JSON",
        "answer a form: a JSON object, @FILE, - (standard input), decline or cancel",
    )
    sample: str | None = option(
        "--sample TEXT", "answer sampling requests with this text", excludes="sampling"
    )
    sample_with: tuple[str, ...] | None = option(
        "--sample-with COMMAND",
        "answer sampling requests with a command: request as JSON in, text out",
        excludes="sampling",
        type=_parse_words,
    )


class Timing(Group):
    timing: bool = option(
        "--timing", "show when the call was queued, written, answered and decoded"
    )


class Reading(Group):
    output: str | None = option(
        "-o/--output FILE",
        "write the contents to FILE (-: unchanged to standard output)",
    )


class Check(Group):
    check: bool = option(
        "--no-check", "send name and arguments unchecked, without the schema"
    )


class Ping(Group):
    count: int = option("-n/--count N", "number of pings (default 1)", default=1)


class Completion(Group):
    context: list[tuple[str, str]] = option(
        "--context NAME=VALUE",
        "the value of another argument, already filled in",
        type=_parse_pair,
    )


class Browser(Group):
    no_browser: bool = option(
        "--no-browser", "print the login URL, and ask for the URL of the redirect"
    )
    callback_url: str | None = option(
        "--callback-url -|@FILE", "finish an earlier login with the URL of the redirect"
    )


# --- the target server


class Config(Group):
    config: str | None = option(
        "--config FILE", "the configuration file (.toml, .json) of the servers"
    )


class Process(Group, title="the server's process", only="process"):
    env: list[tuple[str, str]] = option(
        "--env NAME[=VALUE]",
        "set an environment variable, or pass on your own; else only PATH, HOME and a "
        "few others are passed on",
        type=_parse_variable,
    )
    inherit_env: bool = option("--inherit-env", "pass on your whole environment")
    cwd: str | None = option("--cwd DIR", "the working directory")


class Url(Group, title="a server at a URL", only="url"):
    headers: list[str] = option(
        "-H/--header 'NAME: VALUE'",
        "send a header field with each request, or all of @FILE (@-: standard input)",
    )
    header_env: list[str] = option(
        "--header-env NAME=[TEXT ]VARIABLE",
        "a header field with a secret from an environment variable: "
        "'Authorization=Bearer TOKEN' sends the value of TOKEN",
    )
    ca: str | None = option(
        "--ca FILE", "trust only these certificate authorities (PEM)"
    )
    cert: str | None = option(
        "--cert FILE[,KEY]", "the client certificate and its key (PEM)"
    )
    proxy: str | None = option(
        "--proxy URL",
        "the proxy (default: from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY)",
    )
    allow_insecure: bool = option(
        "--allow-insecure", "send secrets to other machines over plain http"
    )


AUTHORIZATION: Final = "authorization of a server at a URL"


class Tokens(Group, title=AUTHORIZATION, only="url"):
    auth: bool = option(
        "--auth",
        "log in if required; a stored login (`mcpwire auth login`) needs no option",
    )
    auth_env: str | None = option(
        "--auth-env VARIABLE", "the access token of this environment variable"
    )


class Login(Group, title=AUTHORIZATION, only="url"):
    client_id: str | None = option(
        "--client-id ID", "the client id at the authorization server"
    )
    client_secret_env: str | None = option(
        "--client-secret-env VARIABLE",
        "the environment variable with the client secret; needs --issuer",
    )
    issuer: str | None = option(
        "--issuer URL", "the authorization server of the client id"
    )
    scopes: list[str] = option(
        "--scope SCOPE", "request this scope instead of the server's"
    )
    profile: str | None = option(
        "--profile NAME", "one of several stored logins (default: default)"
    )


class AnyServer(Group, title="any server"):
    roots: list[str] = option(
        "--roots DIR", "a folder to declare to the server as a root", type=_parse_folder
    )
    max_message: int | None = option(
        "--max-message BYTES",
        "size limit for one message of the server (default 64 MiB)",
    )


class Mode(Group, title="any server"):
    mode: str | None = option(
        "--mode/--revision MODE",
        "auto, session, stateless, prefer-session or one protocol version",
        type=_parse_mode,
    )


# --- options of ``check``


class CaseSelection(Group, title="which cases"):
    chosen: list[str] = option(
        "--only ID|FAMILY|LEVEL",
        "only these cases: an id or its part before the dot, a family, must, should "
        "or robust",
    )


class Cases(Group, title="which cases"):
    skip: list[str] = option("--skip ID|FAMILY|LEVEL", "skip these cases")
    revisions: list[str] = option(
        "--revision DATE", "only this protocol version (default: all)"
    )
    full: bool = option(
        "--full", "also slow cases, and every case in all its protocol versions"
    )
    case_profile: str | None = option(
        "--profile NAME", "a fixed set of cases, such as 2026.1"
    )


class CheckLimits(Group, title="the run"):
    timeout: float | None = option(
        "--timeout SECONDS",
        "time limit for each answer (default 5)",
        type=parse_seconds,
    )
    seed: int = option(
        "--seed N",
        "the seed of random inputs (default 1)",
        type=parse_integer,
        default=1,
    )
    budget: float | None = option(
        "--budget TIME", "stop after this time, such as 60s or 5m", type=parse_duration
    )
    jobs: int | None = option(
        "--jobs N",
        "concurrent processes of the server or client (default: by the number of "
        "processors, at most 8)",
    )


class ServerChecks(Group, title="the run"):
    hostile: bool = option(
        "--hostile", "also cases that flood the server or exhaust its resources"
    )
    roles: list[tuple[str, str]] = option(
        "--map ROLE=TOOL",
        "the tool for the role echo, slow, big, notify, ask, change or task (default: "
        "found by name and schema)",
        type=_parse_pair,
    )
    allow_calls: list[str] = option(
        "--allow-calls GLOB", "also call these tools, besides those with readOnlyHint"
    )
    access_tokens: list[tuple[str, str]] = option(
        "--auth [KIND=]VARIABLE",
        "an environment variable with an access token: good (default), or to be "
        "refused: expired, audience or scope",
        type=_parse_token,
    )
    official: bool = option(
        "--official", "run the official suite instead, with warnings as failures"
    )
    suite: str | None = option("--suite PROGRAM", "the program of the official suite")


class ServerWait(Group, title="the run", only="url"):
    wait: float | None = option(
        "--wait TIME",
        "wait until the server listens (default: do not wait)",
        type=parse_duration,
    )


class CheckReports(Group, title="reports"):
    baseline: str | None = option(
        "--baseline FILE", "accept the findings in FILE; fail if one no longer occurs"
    )
    write_baseline: str | None = option(
        "--write-baseline FILE", "write the findings to FILE, for --baseline"
    )
    fail_on: str = option(
        "--fail-on {must,should,worse}",
        "findings that fail the run: must (default), should (MUST and SHOULD), or "
        "worse (must, and --baseline is required); with --baseline only new findings "
        "count",
        choices=("must", "should", "worse"),
        default="must",
    )
    junit: str | None = option("--junit FILE", "write JUnit XML")
    sarif: str | None = option("--sarif FILE", "write SARIF 2.1")
    markdown: str | None = option("--md FILE", "write Markdown")
    badge: str | None = option("--badge FILE", "write JSON for a shields.io badge")
    html: str | None = option("--html DIR", "write HTML pages (needs Jinja2)")
    tapes: str | None = option(
        "--tap DIR", "write the bytes of each case as JSON lines"
    )


# --- options of tapes


class Recording(Group):
    tape: str | None = option(
        "-o/--output FILE",
        "the tape; an existing file is replaced (default: tape-DATE-TIME-PID.jsonl)",
    )
    masked: list[str] = option(
        "--mask-env VARIABLE",
        "also replace the value of this environment variable by ***",
        type=_parse_set_variable,
    )


class Playing(Group):
    exact: bool = option(
        "--exact", "require the recorded bytes of the client, and send the server's"
    )


class Comparing(Group):
    ignore: list[str] = option(
        "--ignore PATH",
        "do not compare this member of the answers, such as 'result.content.*.text'",
    )


# --- options of ``bench``


class Workload(Group, title="the request"):
    tool: str | None = option(
        "--call TOOL", "call a tool with the arguments KEY=VALUE", excludes="call"
    )
    list_tools: bool = option("--list", "list all tools", excludes="call")
    ping: bool = option("--ping", "ping (the default)", excludes="call")
    mix: str | None = option(
        "--mix FILE",
        "a JSON array of requests: objects with method, params and weight; or a tape",
        excludes="call",
    )


class LoadSize(Group, title="the load"):
    rate: float | None = option(
        "--rate N[/s]",
        "calls a second, started when due (open loop); with --find-max the first rate",
        type=parse_rate,
    )
    users: int | None = option(
        "--users N",
        "concurrent users; each waits for its answer (closed loop; default 1)",
    )
    seconds: float | None = option(
        "--for TIME",
        "measured time of each server, such as 30s (default 10s; bench soak: 10m)",
        type=parse_duration,
    )
    warm_up: float | None = option(
        "--warm-up TIME",
        "unmeasured load before each round (default 0.5s)",
        type=parse_duration_or_zero,
    )
    sessions: Any = option(
        "--sessions N|per-call",
        "connections per worker, or one for each call (default 1)",
        type=_parse_sessions,
    )
    workers: int | None = option(
        "--workers N", "processes that generate the load (default 1)"
    )


class Rounds(Group, title="the load"):
    rounds: int | None = option(
        "--rounds N", "rounds; each starts the servers anew (default 5)"
    )


class LoadShape(Group, title="the load"):
    find_max: str | None = option(
        "--find-max CONDITION",
        "find the highest rate that satisfies the condition, such as 'p99<20ms'",
    )
    shape: str | None = option(
        "--shape {constant,ramp,spike}",
        "constant, rising to --rate, or five times as high in the middle",
        choices=("constant", "ramp", "spike"),
    )


MEASURED: Final = "the measurement"


class Starts(Group, title=MEASURED):
    starts: int = option("--starts N", "number of starts (default 10)", default=10)


class SizeCalls(Group, title=MEASURED):
    size_calls: int = option(
        "--calls N", "number of calls (default 1000)", default=1_000
    )


class OverHttp(Group, title="the client"):
    over_http: bool = option(
        "--http", "give the client a URL instead of a command line"
    )


class ClientRuns(Group, title="the client"):
    client_rounds: int = option("--rounds N", "number of runs (default 3)", default=3)
    client_timeout: float = option(
        "--timeout SECONDS",
        "time limit for one run (default 60)",
        type=parse_seconds,
        default=60.0,
    )


class FloorTime(Group):
    floor_seconds: float = option(
        "--for TIME", "time to measure (default 2s)", type=parse_duration, default=2.0
    )


class Against(Group, title=MEASURED):
    against: str | None = option(
        "--against TARGET", "measure a second server alternately, and compare"
    )
    against_env: list[tuple[str, str]] = option(
        "--against-env NAME[=VALUE]",
        "--env for the second server; it does not inherit --env",
        type=_parse_variable,
    )
    against_headers: list[str] = option(
        "--against-header 'NAME: VALUE'", "--header for the second server"
    )
    against_header_env: list[str] = option(
        "--against-header-env NAME=[TEXT ]VARIABLE",
        "--header-env for the second server",
    )
    counts: bool = option(
        "--counts", "count messages and system calls of a call; measure no time"
    )


class WithFloor(Group, title=MEASURED):
    floor: bool = option("--no-floor", "do not measure the floor")


class Processes(Group, title=MEASURED):
    pids: list[int] = option("--pid N", "the process id of a server that is not found")


class Limits(Group, title=MEASURED):
    fail_if: list[str] = option(
        "--fail-if CONDITION",
        "exit with 9 if the condition is true, such as 'p99 > 20ms' or 'p99 +10%% vs "
        "base.json'",
    )


class ComparedFigures(Group):
    figures: list[str] | None = option(
        "--on FIGURE[,FIGURE ...]",
        "compare only these, such as p50,cpu; fewer have narrower intervals",
        type=lambda text: [name.strip() for name in text.split(",")],
    )


class LoadReports(Group, title="reports"):
    hgrm: str | None = option(
        "--hgrm FILE", "write the latency distribution (HdrHistogram's text format)"
    )
    bench_html: str | None = option("--html FILE", "write an HTML page (needs Jinja2)")


# --- options of commands that serve


class Listening(Group):
    http: str | None = option(
        "--http [HOST]:PORT", "serve HTTP; port 0 takes a free port", excludes="where"
    )


class Stdio(Group):
    stdio: bool = option(
        "--stdio", "serve on stdin and stdout (the default)", excludes="where"
    )


class Quiet(Group, title="over HTTP", only="http"):
    quiet: bool = option("--quiet", "log neither the start nor the requests")


class Endpoint(Group, title="over HTTP", only="http"):
    """Options with the names of parameters of `Server.run` and `Gateway.asgi`."""

    path: str | None = option("--path PATH", "path of the endpoint (default: /mcp)")
    allowed_hosts: list[str] = option(
        "--allow-host NAME", "an allowed host name in Host"
    )
    allowed_origins: list[str] = option(
        "--allow-origin ORIGIN", "an allowed Origin, such as https://example.com"
    )
    cors: bool = option("--cors", "send CORS headers to the origins of --allow-origin")


class Serve(Group, title="over HTTP", only="http"):
    stateless: bool = option("--stateless", "keep no sessions")
    legacy_sse: bool = option("--legacy-sse", "serve HTTP+SSE (2024-11-05) too")
    reload: bool = option("--reload", "restart when a source file changes")


class DemoServer(Group, title="over HTTP", only="http"):
    requires_tokens: bool = option(
        "--auth", "require access tokens, of a test issuer on the same port"
    )


class Gateway(Group, title="the servers"):
    allow: list[str] = option("--allow GLOB", "offer only these tools")
    deny: list[str] = option("--deny GLOB", "hide these tools")
    strict: bool = option(
        "--strict", "refuse sessions while a server cannot be reached"
    )
    watch: bool = option("--watch", "reload the configuration when its file changes")
    trace: str | None = option(
        "--trace FILE", "append a JSON line per exchange, credentials masked"
    )
    timeout: float | None = option(
        "--timeout SECONDS",
        "time limit for each request (default 300)",
        type=parse_seconds,
    )


class GatewayHttp(Group, title="over HTTP", only="http"):
    paths: bool = option(
        "--path-per-server", "also serve each server at PATH/NAME, with its own names"
    )
    status: str | None = option("--status PATH", "path of the servers' state as JSON")
    session_key_env: str | None = option(
        "--session-key-env VAR",
        "an environment variable with the keys that seal session ids: base64 of 32 "
        "bytes each, separated by spaces, the newest first",
    )
    from_headers: bool = option(
        "--from-headers", "clients choose the servers by the header field X-MCP-Servers"
    )
    forward_headers: list[str] = option(
        "--forward-header NAME", "a header field of clients to forward to the servers"
    )


class Options(
    Results,
    Connecting,
    UserTime,
    Verbose,
    Record,
    ServerRequests,
    ServerMessages,
    Timing,
    Reading,
    Check,
    Ping,
    Completion,
    CaseSelection,
    Cases,
    CheckLimits,
    ServerChecks,
    ServerWait,
    CheckReports,
    Recording,
    Playing,
    Comparing,
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
    OverHttp,
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
