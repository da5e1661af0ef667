"""Parser of the words of a command line to `Options`, declared in `options`.

A rule in addition to argparse's: all words after the first ``--`` are the server's
command, unchanged; without ``--`` the first word is the whole command line.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mcpwire.cli.failures import UsageError, close_matches, did_you_mean
from mcpwire.cli.options import Group, Options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwire.cli.main import Command

TARGET_HELP: Final = """\
TARGET is a URL, https://host/mcp, or the server's command line, quoted as one word:
"npx -y some-server". Or omit TARGET and put the command at the end, after `--`.
@NAME is a server of a configuration file: --config FILE, or else ./mcp.json,
./.mcp.json, ./mcpwire.toml or ~/.config/mcpwire/config.toml.
"""

EPILOG: Final = """\
exit codes:
  0 ok   1 internal   2 usage   3 authorization   4 no connection   5 tool error
  6 protocol violation   7 timeout   8 JSON-RPC error   130 interrupted
"""

WRONG_TARGET: Final = {
    "process": "applies to servers that are started, not to a server at a URL",
    "url": "applies to servers at a URL, not to a server that is started",
}


def parse(name: str, command: Command, words: Sequence[str]) -> Options:
    """Parse the words after the name of a command."""
    head = list(words)
    server: tuple[str, ...] = ()
    if "--" in head:
        index = head.index("--")
        head, server = head[:index], tuple(head[index + 1 :])
        if not server:
            raise UsageError("no command follows `--`")
    parser = _parser(name, command)
    options = Options()
    options.verb = name
    options.groups = command.groups
    options.raw_words = tuple(words)
    parser.parse_intermixed_args(head, options)
    options.help = parser.format_help() if options.help else None
    if options.help is None:
        _assign_words(options, command, server)
        _check_target(options)
    return options


_INVALID: Final = re.compile(r"invalid (.+?) value: ")
"""argparse's message about a value that its type cannot parse."""


class _Parser(argparse.ArgumentParser):
    has_target = True
    has_arguments = False

    def error(self, message: str) -> NoReturn:
        """Raise a usage error of one sentence, instead of printing the usage."""
        if not message.startswith("unrecognized arguments"):
            message = _INVALID.sub(r"must be \1, got ", message)
            raise UsageError(f"{message} (see {self.prog} --help)")
        word = message.partition(": ")[2].split(maxsplit=1)[0].partition("=")[0]
        similar = []
        if word.startswith("--"):
            # Common dashes would make all options similar.
            flags = [o for action in self._actions for o in action.option_strings]
            known = [flag[2:] for flag in flags if flag.startswith("--")]
            similar = [f"--{name}" for name in close_matches(word[2:], known)]
        advice = f" (see {self.prog} --help)"
        if similar:
            advice = did_you_mean(similar[:1])
            if self.has_arguments:
                advice += f" An argument is written without dashes: {word[2:]}=VALUE"
        elif self.has_arguments and word.startswith("--"):
            advice = f"; an argument is written without dashes: {word[2:]}=VALUE"
        elif self.has_target:
            advice = (
                "; the options of the server's own command belong inside its quotes, "
                "or after `--` at the end"
            )
        raise UsageError(f"unknown option {word!r}{advice}", suggestions=similar)


def _parser(name: str, command: Command) -> _Parser:
    target = TARGET_HELP if command.target == "TARGET" else ""
    summary = command.summary
    parser = _Parser(
        prog=f"mcpwire {name}",
        usage=command.usage(name),
        description=command.description or f"{summary[0].upper()}{summary[1:]}.",
        epilog="\n".join(part for part in (target, command.details, EPILOG) if part),
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.register("action", "yes_or_no", argparse.BooleanOptionalAction)
    parser.has_target = bool(command.target)
    parser.has_arguments = "KEY=VALUE" in command.words
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "-h", "--help", action="store_true", default=argparse.SUPPRESS, help="show this"
    )
    sections: dict[str, Any] = {"": parser}
    exclusive: dict[str, Any] = {}
    for group in command.groups:
        if group.title not in sections:
            sections[group.title] = parser.add_argument_group(group.title)
        for entry in group.options():
            section = sections[group.title]
            if entry.excludes is not None:
                if entry.excludes not in exclusive:
                    exclusive[entry.excludes] = section.add_mutually_exclusive_group()
                section = exclusive[entry.excludes]
            if entry.flags:
                section.add_argument(
                    *entry.flags,
                    dest=entry.name,
                    default=argparse.SUPPRESS,
                    action=entry.action,
                    **entry.settings,
                )
    return parser


def _assign_words(options: Options, command: Command, server: tuple[str, ...]) -> None:
    """Split the target from the words after it; check the number of words."""
    words, verb = options.words, options.verb
    lists_all = verb == "ls" and options.config is not None and not words
    needs_target = command.target and not server and not lists_all
    required, max_words = command.word_counts()
    needed = [*([command.target] if needs_target else []), *required]
    if len(words) < len(needed):
        missing = " and ".join(needed[len(words) :])
        position = " before `--`" if server else ""
        raise UsageError(
            f"{verb} needs {missing}{position} (see mcpwire {verb} --help)"
        )
    max_words += 1 if needs_target else 0
    if len(words) > max_words:
        advice = (
            "; quote the server's command line, or put it after `--` at the end"
            if needs_target
            else ""
        )
        extra = " ".join(words[int(max_words) :])
        raise UsageError(f"{verb}: unexpected argument {extra!r}{advice}")
    if server and not command.target:
        raise UsageError(f"{verb} takes no server's command")
    if needs_target:
        server, options.words = (words[0],), words[1:]
    options.command = server
    if command.target == "CLIENT" and len(server) == 1:
        _check_client_word(verb, server[0])


def _check_client_word(verb: str, word: str) -> None:
    """Raise a usage error for a word that names a server."""
    from mcpwire.transports.targets import is_url

    if word.startswith("@") or is_url(word):
        raise UsageError(
            f"{verb} starts a client's command, and {word!r} names a server"
        )


def _check_target(options: Options) -> None:
    """Look up the server of `@NAME`; check that the options fit the target."""
    from mcpwire.transports.targets import is_url

    command = options.command
    if len(command) == 1 and command[0].startswith("@"):
        from mcpwire.cli.targets import apply_entry

        apply_entry(options)
    elif options.config is not None and command:
        raise UsageError("--config goes with @NAME as TARGET, or with ls alone")
    if options.entry is not None:
        options.is_at_url = options.entry.transport == "http"
    elif command and is_url(command[0]):
        if len(command) > 1:
            raise UsageError(f"a URL takes no further words, got {command[1]!r}")
        options.is_at_url = True
        options.command = (command[0].strip(),)
    lists_all = options.verb == "ls" and not command
    for group in options.groups:
        if lists_all and group.only is not None:
            _reject_flags(
                options, group, "applies to one server, and this lists all servers"
            )
        elif group.only == ("process" if options.is_at_url else "url"):
            _reject_flags(options, group, WRONG_TARGET[group.only])
        elif group.only == "http" and options.http is None:
            _reject_flags(options, group, "needs --http")


def _reject_flags(options: Options, group: type[Group], problem: str) -> None:
    """Raise a usage error for the first option of a group that is set."""
    for flag in options.flags(group):
        raise UsageError(f"{flag} {problem}")
