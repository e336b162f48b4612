"""The committed stub of deepinfer._core is the one that the built module gives, and the package says that it is typed."""

import pathlib
import subprocess
import sys

import deepinfer


def test_stub_is_current(tmp_path):
    fresh = tmp_path / "_core.pyi"
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "deepinfer._core", "-o", str(fresh)],
                   check=True, timeout=60)
    folder = pathlib.Path(deepinfer.__file__).parent
    committed = (folder / "_core.pyi").read_text(encoding="utf-8")
    assert committed.split("\n", 1)[1] == fresh.read_text(encoding="utf-8")
    assert (folder / "py.typed").exists()
