"""Shows a page in a real browser, without a window."""

import html
import json
import re
import shutil
import subprocess
import tempfile

__all__ = ["CHROMIUM", "PAPER", "seen"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

PAPER = {0: "rgb(20, 23, 26", 1: "rgb(255, 255, 255"}
"""The colour of our pages in dark, and in light."""

MEASURE = """
<script>
const found = document.title.startsWith("{") ? JSON.parse(document.title) : {};
found.wide = document.documentElement.scrollWidth - innerWidth;
found.paper = getComputedStyle(document.body).backgroundColor;
document.title = JSON.stringify(found);
</script>
"""


def seen(page, width, scheme, probe=""):
    """Return what a browser measures of a page.

    Args:
        page: Its path; a temporary copy with scripts is created beside it.
        width: The width of the window.
        scheme: A key of `PAPER`.
        probe: Elements of scripts; the last one may set the title to a JSON object.

    Returns:
        The members of that object; `wide`: by how much the page is wider than the
        window; `paper`: its colour.
    """
    copy = page.with_name(f"probed-{page.name}")
    text = page.read_text("utf-8").replace("</body>", f"{probe}{MEASURE}</body>")
    copy.write_text(text, "utf-8")
    with tempfile.TemporaryDirectory() as profile:
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        words += [f"--window-size={width},900", f"--user-data-dir={profile}"]
        words += [f"--blink-settings=preferredColorScheme={scheme}", copy.as_uri()]
        done = subprocess.run(
            [CHROMIUM, *words], capture_output=True, text=True, timeout=60, check=True
        )
    copy.unlink()
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    return json.loads(html.unescape(title[1]))
