"""Have axe-core look at each page of the console: `python -m tests.serve.axe_run AXE`, where AXE is its `axe.min.js`.

`npm install axe-core` brings the file. Each page is shown wide and narrow, light and dark. The exit code is 1 if a finding is
serious or critical; others are printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.serve.schemathesis_run import fill
from tests.support.browser import Browser, browsing
from tests.support.servers import serving

PAGES: Final = (
    *("/", "/session?id=a", "/turn?id=a&turn=1", "/forest", "/forest?id=a", "/search?text=sea", "/compare?root=a"),
    *(
        "/compare?left=a&right=a-fork",
        "/scores",
        "/audit",
        "/audit/questions/cost",
        "/sparql-editor",
        "/login",
        "/nowhere",
    ),
)
_GRAVE: Final = ("serious", "critical")


def main() -> int:
    """Look at all pages; print what is found, and return 1 if anything of it is serious."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("axe", type=Path, help="the file axe.min.js")
    axe = parser.parse_args().axe.read_text("utf-8")
    grave = 0
    with tempfile.TemporaryDirectory(prefix="trails-axe-") as place:
        folder = Path(place)
        fill(folder / "store")
        with serving(folder / "store", folder / "server.log") as server, browsing(folder / "profile") as browser:
            for scheme in ("light", "dark"):
                for width in (1440, 390):
                    _show_as(browser, scheme, width)
                    for page in PAGES:
                        browser.visit(f"http://127.0.0.1:{server.port}{page}")
                        found = _findings(browser, axe)
                        grave += sum(each["impact"] in _GRAVE for each in found)
                        for each in found:
                            print(scheme, width, page, each["impact"], each["id"], each["html"])  # noqa: T201
    print(f"{len(PAGES)} pages, serious findings: {grave}")  # noqa: T201
    return int(grave > 0)


def _show_as(browser: Browser, scheme: str, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def _findings(browser: Browser, axe: str) -> list[dict[str, Any]]:
    browser.ask(axe + "; 0")
    looked = "axe.run(document, {resultTypes: ['violations']})"
    told = "({impact: each.impact, id: each.id, html: each.nodes[0].html.slice(0, 120)})"
    return list(browser.ask(f"{looked}.then((result) => result.violations.map((each) => {told}))"))


if __name__ == "__main__":
    sys.exit(main())
