"""`deepinfer serve` as a process, and requests to it; Python's standard library only."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading

PROGRAM = os.environ["DEEPINFER_PROGRAM"]
SMALL = ("--max-context", "2048", "--cache-memory", "0.1", "--max-sequences", "4")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Program:
    """Runs until close(); `greeting` is what it said up to its address."""

    def __init__(self, *options, size=SMALL, environment=None):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", *size, *options], stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})})
        self.errors, self._ready = [], threading.Event()
        self.url = self.admin = None
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._ready.wait(120):
            self.close()
            raise AssertionError("the server does not come up: " + self.text())
        if self.process.poll() is not None and self.url is None:
            self.close()
            raise AssertionError("the server has ended: " + self.text())

    def _read(self):
        admin = "--admin-listen" in self.process.args
        for line in self.process.stderr:
            self.errors.append(line)
            if found := re.search(r" on (http://[^ ]+|/[^ ]+) \(", line):
                self.url = found.group(1)
            if found := re.search(r"operators at (\S+)", line):
                self.admin = found.group(1)
            if "curl" in line or self.admin:
                if not admin or self.admin:
                    self._ready.set()
        self._ready.set()

    def text(self):
        return "".join(self.errors)

    def ask(self, method, path, body=None, headers=None, admin=False):
        """(status, headers, bytes of the body)"""
        where = self.admin if admin else self.url
        if where.startswith("unix:"):
            connection = UnixConnection(where[5:], 120)
        else:
            connection = http.client.HTTPConnection(where.split("//")[1], timeout=120)
        try:
            data = json.dumps(body) if body is not None and not isinstance(body, (str, bytes)) else body
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def chat(self, tokens=16, **more):
        return self.ask("POST", "/v1/chat/completions", {
            "model": "DeepSeek-V4.1-Flash", "max_tokens": tokens, "thinking": {"type": "disabled"}, "temperature": 0,
            "messages": [{"role": "user", "content": "Tell me a story."}], **more})

    def end(self, number=signal.SIGTERM, timeout=60):
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.wait(timeout)

    def wait(self, timeout=60):
        code = self.process.wait(timeout)
        self._reader.join()
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()


def run(*options, timeout=60):
    """A run that ends by itself: (exit code, standard error)."""
    ended = subprocess.run([PROGRAM, "serve", *options], capture_output=True, text=True, timeout=timeout)
    return ended.returncode, ended.stderr
