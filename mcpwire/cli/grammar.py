"""The grammar of the command line: which words are options, target and arguments.

One rule beside argparse's: everything after the first ``--`` is the server's command,
untouched; without it, the first word is the command, as one line.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.cli.auth import LOGIN_OPTIONS, add_login_options
from mcpwire.cli.failures import UsageError, close_matches, did_you_mean
from mcpwire.cli.manual import AUTH, EPILOG, VERBS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.cli.interactive import Answer
    from mcpwire.config import ServerEntry
    from mcpwire.types import LoggingLevel


__all__ = [
    "ASKED_VERBS",
    "Options",
    "add_http_options",
    "add_process_options",
    "check_options",
    "is_url",
    "parse",
]

TARGET_HELP: Final = """\
TARGET is a URL, https://host/mcp, or the server's command line as one word, quoted:
"npx -y some-server". Or leave it out and put the command at the end, after `--`.
@NAME is the server that a configuration calls so, of --config or of ./mcp.json,
./.mcp.json, ./mcpwire.toml and ~/.config/mcpwire/config.toml.
"""


DEFAULTS: Final[dict[str, Any]] = {
    "json": False,
    "verbose": 0,
    "timeout": None,
    "config": None,
    "entry": None,
    "warnings": (),
    "given_env": [],
    "inherit_env": False,
    "cwd": None,
    "given_headers": [],
    "header_env": [],
    "ca": None,
    "cert": None,
    "proxy": None,
    "allow_insecure": False,
    "auth": False,
    "auth_env": None,
    "client_id": None,
    "client_secret_env": None,
    "issuer": None,
    "scopes": [],
    "profile": None,
    "no_browser": False,
    "callback_url": None,
    "mode": "auto",
    "output": None,
    "check": True,
    "count": 1,
    "context": {},
    "roots": [],
    "may_ask": True,
    "given_answers": [],
    "answers": (),
    "sample": None,
    "sample_with": None,
    "sample_program": (),
    "http": None,
    "is_guarded": False,
    "quiet": False,
    "progress": None,
    "log_level": None,
    "timing": False,
}
"""What holds for options that are not given, or that a command does not have."""


ASKED_VERBS: Final = frozenset({"ls", "call", "read", "prompt"})
"""Commands with which a server may send requests, or lists more if it may."""


class Options(argparse.Namespace):
    """What a command line asks for."""

    verb: str
    help: str | None
    """The help text, where that was asked for; then nothing else holds."""

    command: tuple[str, ...]
    """The server's command and its arguments, not yet split if it is one word."""

    words: list[str]
    """What follows the target."""

    json: bool
    verbose: int
    timeout: float | None
    config: str | None
    entry: ServerEntry | None
    """What the configuration says of the server, where the target is ``@NAME``."""

    warnings: tuple[str, ...]
    """What is odd about that configuration."""

    given_env: list[str]
    env: dict[str, str]
    passed_env: tuple[str, ...]
    inherit_env: bool
    cwd: str | None
    is_at_url: bool
    """Whether the target is a URL, and not a command."""

    given_headers: list[str]
    header_env: list[str]
    ca: str | None
    cert: str | None
    proxy: str | None
    allow_insecure: bool
    auth: bool
    auth_env: str | None
    client_id: str | None
    client_secret_env: str | None
    issuer: str | None
    scopes: list[str]
    profile: str | None
    no_browser: bool
    callback_url: str | None
    mode: str
    output: str | None
    check: bool
    count: int
    context: dict[str, str]
    roots: list[str]
    may_ask: bool
    given_answers: list[str]
    answers: Sequence[Answer]
    """What `given_answers` say; read where the other arguments are."""

    sample: str | None
    sample_with: str | None
    sample_program: Sequence[str]
    http: str | None
    """Where the embedded server listens; ``None``: on stdio."""

    is_guarded: bool
    quiet: bool
    progress: bool | None
    log_level: LoggingLevel | None
    timing: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence, instead of printing the usage."""
        if message.startswith("unrecognized arguments"):
            raise _strangers(message.partition(": ")[2], self._known_options())
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _known_options(self) -> list[str]:
        return [o for action in self._actions for o in action.option_strings]


def _strangers(words: str, known: list[str]) -> UsageError:
    option = words.split(maxsplit=1)[0].partition("=")[0]
    similar = close_matches(option, known) if option.startswith("--") else []
    advice = did_you_mean(similar[:1]) or (
        "; the options of the server's own command belong inside its quotes, or "
        "behind `--` at the end"
    )
    return UsageError(f"unknown option {option!r}{advice}", suggestions=similar)


def parse(argv: Sequence[str]) -> Options:
    """Parse the words of a command line.

    Raises:
        UsageError: They make no sense.
    """
    name, head = argv[0], list(argv[1:])
    if name == "auth":  # the one command of two words
        if head[:1] in (["-h"], ["--help"]):
            return Options(verb=name, help=AUTH)
        name, head = _second_word(head)
    verb = VERBS.get(name)
    if verb is None:
        raise UsageError(_no_verb(name), suggestions=close_matches(name, list(VERBS)))
    command: tuple[str, ...] = ()
    if "--" in head:
        at = head.index("--")
        command = tuple(head[at + 1 :])
        if not command:
            raise UsageError("no command follows `--`")
        head = head[:at]
    parser = _parser(name)
    options = parser.parse_intermixed_args(head, Options(verb=name))
    options.help = parser.format_help() if options.help else None
    if options.help is not None:
        return options
    _place_words(options, command)
    check_options(options)
    return options


def _second_word(words: list[str]) -> tuple[str, list[str]]:
    named = [name for name in VERBS if name.startswith("auth ")]
    name = f"auth {words[0]}" if words else "auth"
    if name not in named:
        listed = ", ".join(word.removeprefix("auth ") for word in named)
        similar = close_matches(name, named) if words else []
        advice = did_you_mean(similar[:1])
        raise UsageError(
            f"auth is followed by one of {listed}{advice}", suggestions=similar
        )
    return name, words[1:]


def _no_verb(name: str) -> str:
    if name.startswith("-"):
        return f"the command comes before its options, got {name!r} first"
    similar = close_matches(name, list(VERBS))
    return (
        f"unknown command {name!r}"
        f"{did_you_mean(similar) or '; mcpwire --help lists the commands'}"
    )


def _place_words(options: Options, command: tuple[str, ...]) -> None:
    """Tell the target from what follows it, and check that all is there."""
    verb = VERBS[options.verb]
    words = options.words
    is_all = options.verb == "ls" and options.config is not None and not words
    is_placed = command or is_all or not verb.takes_target
    needed = [*([] if is_placed else ["TARGET"]), *verb.words]
    if len(words) < len(needed):
        missing = " and ".join(needed[len(words) :])
        before = " before `--`" if command else ""
        raise UsageError(
            f"{options.verb} needs {missing}{before} (see mcpwire {options.verb} "
            "--help)"
        )
    most = len(needed) + len(verb.optional)
    if len(words) > most and not verb.takes_arguments:
        advice = (
            "; quote the server's command line, or put it behind `--` at the end"
            if verb.takes_target and not command
            else ""
        )
        raise UsageError(
            f"{options.verb} has no place for {' '.join(words[most:])!r}{advice}"
        )
    if command and not verb.takes_target:
        raise UsageError(f"{options.verb} takes no server's command")
    if verb.takes_target and not command and not is_all:
        command, options.words = (words[0],), words[1:]
    options.command = command


def _seconds(text: str) -> float:
    value = float(text)
    if math.isnan(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"must be above zero, got {text!r}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return value


def _folder(text: str) -> str:
    if not os.path.isdir(text):  # noqa: PTH112 - no Path needed
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return os.path.abspath(text)  # noqa: PTH100 - as above


class _Pair(argparse.Action):
    """Collects ``NAME=VALUE`` in a dict."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name, equals, value = values.partition("=")
        if not equals:
            raise argparse.ArgumentError(self, f"must be NAME=VALUE, got {values!r}")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), name: value})


