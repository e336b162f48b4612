"""Progress: a bar of tqdm where it is installed and the output is a terminal, else nothing."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    def __init__(self, total: int, wanted: bool) -> None:
        self._bar: Any = None
        if wanted and total > 0 and sys.stderr.isatty():
            try:
                from tqdm import tqdm  # type: ignore[import-untyped]
            except ImportError:
                return
            self._bar = tqdm(total=total, desc="Processed prompts", unit=" prompts")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self) -> None:
        if self._bar is not None:
            self._bar.update(1)
