"""Every option of `deepinfer serve` is one of its file too, with the same meaning."""

import os
import re
import subprocess
import tempfile
import unittest

from served_program import PROGRAM, Program, run

DEPLOY = os.path.join(os.path.dirname(__file__), "..", "..", "..", "deploy")


def known_options():
    help_text = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (?:-\w,)?--([\w-]+)", help_text, re.MULTILINE)) - {"help", "config"}


class OptionsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    # TOML's spelling of a value of each option.
    def values(self, run_name):
        quoted = lambda text: f'"{text}"'
        return {
            "host": quoted("127.0.0.1"), "port": "0", "unix": quoted(self.path(run_name + ".sock")),
            "api-key-file": quoted(self.path("keys", "a-key\n")), "insecure-no-auth": "true",
            "served-model-name": '["one", "two"]', "api-profile": quoted("deepseek"), "drain-seconds": "7",
            "access-log": quoted(self.path(run_name + ".log")), "log-level": quoted("warning"),
            "admin-listen": quoted("unix:" + self.path(run_name + ".admin")),
            "admin-key-file": quoted(self.path("admin", "b-key\n")),
            "model": quoted(os.path.join(os.path.dirname(PROGRAM), "DeepSeek-V4.1-Tiny")), "threads": "1",
            "max-sequences": "3", "cache-memory": "0.25", "kv-host-memory": "0.01", "no-prefix-cache": "false",
            "max-context": "2000", "step-rows": "256", "decode-latency-ms": "300",
            "draft-tokens": "2", "draft-schedule": quoted("all"),
            "backend": quoted("cpu"), "engram-placement": quoted("host"), "log-stats": "1000", "trace": quoted(self.path(run_name + ".trace")),
            "request-log": quoted(self.path(run_name + ".requests")),
            "files-dir": quoted(self.path(run_name + ".files")), "files-size": "0.5",
            "cors-origin": '["https://one.example", "https://two.example"]',
        }

    def options_printed(self, *options):
        program = Program(*options, size=())
        program.end()
        program.close()
        printed = re.search(r"deepinfer: options\n(.*?)deepinfer: ", program.text(), re.DOTALL).group(1)
        return {line for line in printed.splitlines() if "=" in line and not line.startswith("config=")}

    def test_the_file_and_the_command_line_mean_the_same(self):
        values = self.values("run")
        # These two end the start when they are alone, which shows that each is read.
        for name in ("tls-cert", "tls-key"):
            code, errors = run("--config", self.path("tls.toml", f'{name} = "x.pem"\n'))
            self.assertEqual(code, 2)
            self.assertIn("--tls-cert and --tls-key need each other", errors)
        code, errors = run("--config", self.path("gpu.toml", "gpu-memory-utilization = 0.5\n"))
        self.assertNotEqual(code, 0)
        self.assertIn("--gpu-memory-utilization is given, but --backend is cpu", errors)
        code, errors = run("--config", self.path("gpu.toml", 'expert-placement = "host"\n'))
        self.assertNotEqual(code, 0)
        self.assertIn("--expert-placement is given, but --backend is cpu", errors)
        self.assertEqual(known_options(),
                         set(values) | {"tls-cert", "tls-key", "gpu-memory-utilization", "expert-placement"})

        config = self.path("all.toml", "".join(f"{name} = {value}\n" for name, value in values.items()))
        from_file = self.options_printed("--config", config)
        os.remove(self.path("run.requests"))
        arguments = []
        for name, value in values.items():
            if value in ("true", "false"):
                arguments += [f"--{name}"] if value == "true" else []
            else:
                for one in re.findall(r'"([^"]*)"', value) or [value]:
                    arguments += [f"--{name}", one]
        from_arguments = self.options_printed(*arguments)
        self.assertEqual(from_file, from_arguments)
        self.assertEqual({line.split("=")[0] for line in from_file} | {"no-prefix-cache"}, set(values))

    def test_unknown_names(self):
        for text, part in {
            "porst = 1": ":1: deepinfer serve has no option `porst` for a file; did you mean `port`?",
            "\n\n[max]\nsequence = 3": ":4: deepinfer serve has no option `max-sequence` for a file; did you mean `max-sequences`?",
            "drain_second = 3": "did you mean `drain-seconds`?",
            'apikeyfile = "x"': "did you mean `api-key-file`?",
            "colour = 3": "has no option `colour` for a file\n",
            'config = "x"': "has no option `config` for a file\n",
        }.items():
            code, errors = run("--config", self.path("wrong.toml", text))
            self.assertEqual(code, 3, errors)
            self.assertIn(part, errors)

    def test_the_example_is_read(self):
        with open(os.path.join(DEPLOY, "systemd", "deepinfer.toml")) as file:
            text = file.read()
        text = text.replace("port = 8000", "port = 0")
        for folder in ("/run/deepinfer/", "/var/lib/deepinfer/"):
            text = text.replace(folder, self.folder + "/")
        program = Program("--config", self.path("example.toml", text))
        self.addCleanup(program.close)
        self.assertEqual(program.end(), 0)
        commented = set(re.findall(r"^#?([\w-]+) = ", text, re.MULTILINE))
        self.assertLessEqual(commented, known_options())


if __name__ == "__main__":
    unittest.main()