_seconds.__name__ = "number of seconds"  # what argparse calls it in its sentence
_count.__name__ = "number"


def _parser(name: str) -> argparse.ArgumentParser:
    verb = VERBS[name]
    target = TARGET_HELP if verb.takes_target and not verb.is_at_url else ""
    parser = _Parser(
        prog=f"mcpwire {name}",
        usage=verb.usage(name),
        description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
        epilog="\n".join(part for part in (target, verb.details, EPILOG) if part),
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.set_defaults(**DEFAULTS)
    parser.add_argument("-h", "--help", action="store_true", help="show this")
    if name == "demo-server":
        _add_demo_options(parser)
    else:
        _add_own_options(parser, name)
        _add_common_options(parser, name)
    if verb.takes_target:
        _add_server_options(parser, is_at_url=verb.is_at_url)
    return parser


def _add_demo_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--http", metavar="[HOST]:PORT", help="serve HTTP there instead, at /mcp")
    add(
        "--auth",
        dest="is_guarded",
        action="store_true",
        help="want tokens of a test issuer at the same port, which gives them to all",
    )
    add("--quiet", action="store_true", help="say nothing of start and requests")


def _add_common_options(parser: argparse.ArgumentParser, name: str) -> None:
    of_calls = "limit of connecting and of each request (30 s; inf: none)"
    of_login = "how long the user may take (300 s; inf: none)"
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document, errors as JSON"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help=of_login if name == "auth login" else of_calls,
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        help="show each message, the handshake's record and the server's stderr; "
        "-vv: messages in full",
    )


