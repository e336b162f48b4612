"""Headless Chromium by the DevTools protocol over two pipes: what the tests of the page need of it."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 30  # seconds: for machines that do much else


def chromium_path():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="page-test-", ignore_cleanup_errors=True)
        commands_read, self._commands = os.pipe()
        self._events, events_write = os.pipe()
        # The browser reads commands from descriptor 3 and writes to 4.
        high = [os.dup(fd) for fd in (commands_read, events_write)]
        kept = [os.dup(fd) for fd in high]

        def place_pipes():
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        arguments = [
            chromium_path(), "--headless=new", "--remote-debugging-pipe", "--no-first-run",
            "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
            "--disable-extensions", "--force-color-profile=srgb", "--hide-scrollbars", f"--user-data-dir={self._profile.name}",
        ]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        self._process = subprocess.Popen(
            arguments, preexec_fn=place_pipes, pass_fds=(3, 4, *kept),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (commands_read, events_write, *high, *kept):
            os.close(fd)
        self._ids = itertools.count(1)
        self._received = b""
        self.events = []  # of all pages, until somebody takes them

    def send(self, method, session=None, **parameters):
        command = {"id": next(self._ids), "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        while True:
            message = self._receive()
            if message.get("id") != command["id"]:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                return message["result"]

    def _receive(self):
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._events], [], [], PATIENCE)
            data = os.read(self._events, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser does not answer")
            self._received += data
        message, self._received = self._received.split(b"\0", 1)
        return json.loads(message)

    def close(self):
        try:
            self.send("Browser.close")
            self._process.wait(PATIENCE)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._events)
        self._profile.cleanup()


class Page:
    """A tab with storage of its own."""

    KEYS = {"Enter": ("\r", 13), "Escape": ("", 27), "Tab": ("", 9), " ": (" ", 32)}

    def __init__(self, browser, url, width=1200, height=800, dark=False):
        self._browser = browser
        self._context = browser.send("Target.createBrowserContext")["browserContextId"]
        self._target = browser.send("Target.createTarget", url="about:blank", browserContextId=self._context)["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        phone = width < 500
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.set_dark(dark)
        self.send("Page.addScriptToEvaluateOnNewDocument", source=(
            "window.violations = []; addEventListener('securitypolicyviolation', (event) => "
            "violations.push(`${event.violatedDirective} ${event.blockedURI}`));"))
        self.open(url)

    def send(self, method, **parameters):
        return self._browser.send(method, self._session, **parameters)

    def set_dark(self, dark):
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.activeElement?.id === 'draft'"
                  " || location.hash === '#engine' && document.querySelector('.card')")

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        """Until it is true."""
        end = time.monotonic() + PATIENCE
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {PATIENCE} s: {expression}\n{self.evaluate('document.body.innerText')}")
            time.sleep(0.02)

    def text(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText).join('\\n')")

    def count(self, selector):
        return self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def click(self, selector, text=None):
        """The last element of the selector, with this text where one is given: a press at its middle."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        if text is not None:
            found += f".filter(e => e.textContent === {json.dumps(text)})"
        self.wait(f"{found}.length > 0")
        x, y = self.evaluate(f"(() => {{ const e = {found}.at(-1); e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
                             " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        """Into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key, shift=False, control=False):
        text, code = self.KEYS.get(key, (key, ord(key.upper()) if len(key) == 1 else 0))
        parameters = {"key": key, "windowsVirtualKeyCode": code, "modifiers": (8 if shift else 0) | (2 if control else 0)}
        if text and not control:
            parameters["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown" if "text" in parameters else "rawKeyDown", **parameters)
        self.send("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in parameters.items() if k != "text"})

    def set(self, selector, value):
        """A field's value, as if it were typed over."""
        self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
                      " e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true})); })()")

    def screenshot(self, path):
        self.send("Page.bringToFront")
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def problems(self):
        """Uncaught errors, and what the page's own policy forbade."""
        found = self.evaluate("violations")
        for event in self._browser.events:
            if event.get("sessionId") == self._session and event["method"] == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"])
        return found

    def close(self):
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)
        self._browser.events = [event for event in self._browser.events if event.get("sessionId") != self._session]
