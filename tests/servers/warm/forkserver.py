"""Import a framework once; each program that asks is forked from there.

    python forkserver.py DESCRIPTOR MODULE...

Runs in the environment of a real server, so it needs the standard library only. It
listens on the socket it inherits. `launch.py` sends what to run and its own standard
streams; the fork runs the program as `python program` would, and whoever asked is told
its exit code. Where the one who asked goes, the program is killed.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path

SIZE_BYTES = 4


def receive(asker):
    """Return what is asked for and the three descriptors that came with it."""
    data, streams, _, _ = socket.recv_fds(asker, 65536, 3)
    while len(data) < SIZE_BYTES or len(data) < SIZE_BYTES + size_of(data):
        data += asker.recv(65536)
    return json.loads(data[SIZE_BYTES:]), streams


def size_of(data):
    return int.from_bytes(data[:SIZE_BYTES], "big")


def watch(program, asker):
    """Tell the asker how the program ended, or end it where the asker has gone."""
    gone = os.pidfd_open(program)
    ready, _, _ = select.select([gone, asker], [], [])
    if gone not in ready:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    try:
        asker.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    except OSError:  # nobody is left to be told
        return


def serve(listener):
    """Return what is to be run, in a process forked for that alone."""
    # Nobody waits for the forks that watch; the kernel is to forget them by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asker, _ = listener.accept()
        if os.fork():
            asker.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        asked, streams = receive(asker)
        program = os.fork()
        if program:
            for stream in streams:
                os.close(stream)
            watch(program, asker)
            os._exit(0)
        asker.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return asked


def main():
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    asked = serve(listener)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    words = asked["argv"]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = asked["cwd"]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