def _add_own_options(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "auth login":
        parser.add_argument(
            "--no-browser",
            action="store_true",
            help="print where to log in, and ask where that led",
        )
        parser.add_argument(
            "--callback-url",
            metavar="-|@FILE",
            help="finish a login that was begun before: read where it led",
        )
    if name in ASKED_VERBS:
        parser.add_argument(
            "--no-ask",
            dest="may_ask",
            action="store_false",
            help="tell the server that nobody can be asked anything",
        )
    if name in ASKED_VERBS - {"ls"}:
        _add_meanwhile_options(parser)
    if name == "call":
        parser.add_argument(
            "--timing",
            action="store_true",
            help="say when the call was queued, written, answered and decoded",
        )
    if name == "read":
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="save it (-: standard output, as is)"
        )
    if name in {"call", "prompt"}:
        parser.add_argument(
            "--no-check",
            dest="check",
            action="store_false",
            help="send name and arguments as given, without asking for their schema",
        )
    if name == "ping":
        parser.add_argument(
            "-n", "--count", type=_count, metavar="N", help="how often (1)"
        )
    if name == "complete":
        parser.add_argument(
            "--context",
            action=_Pair,
            metavar="NAME=VALUE",
            help="another argument that is already decided",
        )


def _add_meanwhile_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what the server says and asks meanwhile")
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show progress, a line each where stderr is no terminal; or never",
    )
    group.add_argument(
        "--log-level",
        metavar="LEVEL",
        help="show the server's log messages from debug, info, warning, error, ... on",
    )
    group.add_argument(
        "--answer",
        dest="given_answers",
        action="append",
        metavar="JSON",
        help="answer a form with a JSON object, @FILE or -, or with decline or cancel; "
        "once for each form",
    )
    group.add_argument(
        "--sample", metavar="TEXT", help="answer with a text where a model is asked"
    )
    group.add_argument(
        "--sample-with",
        metavar="COMMAND",
        help="or let a command answer: it reads the request as JSON and prints a text",
    )


def _add_server_options(parser: argparse.ArgumentParser, *, is_at_url: bool) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the configuration (.toml, .json) that has the server @NAME",
    )
    if not is_at_url:
        add_process_options(parser)
    add_http_options(parser)
    add_login_options(parser, is_login=is_at_url)
    if is_at_url:
        return
    group = parser.add_argument_group("any server")
    group.add_argument(
        "--roots",
        type=_folder,
        action="append",
        metavar="DIR",
        help="a folder that it may work in, where it asks for such",
    )
    group.add_argument(
        "--mode",
        metavar="MODE",
        help="auto, session, stateless, or one protocol revision",
    )


