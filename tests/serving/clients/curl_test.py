"""The `curl` lines of README.md and docs/, word for word but for the port."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def examples():
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = re.findall(r"^```(?:bash|sh)?\n(.*?)^```$", file.read_text(), re.MULTILINE | re.DOTALL)
        with_curl = [block for block in blocks if re.search("^curl ", block, re.MULTILINE)]
        for index, block in enumerate(with_curl):
            yield pytest.param(block, id=f"{file.name}-{index + 1}")


def test_there_are_examples():
    assert len(list(examples())) >= 5


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("block", list(examples()))
def test_an_example_is_answered(server, tmp_path, block):
    (tmp_path / ".curlrc").write_text('silent\nshow-error\nfail-with-body\nmax-time = 120\nwrite-out = "\\n--end--\\n"\n')
    lines = block.replace("http://127.0.0.1:8000", server.url)
    ran = subprocess.run(
        ["bash", "-e", "-c", lines], capture_output=True, text=True, timeout=300, env={**os.environ, "CURL_HOME": str(tmp_path)}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answers = ran.stdout.split("\n--end--\n")[:-1]
    assert len(answers) == len(re.findall("^curl ", block, re.MULTILINE))
    for answer in answers:
        if answer.startswith("{"):
            assert "error" not in json.loads(answer) or json.loads(answer)["error"] is None
        elif answer.startswith("# "):  # metrics
            assert "deepinfer_" in answer
        else:
            assert answer.rstrip().endswith("data: [DONE]") and '"error"' not in answer
