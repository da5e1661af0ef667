"""A server that answers from a script; it imports the standard library only.

``scripted_server.py SCRIPT LOG``: SCRIPT maps methods to the steps of their answer,
LOG gets the process id and then each line received.

A step is ``{"result": ...}`` or ``{"error": ...}``, which gets the request's id,
``{"method": ...}``, which is sent as it is (``"$token"`` becomes the progress token,
``"$next"`` a new number each time), ``{"stderr": text}``, ``{"line": text}``,
``{"environ": true}`` (a result with the environment), ``{"until": path}`` (the
rest follows once that file exists) or ``{"exit": code}``. Without steps
there is no response. A client's response to a request of this server runs the steps of
``answer``, which apply to the client's last request.
"""

import itertools
import json
import os
import signal
import sys
import time

IDS = itertools.count(1000)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - a light start
        script = json.load(file)
    if script.pop("stubborn", False):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(log, f"{os.getpid()}\n".encode())
    for step in script.pop("first", []):
        perform(step, None)
    last = None
    for line in sys.stdin.buffer:
        os.write(log, line)
        message = json.loads(line)
        if "method" not in message:
            steps, message = script.get("answer", []), last
        else:
            steps = script.get(message["method"], [])
        if "id" in message:
            last = message
        for step in steps:
            perform(step, message)
    while script.get("stays"):
        signal.pause()


def perform(step, message):
    if "stderr" in step:
        os.write(2, step["stderr"].encode())
    elif "line" in step:
        os.write(1, step["line"].encode() + b"\n")
    elif "until" in step:
        while not os.path.exists(step["until"]):  # noqa: PTH110 - a light start
            time.sleep(0.005)
    elif "exit" in step:
        os._exit(step["exit"])
    elif "method" in step:
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        text = json.dumps({"jsonrpc": "2.0", **step})
        text = text.replace('"$token"', json.dumps(token))
        send(text.replace('"$next"', str(next(IDS))))
    elif "environ" in step:
        text = json.dumps(dict(os.environ))
        result = {"content": [{"type": "text", "text": text}]}
        send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    else:
        send(json.dumps({"jsonrpc": "2.0", "id": message["id"], **step}))


def send(text):
    os.write(1, text.encode() + b"\n")


if __name__ == "__main__":
    main()
