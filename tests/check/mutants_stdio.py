"""Faults of framing, of several calls in flight, and at the end of a process."""

import json
import os
import re
import signal
import subprocess
import time

from mutants import Mutant, mutant, register
from mutants_jsonrpc import fault, get, result

ENDS = ("TR-STDIO-13.a", "A07.a")


def raw(name, *cases, **facts):
    """Register a change of the lines of a client; ``None`` drops the line."""

    def add(change):
        register(Mutant(name, cases, raw_from_client=lambda x, _: change(x), **facts))
        return change

    return add


def dropped(name, *cases, when, **facts):
    """Register a server that drops some lines."""
    raw(name, *cases, **facts)(lambda line: None if when(line) else line)


def deadly(name, *cases, when, **facts):
    """Register a server that exits on some lines."""
    raw(name, *cases, **facts)(lambda line: os._exit(3) if when(line) else line)


def chunks(name, *cases, **facts):
    """Register a change of a chunk of input."""

    def add(change):
        register(Mutant(name, cases, chunk_from_client=change, **facts))
        return change

    return add


# --- parts and many at once


@chunks("the rest of a buffer is lost", "A11.a", "A11.b", "A11.e", "A10.a")
def no_rest(data, state):
    return data[: data.rfind(b"\n") + 1]


@chunks("single octets are lost", "A11.b", "A11.a")
def no_octet(data, state):
    return b"" if len(data) == 1 else data


def only_first(count):
    """Return a change that passes on the first lines of a buffer only."""
    return lambda data, _: b"".join(data.splitlines(keepends=True)[:count])


chunks("of a buffer 64 lines are read", "A11.c", "A11.d", "B02.h")(only_first(64))
chunks("of a buffer 256 lines are read", "A11.d")(only_first(256))


@chunks("of many invalid requests one is lost", "B02.h")
def no_tenth(data, _):
    invalid = [line for line in data.splitlines(keepends=True) if b'"method":5' in line]
    return data.replace(invalid[9], b"") if len(invalid) > 9 else data


@chunks("behind the end of a line in parts a buffer is lost", "A11.e", "A11.a", "A10.a")
def no_next(data, state):
    was_open = state.kept.get("open")
    if was_open and b"\n" in data:
        data = data[: data.index(b"\n") + 1]
    state.kept["open"] = not data.endswith(b"\n")
    return data


# --- ends of lines


dropped("CR LF is no end", "A09.a", when=lambda x: x.endswith(b"\r\n"))
dropped("blanks before a message are a fault", "A09.b",
        when=lambda x: x.startswith(b" \t{"))  # fmt: skip


@raw("a carriage return ends a line", "A01.a")
def cut_at_return(line):
    return line.replace(b",\r", b",\n") if line.startswith(b"{") else line


@raw("U+2028 ends a line", "A01.b")
def cut_at_separator(line):
    return line.replace("a\u2028b".encode(), b"a\nb")


deadly("an empty line is the end", "A09.c", when=lambda x: x == b"\n")
dropped("the last line needs its newline", "A09.d",
        when=lambda x: not x.endswith(b"\n"))  # fmt: skip


# --- octets


@raw("octets that are no UTF-8 are replaced", "A08.a")
def replaced(line):
    return line.decode("utf-8", "replace").encode()


deadly("octets that are no UTF-8 are the end", "A08.b",
       when=lambda x: x.startswith(b"\xff\xfe"))  # fmt: skip
MARK = b"\xef\xbb\xbf"
dropped("a mark before a message is a fault", "A08.c",
        when=lambda x: x.startswith(MARK) and b"initialize" not in x)  # fmt: skip
dropped("a mark at the start is a fault", "A08.d",
        when=lambda x: x.startswith(MARK) and b"initialize" in x)  # fmt: skip


@raw("control characters are left out", "A08.e")
def no_control(line):
    return line.replace(b"a\x00b", b"ab") if b"com.example/value" in line else line


deadly("NUL is the end", "A08.f", when=lambda x: x == b"\x00\n")
dropped("an escaped NUL is a fault", "A08.g",
        when=lambda x: rb"\u0000" in x and b"com.example/value" in x)  # fmt: skip
dropped("half of a pair is a fault", "A08.h", when=lambda x: rb"\ud800" in x)


@mutant("line ends in texts are not escaped", "TR-STDIO-01.a", "TR-STDIO-02.a")
def unescaped(message, _):
    text = json.dumps(message)
    if r"a\nb\r\nc" in text:
        return text.replace(r"a\nb", "a\nb").encode() + b"\n"
    return message


dropped("a message is shorter than a megabyte", "A10.a", when=lambda x: len(x) > 10**6)
deadly("a message of 32 MiB is the end", "A10.b", when=lambda x: len(x) > 2 * 10**7)


