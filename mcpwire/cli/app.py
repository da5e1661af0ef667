"""Runs one command: parses, performs, reports. No exception leaves it.

This is the one boundary where everything is caught: a person at a prompt gets one
sentence and a script gets one code, never a traceback (but for a bug of ours, with -v).
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from mcpwire._version import __version__
from mcpwire.cli.failures import Exit, OutputError, exit_code
from mcpwire.cli.output import abandon_stdout, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwire.cli.grammar import Options
    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Signals

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Run a command line; return its exit code."""
    try:
        return _dispatch(argv)
    except BrokenPipeError:
        abandon_stdout()
        return Exit.BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the boundary
        return _report(argv, error)


def _dispatch(argv: list[str]) -> int:
    if not argv:
        from mcpwire.cli.manual import OVERVIEW

        sys.stderr.write(OVERVIEW)
        return Exit.USAGE
    if argv[0] in {"-h", "--help", "help"}:
        from mcpwire.cli.manual import OVERVIEW

        write_text(OVERVIEW)
        return Exit.OK
    if argv[0] == "--version":
        write_text(f"mcpwire {__version__}\n")
        return Exit.OK
    if argv[0] in {"serve", "gateway"}:
        return _serve(argv[0], argv[1:])
    from mcpwire.cli.grammar import parse

    options = parse(argv)
    if options.help is not None:
        write_text(options.help)
        return Exit.OK
    return _perform(options)


def _serve(verb: str, words: list[str]) -> int:
    """Run a command that serves instead of connecting to a server."""
    if verb == "serve":
        from mcpwire.cli.serve import serve

        return serve(words)
    from mcpwire.cli.serve import gateway

    return gateway(words)


def _report(argv: list[str], error: BaseException) -> int:
    """Say what went wrong, by the options as far as they can be known.

    However often Ctrl-C is pressed meanwhile, it is said once and whole.
    """
    import signal
    import threading

    is_main = threading.current_thread() is threading.main_thread()
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        return _tell(argv, error)
    finally:
        if kept is not None:
            signal.signal(signal.SIGINT, kept)


def _tell(argv: list[str], error: BaseException) -> int:
    from mcpwire.cli.output import Output

    if isinstance(error, OutputError):
        abandon_stdout()
    head = argv[: argv.index("--")] if "--" in argv else argv
    verbose = any(word in {"-v", "-vv", "--verbose"} for word in head)
    output = Output(is_json="--json" in head, verbose=verbose)
    code = exit_code(error)
    if code == Exit.INTERNAL:
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            output.detail(line)
    output.fail(error)
    return code


def _perform(options: Options) -> int:
    if options.verb == "demo-server":
        from mcpwire.cli.serve import serve_demo

        return serve_demo(options)
    from mcpwire.cli.commands import prepare
    from mcpwire.cli.output import Output
    from mcpwire.cli.session import Session, run_interruptible

    output = Output(is_json=options.json, verbose=options.verbose > 0)
    from mcpwire.cli.targets import tell_entry

    tell_entry(options, output)
    if options.verb == "ls" and not options.command:
        from mcpwire.cli.servers import list_servers

        with _logging_to(output):
            return run_interruptible(
                lambda signals: list_servers(options, output, signals)
            )
    if options.verb.startswith("auth "):
        from mcpwire.cli.login import perform

        with _logging_to(output):
            return run_interruptible(lambda _: perform(options, output))
    work = prepare(options)

    async def session(signals: Signals) -> int:
        return await Session(options, output, signals).run(work)

    with _logging_to(output):
        return run_interruptible(session)


@contextlib.contextmanager
def _logging_to(output: Output) -> Iterator[None]:
    """Let the library's log go where everything else goes, and only with -v."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.detail(f"log: {record.getMessage()}")

    logger = logging.getLogger("mcpwire")
    kept = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [Handler()], False
    steps = logging.getLogger("mcpwire.oauth")
    level = steps.level
    steps.setLevel(logging.DEBUG if output.verbose else level)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = kept
        steps.setLevel(level)
