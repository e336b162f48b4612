"""The listener of operators, its keys, and the end that an operator orders."""

import json
import os
import tempfile
import threading
import unittest

from served_program import Program, run

ROUTES = ["/admin/state", "/admin/flush-prefix-cache", "/admin/drain", "/admin/pause", "/admin/resume", "/admin/profile",
          "/admin/log-level"]


class AdminTest(unittest.TestCase):
    def start(self, *options, **more):
        program = Program("--port", "0", *options, **more)
        self.addCleanup(program.close)
        return program

    def test_off_by_default_and_never_public(self):
        program = self.start("--admin-listen", "127.0.0.1:0")
        self.assertRegex(program.admin, r"^http://127\.0\.0\.1:\d+$")
        for path in ROUTES:
            for method in ("GET", "POST", "PUT"):
                self.assertEqual(program.ask(method, path, "{}")[0], 404, (method, path))
        self.assertEqual(program.ask("GET", "/v1/models", admin=True)[0], 404)
        self.assertEqual(program.ask("GET", "/", admin=True)[0], 404)
        status, _, body = program.ask("GET", "/admin/state", admin=True)
        self.assertEqual((status, json.loads(body)["engine"]), (200, "running"))
        self.assertEqual(program.ask("GET", "/admin/state", headers={"Host": "evil.example"}, admin=True)[0], 421)
        self.assertEqual(program.ask("POST", "/admin/drain", headers={"Origin": "http://evil.example"}, admin=True)[0], 403)

    def test_an_operator_at_work(self):
        with tempfile.TemporaryDirectory() as folder:
            socket, log = os.path.join(folder, "admin.sock"), os.path.join(folder, "log")
            program = self.start("--admin-listen", "unix:" + socket, "--access-log", log, "--kv-host-memory", "0.05")
            self.assertEqual(os.stat(socket).st_mode & 0o777, 0o600)
            self.assertEqual(program.chat()[0], 200)
            first = json.loads(program.chat()[2])
            self.assertEqual(program.ask("POST", "/admin/flush-prefix-cache", {"tiers": ["device", "host"]}, admin=True)[0], 200)
            self.assertEqual(json.loads(program.chat()[2])["choices"], first["choices"])

            recorded = []
            recorder = threading.Thread(target=lambda: recorded.append(
                program.ask("POST", "/admin/profile", {"steps": 5}, admin=True)))
            recorder.start()
            while recorder.is_alive():
                program.chat(64)
            recorder.join()
            status, headers, trace = recorded[0]
            self.assertEqual((status, headers["deepinfer-steps"]), (200, "5"))
            steps = [event for event in json.loads(trace) if event.get("tid") == 2 and event["ph"] == "X"]
            self.assertEqual(len(steps), 5)

            self.assertEqual(program.ask("POST", "/admin/pause", "", admin=True)[0], 200)
            self.assertEqual(program.ask("GET", "/health/ready")[0], 503)
            self.assertEqual(program.ask("GET", "/health/live")[0], 200)
            waiting = []
            client = threading.Thread(target=lambda: waiting.append(program.chat()[0]))
            client.start()
            self.assertEqual(program.ask("POST", "/admin/resume", admin=True)[0], 200)
            client.join()
            self.assertEqual(waiting, [200])

            self.assertEqual(program.ask("PUT", "/admin/log-level", {"level": "warning"}, admin=True)[0], 200)
            self.assertEqual(program.chat()[0], 200)
            self.assertEqual(program.ask("POST", "/admin/drain", admin=True)[0], 200)
            self.assertEqual(program.wait(), 0)
            self.assertFalse(os.path.exists(socket))
            with open(log) as file:
                lines = [json.loads(line) for line in file]
        events = [line["event"] for line in lines if "event" in line]
        self.assertEqual(events, ["started", "flushed", "profiled", "paused", "resumed"])
        self.assertNotIn("/admin/drain", [line.get("path") for line in lines])  # below the level by then
        answered = [line for line in lines if line.get("path") == "/v1/chat/completions"]
        self.assertEqual((answered[0]["prompt_tokens"] > 0, answered[0]["answer_tokens"]), (True, 16))
        self.assertNotIn("story", json.dumps(lines))

    def test_keys_and_addresses(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")
            with open(keys, "w") as file:
                file.write("operator-key\n")
            program = self.start("--admin-listen", "127.0.0.1:0", "--admin-key-file", keys)
            self.assertEqual(program.ask("GET", "/admin/state", admin=True)[0], 401)
            self.assertEqual(program.ask("GET", "/metrics", admin=True)[0], 401)
            self.assertEqual(
                program.ask("GET", "/admin/state", headers={"x-api-key": "operator-key"}, admin=True)[0], 200)
            clients = self.start("--admin-listen", "127.0.0.1:0", "--api-key-file", keys)
            self.assertEqual(clients.ask("GET", "/metrics")[0], 401)
            self.assertEqual(clients.ask("GET", "/metrics", admin=True)[0], 200)
            self.assertEqual(clients.ask("GET", "/health/ready", admin=True)[0], 200)
        for where, part in {"0.0.0.0:9000": "allowed with --admin-key-file", "127.0.0.1": "HOST:PORT or unix:PATH",
                            "127.0.0.1:99999": "HOST:PORT or unix:PATH", ":9": "HOST:PORT or unix:PATH",
                            "unix:": "names no path", "[::]:9000": "allowed with --admin-key-file"}.items():
            code, errors = run("--admin-listen", where)
            self.assertEqual(code, 2, where)
            self.assertIn(part, errors)
        self.assertIn("needs --admin-listen", run("--admin-key-file", "x")[1])


if __name__ == "__main__":
    unittest.main()
