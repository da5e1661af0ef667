"""An attack on the number of upstream processes of a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attacks.scene import Outcome, attack, look
from attacks.wire import initialize, message, post

if TYPE_CHECKING:
    from attacks.scene import Scene, Size

SETS = 64
UPSTREAMS = 2


def gateway_options(size: Size) -> dict[str, Any]:
    """Return the limit of upstream sets; the default one at full size."""
    return {} if size.scale == 1 else {"sets": size.many(SETS)}


@attack(
    "initialize at a gateway",
    "X06",
    f"upstreams start when needed; {SETS} sets",
    options=gateway_options,
    program="mcpwire_gateway.py",
    tool="one_echo",
    has_peers=False,
)
async def gateway_sessions(scene: Scene) -> Outcome:
    """120 sessions at a gateway for two stdio servers; each then lists the tools."""
    pid = scene.running.process.pid

    def processes() -> int:
        sample = look(pid)
        return 0 if sample is None else sample.processes

    request = post(scene.port, initialize())
    answers = [await scene.ask(request) for _ in range(scene.many(120))]
    opened = processes()
    most = opened
    for answer in answers:
        if answer is not None and answer.session:
            listed = scene.in_session(answer.session, message("tools/list"))
            await scene.ask(listed)
            most = max(most, processes())
    allowed = 1 + UPSTREAMS * (scene.many(SETS) + 1)
    text = f"{opened} processes after initialize, {most} after tools/list"
    return Outcome(text, most <= allowed)
