"""`deepinfer serve --config FILE --access-log FILE`."""

import json
import os
import signal
import subprocess

import pytest


def test_the_file_gives_options_and_the_command_line_wins(start_server, tmp_path):
    config = tmp_path / "deepinfer.toml"
    config.write_text('served-model-name = ["first", "second"]\ndrain-seconds = 3\nport = 1\n[access]\nlog = "nowhere/else"\n')
    log = tmp_path / "access.jsonl"
    server = start_server("--config", str(config), "--access-log", str(log))
    assert [model.id for model in server.openai.models.list()] == ["first", "second"]
    assert server.end(signal.SIGTERM) == 0
    # Beside the requests the log has what became of the server.
    line = next(one for one in map(json.loads, log.read_text().splitlines()) if "path" in one)
    assert (line["method"], line["path"], line["status"], line["end"]) == ("GET", "/v1/models", 200, "whole")


@pytest.mark.parametrize(
    "text, part",
    [
        ("port = ", ":1:"),
        ("\nporst = 1", ":2: deepinfer serve has no option `porst`"),
        ("config = 'other.toml'", "no option `config`"),
        ("insecure-no-auth = 3", "`insecure-no-auth` is true or false"),
        ("port = 70000", "--port"),
    ],
)
def test_faults_are_named(tmp_path, text, part):
    config = tmp_path / "deepinfer.toml"
    config.write_text(text)
    ended = subprocess.run(
        [os.environ["DEEPINFER_PROGRAM"], "serve", "--config", str(config)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode in (2, 3) and part in ended.stderr
