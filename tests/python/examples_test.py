"""The example scripts run as their users run them."""

import re
import subprocess
import sys

from conftest import MODEL, ROOT


def test_offline_script():
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "python" / "offline.py"), MODEL],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10 and lines[-1].endswith("True length")


def test_snippets_of_the_guide(monkeypatch):
    monkeypatch.chdir(ROOT)
    guide = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 10
    names: dict = {}
    for snippet in snippets:
        line = guide[: guide.index(snippet)].count("\n")
        exec(compile("\n" * line + snippet, "docs/python.md", "exec"), names)