PROCESS_OPTIONS: Final = {
    "given_env": "--env",
    "inherit_env": "--inherit-env",
    "cwd": "--cwd",
}
HTTP_OPTIONS: Final = {
    "given_headers": "-H",
    "header_env": "--header-env",
    "ca": "--ca",
    "cert": "--cert",
    "proxy": "--proxy",
    "allow_insecure": "--allow-insecure",
    **LOGIN_OPTIONS,
}


def is_url(word: str) -> bool:
    """Tell whether a target is a URL; if not, it is a command line."""
    return "://" in word.strip().partition(" ")[0]


def add_process_options(parser: argparse.ArgumentParser) -> None:
    """Add what is about a server that is started."""
    group = parser.add_argument_group("the server's process")
    group.add_argument(
        "--env",
        dest="given_env",
        type=_variable,
        action="append",
        metavar="NAME[=VALUE]",
        help="set a variable, or pass ours on; else it gets PATH, HOME and the like",
    )
    group.add_argument(
        "--inherit-env", action="store_true", help="pass our whole environment on"
    )
    group.add_argument("--cwd", metavar="DIR", help="its working directory")


def add_http_options(parser: argparse.ArgumentParser) -> None:
    """Add what is about a server at a URL."""
    group = parser.add_argument_group("a server at a URL")
    group.add_argument(
        "-H",
        "--header",
        dest="given_headers",
        action="append",
        metavar="'NAME: VALUE'",
        help="send a header with each request, or those in @FILE (@-: standard input)",
    )
    group.add_argument(
        "--header-env",
        action="append",
        metavar="NAME=[TEXT ]VARIABLE",
        help="send one whose value a variable holds, as secrets have to be: "
        "'Authorization=Bearer TOKEN' sends the value of TOKEN",
    )
    group.add_argument(
        "--ca", metavar="FILE", help="trust these authorities only (PEM)"
    )
    group.add_argument(
        "--cert", metavar="FILE[,KEY]", help="our own certificate and its key (PEM)"
    )
    group.add_argument(
        "--proxy", metavar="URL", help="a proxy; else HTTPS_PROXY and NO_PROXY say"
    )
    group.add_argument(
        "--allow-insecure",
        action="store_true",
        help="send secrets to http URLs of other machines too",
    )


def _variable(text: str) -> str:
    if not text.partition("=")[0]:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE or NAME, got {text!r}")
    return text


def check_options(options: Options) -> None:
    """Check that the options are those of the target, and read the variables.

    Raises:
        UsageError: One makes no sense here.
    """
    is_named = len(options.command) == 1 and options.command[0].startswith("@")
    if is_named:
        from mcpwire.cli.targets import place_entry

        place_entry(options)
    elif options.config is not None and options.command:
        raise UsageError("--config goes with @NAME as TARGET, or with ls alone")
    entry = options.entry
    at_url = (
        entry.transport == "http"
        if entry is not None
        else len(options.command) == 1 and is_url(options.command[0])
    )
    if entry is None and options.command and is_url(options.command[0]) and not at_url:
        raise UsageError(
            f"a URL stands alone, {options.command[1]!r} behind it has no place"
        )
    options.is_at_url = at_url
    if options.config is not None and not options.command:
        for name, option in (PROCESS_OPTIONS | HTTP_OPTIONS).items():
            if getattr(options, name):
                raise UsageError(f"{option} is for one server, and this lists all")
        return
    for name, option in (PROCESS_OPTIONS if at_url else HTTP_OPTIONS).items():
        if getattr(options, name):
            raise UsageError(
                f"{option} is for servers that are started, and this one is at a URL"
                if at_url
                else f"{option} is for servers at a URL, and this one is started"
            )
    _read_env(options)


def _read_env(options: Options) -> None:
    """Tell ``--env NAME=VALUE`` from ``--env NAME``, which passes ours on."""
    pairs = [item.partition("=") for item in options.given_env]
    options.env = {name: value for name, equals, value in pairs if equals}
    options.passed_env = tuple(name for name, equals, _ in pairs if not equals)
    for name in options.passed_env:
        if name not in os.environ:
            raise UsageError(f"--env {name}: {name} is not set")
