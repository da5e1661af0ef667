"""The asyncio shell: sockets, pipes, child processes and clocks live here.

A transport performs calls (`Channel`); it is not a pipe of messages. Rules of the
protocol stand in `mcpwire.protocol`, and nothing here repeats one.
"""
