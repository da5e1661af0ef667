"""An attack on the number of upstream processes of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attacks.runner import Outcome, attack, read_sample
from attacks.wire import initialize, message, post

if TYPE_CHECKING:
    from attacks.runner import AttackContext, Size

SETS = 64
UPSTREAMS = 2


def gateway_options(size: Size) -> dict[str, Any]:
    """Return the limit of upstream sets; the default one at full size."""
    return {} if size.scale == 1 else {"sets": size.scale_count(SETS)}


@attack(
    "initialize at a gateway",
    "X06",
    f"upstreams start when needed; {SETS} sets",
    options=gateway_options,
    program="mcpwire_gateway.py",
    tool="one_echo",
    has_peers=False,
)
async def gateway_sessions(context: AttackContext) -> Outcome:
    """120 sessions at a gateway for two stdio servers; each then lists the tools."""
    pid = context.running.process.pid

    def processes() -> int:
        sample = read_sample(pid)
        return 0 if sample is None else sample.processes

    request = post(context.port, initialize())
    answers = [
        await context.send_request(request) for _ in range(context.scale_count(120))
    ]
    opened = processes()
    max_processes = opened
    for answer in answers:
        if answer is not None and answer.session:
            list_request = context.in_session(answer.session, message("tools/list"))
            await context.send_request(list_request)
            max_processes = max(max_processes, processes())
    limit = 1 + UPSTREAMS * (context.scale_count(SETS) + 1)
    text = f"{opened} processes after initialize, {max_processes} after tools/list"
    return Outcome(text, max_processes <= limit)
