"""URLs that the browser of a user of a public server must not open.

They were used against clients, or are similar: one or two of each kind. The tests of
`wire.urls` have those that parsers read differently.
"""

HOSTILE = (
    # Schemes with a handler on the machine.
    "javascript:alert(1)",
    "JavaScript://login.example/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "search-ms:query=calc&crumb=location:\\\\evil",
    "ms-msdt:/id PCWDiagnostic",
    "ssh://-oProxyCommand=calc/x",
    "ws://login.example/authorize",
    "view-source:https://login.example/",
    "blob:https://login.example/x",
    # Shells of all systems.
    "https://login.example/$(calc.exe)",
    "https://login.example/?a=$(calc.exe)",
    "http://www.example.com/$(calc.exe)/",
    "https://login.example/`calc`",
    "https://login.example/;calc;",
    "https://login.example/|calc",
    "https://login.example/&calc&",
    "https://login.example/'&calc&'",
    "https://login.example/%COMSPEC%",
    "https://login.example/^calc",
    "https://login.example/${IFS}calc",
    "-oProxyCommand=calc",
    "--version",
    # Characters that end lines, arguments or hosts for some programs.
    "https://login.example/\r\nx: y",
    "https://login.example/ x",
    "https://login.example/\x1b]8",
    "https://login.example/\u202egpj.exe",
    "https://login.example\\@evil.example/",
    "\\\\evil.example\\share\\run.exe",
    "https://\u0430pple.example/",
    # Misleading or missing hosts.
    "https://user:hush-hush@login.example/",
    "https:///authorize",
    "//login.example/authorize",
    "",
    "https://login.example:0/",
    "https://999.1.1.1/",
    "https://login.example/#fragment",
    # Unencrypted, or internal.
    "http://login.example/authorize",
    "http://127.0.0.1:1/authorize",
    "https://localhost/authorize",
    "https://2130706433/authorize",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/admin?delete=all",
    "https://login.example/" + "a" * 9_000,
)
