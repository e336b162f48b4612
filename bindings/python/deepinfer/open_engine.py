"""OpenEngine: the engine that LLM and AsyncLLM stand on, with its tokenizer."""

from __future__ import annotations

import os
import random
import sys
import threading
import weakref
from typing import Union

from . import _core
from .engine_args import EngineArgs
from .environment import Environment
from .outputs import EngineFailedError
from .requests import EngineFacts, draw_seed
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer


class OpenEngine:
    """An engine with its tokenizer, facts and request numbers; closed at exit at the latest."""

    def __init__(self, args: EngineArgs) -> None:
        environment = Environment()
        self.args = args
        options = args.core_options(environment)
        self.core = _core.open_engine(options)
        # Threads of the engine call into Python: it must be closed before the interpreter goes.
        self._finalizer = weakref.finalize(self, self.core.close)
        facts = self.core.facts
        self.facts = EngineFacts(facts["vocabulary"], facts["eos_token"], facts["max_context"], args.batched_tokens,
                                 environment.draft_tokens, environment.blacklist,
                                 args.prefix_replay or environment.prefix_replay,
                                 args.replay_tokens or environment.replay_tokens or 140,
                                 facts["routed_experts_shape"], facts["selected_indices_shape"])
        for token in environment.blacklist:
            if token >= self.facts.vocabulary:
                self.close()
                raise ValueError(f"DEEPINFER_DECODE_TOKEN_BLACKLIST holds token {token}; allowed: 0 to "
                                 f"{self.facts.vocabulary - 1}")
        self.tokenizer = Tokenizer(self.core.tokenizer, _core.locate_model(args.tokenizer or args.model))
        self._seeds = random.Random(args.seed)
        self._next_id = 0
        self._lock = threading.Lock()
        if args.max_model_len is None:
            print(f"deepinfer: max_model_len is {self.facts.max_context} (the model's, or what a cache of "
                  f"{options.cache_bytes} bytes holds if that is less); backend {facts['backend']}", file=sys.stderr)

    def close(self) -> None:
        self._finalizer()

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    # What LLM and AsyncLLM document.

    def pause(self, mode: str) -> None:
        self.check_not_failed("pause")
        self.core.pause(keeps(mode))

    def resume(self) -> None:
        self.check_not_failed("resume")
        self.core.resume()

    def sleep(self, mode: str) -> None:
        self.check_not_failed("sleep")
        self.core.sleep(keeps(mode))

    def wake_up(self) -> None:
        self.check_not_failed("wake_up")
        self.core.wake_up()

    def update_weights(self, folder: Union[str, "os.PathLike[str]"], mode: str, keep_records: bool) -> int:
        self.check_not_failed("update_weights")
        self.core.update_weights(_core.locate_model(os.fspath(folder)), keeps(mode), keep_records)
        return self.weights_version

    def forget_prefixes(self, device: bool, host: bool) -> None:
        self.check_not_failed("forget_prefixes")
        self.core.forget_prefixes(device, host)

    @property
    def weights_version(self) -> int:
        return int(self.core.stats()["weights_version"])

    def check_not_failed(self, call: str) -> None:
        if self.core.state == "failed":
            why = self.core.failure.removeprefix("the engine has failed: ")
            raise EngineFailedError(f"{call}: the engine has failed ({why}); close() it and open another one")

    def check_running(self, call: str) -> None:
        self.check_not_failed(call)
        state = self.core.state
        if state in ("paused", "asleep"):
            raise RuntimeError(f"{call}: the engine is {state}; allowed: after "
                               f"{'resume' if state == 'paused' else 'wake_up'}()")

    def next_id(self) -> str:
        with self._lock:
            number, self._next_id = self._next_id, self._next_id + 1
        return str(number)

    def seed(self, params: SamplingParams) -> int:
        with self._lock:
            return draw_seed(params, self._seeds)

    def prompt_ids(self, prompt: str, allow_special: bool) -> list[int]:
        return self.tokenizer.encode(prompt, allow_special=allow_special)


def keeps(mode: str) -> bool:
    if mode not in ("drain", "keep"):
        raise ValueError(f"mode is {mode!r}; allowed: 'drain', 'keep'")
    return mode == "keep"
