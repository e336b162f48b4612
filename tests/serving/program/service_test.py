"""What a service manager sees: the unit file, the notices, the time to stop."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from served_program import PROGRAM, Program

UNIT = os.path.join(os.path.dirname(__file__), "..", "..", "..", "deploy", "systemd", "deepinfer.service")


class ServiceTest(unittest.TestCase):
    def test_notices(self):
        with tempfile.TemporaryDirectory() as folder:
            manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.addCleanup(manager.close)
            manager.settimeout(60)
            path = os.path.join(folder, "notify")
            manager.bind(path)
            program = Program("--port", "0", environment={"NOTIFY_SOCKET": path})
            self.addCleanup(program.close)
            self.assertEqual(manager.recv(1000), b"READY=1")
            self.assertEqual(program.chat()[0], 200)
            self.assertEqual(program.end(), 0)
            self.assertEqual(manager.recv(1000), b"STOPPING=1")
        abstract = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(abstract.close)
        abstract.settimeout(60)
        name = f"deepinfer-test-{os.getpid()}"
        abstract.bind("\0" + name)
        for where in ("@" + name, os.path.join(folder, "nobody"), "x" * 300):  # the last two: nobody listens
            program = Program("--port", "0", environment={"NOTIFY_SOCKET": where})
            self.assertEqual(program.end(), 0)
            program.close()
        self.assertEqual(abstract.recv(1000), b"READY=1")

    def test_the_unit(self):
        with open(UNIT) as file:
            text = file.read()
        # --drain-seconds of `serve`, two seconds for the last events, two for the connections.
        help_text = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True).stdout
        drain = int(re.search(r"running requests may go on after SIGTERM \(default: (\d+)\)", help_text).group(1))
        self.assertGreaterEqual(int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE).group(1)), drain + 5)
        self.assertIn("SuccessExitStatus=6\n", text)
        if shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            unit = os.path.join(folder, "deepinfer.service")
            with open(unit, "w") as file:
                file.write(text.replace("/usr/bin/deepinfer", PROGRAM))
            verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
            self.assertNotIn("deepinfer.service", verified.stderr)


if __name__ == "__main__":
    unittest.main()
