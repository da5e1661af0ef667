"""Drives an operation of several steps by a script of results."""

from mcpwire.protocol.multistep import Call, HandleInput


def drive(operation, *results):
    """Perform an operation; return its steps and its final result.

    A question is answered by its key, `tasks/update` by an empty result, and any other
    call by the next of `results`, which must be used up; an error is thrown.
    """
    remaining = iter(results)
    steps, outcome = [], None
    try:
        while True:
            if isinstance(outcome, Exception):
                step = operation.throw(outcome)
            else:
                step = operation.send(outcome)
            steps.append(step)
            outcome = None
            if type(step) is HandleInput:
                outcome = {"answer to": step.key}
            elif type(step) is Call:
                outcome = {} if step.method == "tasks/update" else next(remaining)
    except StopIteration as done:
        assert next(remaining, None) is None
        return steps, done.value
