"""EngineView: what LLM and AsyncLLM tell alike of the engine that they stand on."""

from __future__ import annotations

from typing import Any, Union

from .engine_args import EngineArgs
from .open_engine import OpenEngine
from .tokenizer import Tokenizer


def check_engine_args(owner: str, arguments: dict[str, Any]) -> None:
    unknown = set(arguments) - set(EngineArgs.__dataclass_fields__)
    if unknown:
        raise TypeError(f"{owner} has no argument {sorted(unknown)[0]!r}")


class EngineView:
    """Base class; `_engine` is set by the constructors of LLM and AsyncLLM."""

    _engine: OpenEngine

    def close(self) -> None:
        """Cancels what runs and frees the model.  May be called again."""
        self._engine.close()

    def get_tokenizer(self) -> Tokenizer:
        return self._engine.tokenizer

    @property
    def max_model_len(self) -> int:
        return self._engine.facts.max_context

    @property
    def args(self) -> EngineArgs:
        return self._engine.args

    def stats(self) -> dict[str, Union[int, float]]:
        """Counts since the engine was opened."""
        return self._engine.core.stats()

    def metrics(self) -> str:
        """Counters, gauges and histograms in Prometheus' text format."""
        return self._engine.core.metrics_text(self.args.served_model_name)

    @property
    def weights_version(self) -> int:
        """How many times the weights have been updated."""
        return self._engine.weights_version

    @property
    def state(self) -> str:
        """"running", "paused", "asleep", "failed" or "closed"."""
        return self._engine.core.state
