"""Python functions as tools, prompts and resources.

::

    function ─► signature (hints, docstring) ─► schemas ─► the component's JSON Schema
    arguments ─► conversion ─► the function's values, with those of injection
    value ─► results ─► content of the protocol

Registration is in `server.tools`, `prompts` and `resources`; calls are in `calling`.
"""
