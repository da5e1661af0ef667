"""Python functions as tools, prompts and resources.

::

    function ─► signature (hints, docstring) ─► schemas ─► the component's JSON Schema
    arguments ─► conversion ─► the function's values, with those of injection
    value ─► results ─► content of the protocol

`server.tools` and its neighbours register the components; `server.calling` runs them.
"""
