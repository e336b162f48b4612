"""A server that gives the page's files as the real one does, and answers its API from scripts."""

import json
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES = pathlib.Path(__file__).parents[3] / "src" / "serving" / "page" / "files"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# page_routes_test.cpp holds the real server to the same.
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
          "base-uri 'none'; frame-ancestors 'none'; form-action 'none'")

CUT = object()  # as a step: the connection ends without the end of the answer


def delta(finish=None, usage=None, **fields):
    """A chunk of an answer."""
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "Scripted",
             "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}
    if usage:
        chunk["usage"] = usage
    return chunk


def answer(content="", reasoning="", tokens=3):
    """The steps of a whole answer; "¦" parts the pieces."""
    steps = [delta(role="assistant", content="")]
    steps += [delta(reasoning_content=piece) for piece in reasoning.split("¦") if piece]
    steps += [delta(content=piece) for piece in content.split("¦") if piece]
    usage = {"prompt_tokens": 12, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 4}}
    if reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": 2}
    return steps + [delta("stop", usage, content="")]


def tool_call(name, arguments, call_id="call_1"):
    half = len(arguments) // 2
    return [delta(role="assistant", content=""),
            delta(tool_calls=[{"index": 0, "id": call_id, "type": "function",
                               "function": {"name": name, "arguments": arguments[:half]}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": arguments[half:]}}]),
            delta("tool_calls", content="")]


class ScriptedServer:
    def __init__(self):
        self.reset()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                server._get(self)

            def do_POST(self):
                server._post(self)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def reset(self):
        self.scripts = []    # one for each answer: a list of chunks, of events to wait for, CUT; or (status, message)
        self.requests = []   # bodies of chat requests
        self.keys = []       # authorization headers of them
        self.key = None      # the key that is wanted
        self.metrics = ""
        self.left = threading.Event()  # the client of a streamed answer has gone

    def close(self):
        self._http.shutdown()
        self._http.server_close()

    def _respond(self, handler, status, content_type, body, headers=()):
        handler.send_response(status)
        for name, value in (("content-type", content_type), ("content-length", str(len(body))), *headers):
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def _error(self, handler, status, message):
        body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
        self._respond(handler, status, "application/json", body)

    def _refused(self, handler):
        if self.key is None or handler.headers.get("authorization") == f"Bearer {self.key}":
            return False
        self._error(handler, 401, "A valid API key is needed.")
        return True

    def _get(self, handler):
        path = handler.path
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        if path == "/" or path.startswith("/page/") and (FILES / name).is_file():
            headers = (("content-security-policy", POLICY), ("x-content-type-options", "nosniff"))
            self._respond(handler, 200, TYPES[(FILES / name).suffix], (FILES / name).read_bytes(), headers)
        elif self._refused(handler):
            pass
        elif path == "/v1/models":
            self._respond(handler, 200, "application/json", b'{"object": "list", "data": [{"id": "Scripted"}]}')
        elif path == "/metrics":
            self._respond(handler, 200, "text/plain; version=0.0.4", self.metrics.encode())
        else:
            self._error(handler, 404, "There is no such path.")

    def _post(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        if self._refused(handler):
            return
        self.requests.append(body)
        self.keys.append(handler.headers.get("authorization"))
        script = self.scripts.pop(0)
        if isinstance(script, tuple):
            self._error(handler, *script)
            return
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream; charset=utf-8")
        handler.send_header("connection", "close")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.close_connection = True
        try:
            for step in script:
                if step is CUT:
                    time.sleep(0.5)  # what came before is read by then
                    return
                if isinstance(step, threading.Event):
                    # Comments meanwhile, so that a client that leaves is noticed.
                    while not step.wait(0.05):
                        self._write(handler, b": \n\n")
                else:
                    self._write(handler, b"data: " + json.dumps(step, ensure_ascii=False).encode() + b"\n\n")
            self._write(handler, b"data: [DONE]\n\n")
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.left.set()

    @staticmethod
    def _write(handler, data):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
