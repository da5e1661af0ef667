"""Clients with faults in the handshake."""

from client_mutants import faulty_use, incoming, outgoing, use_all


@outgoing("C-LIFE-01.a")
class InitializedBeforeInitialize:
    def __call__(self, message):
        if message.get("method") == "initialize":
            return [{"jsonrpc": "2.0", "id": "x", "method": "ping"}, message]
        return None


@outgoing("C-LIFE-07.a")
def proposes_no_version(message):
    if message.get("method") == "initialize":
        message["params"]["protocolVersion"] = "2025-13-01"


@outgoing("C-LIFE-05.a")
class InitializedLate:
    held = None

    def __call__(self, message):
        if message.get("method") == "notifications/initialized":
            self.held = message
            return []
        if self.held is not None:
            held, self.held = self.held, None
            return [message, held]
        return None


@incoming("C-LIFE-09.a")
def accepts_every_version(message):
    result = message.get("result") or {}
    if result.get("protocolVersion") == "1999-01-01":
        result["protocolVersion"] = "2025-11-25"


@incoming("C-LIFE-11.a")
def assumes_capabilities(message):
    result = message.get("result") or {}
    if "protocolVersion" in result:
        result["capabilities"] = {"tools": {}}


@outgoing("C-PING-01.b", "stdio")
class AnswersNothingBeforeInitialized:
    is_initialized = False

    def __call__(self, message):
        self.is_initialized |= message.get("method") == "notifications/initialized"
        return [] if "result" in message and not self.is_initialized else None


@incoming("C-A12.a", "stdio")
class StopsAtEarlyLog:
    is_initialized = False

    def __call__(self, message):
        self.is_initialized |= "result" in message
        is_log = message.get("method") == "notifications/message"
        if is_log and not self.is_initialized:
            raise ValueError("a message before the handshake")


@faulty_use("C-A18.a")
async def fails_at_its_end(target):
    await use_all(target)
    raise ValueError("a fault of the program")
