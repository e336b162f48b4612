"""The example scripts run as their users run them."""

import subprocess
import sys

from conftest import MODEL, ROOT


def test_offline_script():
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "python" / "offline.py"), MODEL],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10 and lines[-1].endswith("True length")