# --- several calls in flight


RANDOM = re.compile(r"mcpwire (mcpwire-)?\d+ 0\.\d+")


def crossing(name, *cases, after):
    """Register a server that swaps two texts once."""

    @mutant(name, *cases)
    def change(message, state):
        if state.method_of(message) != "tools/call" or "result" not in message:
            return message
        content = message["result"].get("content") or [{}]
        if not RANDOM.fullmatch(content[0].get("text", "")):
            return message
        state.kept["count"] = state.kept.get("count", 0) + 1
        if state.kept["count"] == after:
            state.kept["text"] = content[0]["text"]
            content[0]["text"] = "mcpwire 1 0.5"
        return message


crossing("two calls get each other's texts", "RPC-07.e", after=5)
crossing("of many calls two get each other's texts", "RPC-07.f", after=60)


@mutant("a call whose id is taken is answered thrice", "B04.a")
def thrice(message, _):
    is_it = str(message.get("id")).startswith("mcpwire-twice")
    return [message, message, message] if is_it else message


SHARED = [{"type": "text", "text": "mcpwire one 3"}]
fault("two sessions share their calls", "B04.b",
      when=lambda m: get(m, "id") == 880_003,
      then=lambda m: result(m["id"], content=SHARED))  # fmt: skip


# --- JSON that is hard to read

deadly("nesting is the end", "B13.a", when=lambda x: b"[[[[[[[[[[[[" in x)
deadly("a name that stands twice is the end", "B13.b", when=lambda x: b'"a":1,"a"' in x)


@raw("NaN is null", "B13.c")
def no_number(line):
    return line.replace(b":NaN", b":null")


deadly("a number without bounds is the end", "B13.d", when=lambda x: b":1e400" in x)
deadly("a million names are the end", "B13.e", when=lambda x: b'"999999":1' in x)
deadly("a million digits are the end", "B13.f", when=lambda x: b"9" * 1000_000 in x)


# --- stdout, resources, the end


@mutant("a banner stands on stdout", "TR-STDIO-02.a")
def banner(message, state):
    if state.method_of(message) == "initialize":
        return [b"Server 1.0 is ready\n", message]
    return message


def is_counted(message, state):
    """Return whether a message answers one of the measured calls."""
    content = message.get("result", {}).get("content") or [{}]
    return re.fullmatch(r"mcpwire \d+", content[0].get("text", "")) is not None


@mutant("descriptors are left open", "H02.a")
def leaks_descriptors(message, state):
    if is_counted(message, state):
        state.kept["n"] = state.kept.get("n", 0) + 1
        if state.kept["n"] % 20 == 0:
            os.open(os.devnull, os.O_RDONLY)
    return message


@mutant("processes are left", "H02.b", "H02.a", "A07.c")
def leaks_processes(message, state):
    if is_counted(message, state):
        state.kept["n"] = state.kept.get("n", 0) + 1
        if state.kept["n"] % 200 == 0:
            subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    return message


@mutant("memory is not given back", "H03.a")
def leaks_memory(message, state):
    if is_counted(message, state):
        state.kept.setdefault("all", []).append(b"x" * 100_000)
    return message


def lingers(_):
    """Keep running for longer than clients wait."""
    time.sleep(7)  # the fault: longer than a server may take to end


register(Mutant("the end of the input is not seen", ("A07.a",), at_end=lingers))
register(Mutant("a stateless server does not see the end of its input",
                ("TR-STDIO-13.a",), at_end=lingers,
                revision="2026-07-28"))  # fmt: skip
register(Mutant("the exit code is 3", ("A07.b",), at_end=lambda _: 3))


@mutant("a child is left behind", "A07.c")
def leaves_child(message, state):
    if state.method_of(message) == "initialize":
        subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    return message


register(Mutant("a word of farewell", ("TR-STDIO-02.b",),
                at_end=lambda _: os.write(1, b"bye\n") and None))  # fmt: skip


def _busy(message, state):
    if get(message, "method") == "tools/call":
        found = message["params"].get("arguments")
        state.kept["busy"] = isinstance(found, dict) and found.get("seconds") == 10
    return message


def _waits(state):
    if state.kept.get("busy"):
        lingers(state)


register(Mutant("a call keeps the process", ("A07.d",), from_client=_busy,
                at_end=_waits))  # fmt: skip


@mutant("SIGTERM is ignored", "A07.e")
def stubborn(message, state):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return message


def _alone(state):
    try:
        os.write(1, b"\n")
    except BrokenPipeError:
        lingers(state)


register(Mutant("a client that dies is not missed", ("A07.f",), at_end=_alone))
