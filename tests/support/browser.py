"""A headless Chromium, driven over two pipes by its DevTools protocol: what a page shows, and what it asks for."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-extensions",
    ),
    *("--disable-background-networking", "--remote-debugging-pipe", "--hide-scrollbars"),
)


def program() -> str:
    """The browser of this machine; a test is skipped without one, and fails in CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = "there is no Chromium here: `apt-get install chromium`"
        if os.environ.get("CI"):
            pytest.fail(reason + ", and CI must have it")
        pytest.skip(reason)
    return found


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in a folder; it ends with the block."""
    read_by_it, write = os.pipe()
    read, written_by_it = os.pipe()
    command = [program(), *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    handed = [
        "sh",
        "-c",
        f'exec "$@" 3</dev/fd/{read_by_it} 4>/dev/fd/{written_by_it}',
        "sh",
    ]  # it reads commands at 3, answers at 4
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [*handed, *command], pass_fds=(read_by_it, written_by_it), stdout=quiet, stderr=quiet
    ) as process:
        os.close(read_by_it)
        os.close(written_by_it)
        browser = Browser(read, write)
        try:
            yield browser
        finally:
            os.close(write)  # it ends where nobody speaks to it any more
            process.terminate()
            os.close(read)


class Browser:
    """One page of a browser."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        """What happened since the page was opened."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (said := self._next()).get("id") != number:
            self.events.append(said)
        assert "error" not in said, (method, said)
        return dict(said["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def open(self, page: Path, *, part: str = "", script: bool = True) -> Self:
        """Show a file, and wait until it is loaded."""
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self._go("about:blank")  # else a part of the page that is open would only be scrolled to
        self._go(f"{page.as_uri()}{part}")
        return self

    def visit(self, address: str) -> Self:
        """Go to an address, and wait until its page is loaded."""
        self._go(address)
        return self

    def _go(self, address: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, as JSON carries it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys one after the other; a letter types itself."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def requests(self) -> list[str]:
        """The addresses that the page reached for since it was opened, its own file's first; not what its policy stopped."""
        said = [(event.get("method"), event.get("params", {})) for event in self.events]
        stopped = {
            told["requestId"] for name, told in said if name == "Network.loadingFailed" and told.get("blockedReason")
        }
        sent = [told for name, told in said if name == "Network.requestWillBeSent"]
        return [told["request"]["url"] for told in sent if told["requestId"] not in stopped]

    def complaints(self) -> list[str]:
        """What the browser's console says: errors of scripts, and what a policy forbade."""
        thrown = [each["params"] for each in self.events if each.get("method") == "Runtime.exceptionThrown"]
        logged = [each["params"]["entry"] for each in self.events if each.get("method") == "Log.entryAdded"]
        return [json.dumps(each) for each in (*thrown, *logged)]

    def screenshot(self, file: Path) -> None:
        """Write what is seen as a PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
