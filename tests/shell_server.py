"""A server that starts in a millisecond: a few lines of sh.

For tests that start hundreds of children. It answers `ping`, `tools/list` (three pages,
one tool each) and `tools/call` (one block of text, the call's id); it ends with its
input. It also answers cancelled requests, as servers may.
"""

from mcpwire import Stdio

SCRIPT = r"""
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  case $line in *'"id":'*) ;; *) continue ;; esac
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
  *'"method":"server/discover"'*)
    say '"error":{"code":-32601,"message":"Method not found"}' ;;
  *'"method":"initialize"'*)
    say '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"quick","version":"'$$'"}}' ;;
  *'"method":"ping"'*)
    say '"result":{}' ;;
  *'"cursor":"3"'*)
    say '"result":{"tools":[{"name":"c","inputSchema":{"type":"object"}}]}' ;;
  *'"cursor":"2"'*)
    say '"result":{"tools":[{"name":"b","inputSchema":{"type":"object"}}],"nextCursor":"3"}' ;;
  *'"method":"tools/list"'*)
    say '"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}' ;;
  *) say '"result":{"content":[{"type":"text","text":"'$id'"}]}' ;;
  esac
done
"""  # noqa: E501 - sh has no shorter way to write them


def quick() -> Stdio:
    """Return the target."""
    return Stdio("/bin/sh", ["-c", SCRIPT])
