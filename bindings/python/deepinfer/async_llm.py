"""AsyncLLM: answers as they come, for asyncio."""

from __future__ import annotations

import asyncio
import os
from typing import Any, AsyncIterator, Optional, Sequence, Union

from .engine_args import EngineArgs
from .llm import token_ids
from .open_engine import OpenEngine
from .outputs import Delta
from .requests import AnswerBuilder, Refusal, core_request
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer


class AsyncLLM:
    def __init__(self, model: str, **engine_args: Any) -> None:
        """engine_args: the fields of EngineArgs, by name.  Opening blocks; `await AsyncLLM.open(model)` does not."""
        unknown = set(engine_args) - set(EngineArgs.__dataclass_fields__)
        if unknown:
            raise TypeError(f"AsyncLLM has no argument {sorted(unknown)[0]!r}")
        self._engine = OpenEngine(EngineArgs(model=model, **engine_args))

    @classmethod
    async def open(cls, model: str, **engine_args: Any) -> "AsyncLLM":
        return await asyncio.to_thread(cls, model, **engine_args)

    async def __aenter__(self) -> "AsyncLLM":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        self._engine.close()

    def get_tokenizer(self) -> Tokenizer:
        return self._engine.tokenizer

    @property
    def max_model_len(self) -> int:
        return self._engine.facts.max_context

    def stats(self) -> dict[str, Union[int, float]]:
        return self._engine.core.stats()

    def metrics(self) -> str:
        return self._engine.core.metrics_text(self._engine.args.served_model_name)

    @property
    def weights_version(self) -> int:
        """How many times the weights have been updated."""
        return self._engine.weights_version

    @property
    def state(self) -> str:
        """"running", "paused", "asleep" or "closed"."""
        return self._engine.core.state

    # As LLM's; requests that come meanwhile wait.

    async def pause(self, mode: str = "drain") -> None:
        await asyncio.to_thread(self._engine.pause, mode)

    async def resume(self) -> None:
        await asyncio.to_thread(self._engine.core.resume)

    async def sleep(self, mode: str = "drain") -> None:
        await asyncio.to_thread(self._engine.sleep, mode)

    async def wake_up(self) -> None:
        await asyncio.to_thread(self._engine.core.wake_up)

    async def update_weights(self, folder: Union[str, "os.PathLike[str]"], mode: str = "drain", *,
                             keep_records: bool = False) -> int:
        return await asyncio.to_thread(self._engine.update_weights, folder, mode, keep_records)

    async def generate(self, prompt: Optional[str] = None, sampling_params: Optional[SamplingParams] = None,
                       prompt_token_ids: Optional[Sequence[int]] = None, *,
                       allow_special: bool = False) -> AsyncIterator[Delta]:
        """The pieces of an answer; the last has a finish_reason.  With n > 1 the pieces of n answers as they come, told
        apart by their index, each with a last one.  Closing the iterator, or cancelling the task that waits for it,
        cancels what has not ended."""
        params = (sampling_params or SamplingParams()).clone()
        if prompt is None and prompt_token_ids is None:
            raise ValueError("prompt and prompt_token_ids are both None; allowed: one of them")
        engine = self._engine
        request_ids = [engine.next_id() for _ in range(params.n)]
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def tell() -> None:  # on the engine's output thread
            try:
                loop.call_soon_threadsafe(news.set)
            except RuntimeError:
                pass  # the loop is closed: nobody waits

        reason, error = "", ""
        try:
            ids = token_ids(prompt_token_ids) if prompt_token_ids is not None else \
                engine.prompt_ids(str(prompt), allow_special)
            request = core_request(ids, params, engine.facts, engine.tokenizer, engine.seed(params))
            submitted = engine.core.submit(request, params.n, tell)
        except Refusal as refusal:
            reason, error = refusal.reason, refusal.error
        except (ValueError, TypeError, MemoryError) as refusal:
            if engine.closed:
                raise
            reason = "insufficient_system_resource" if isinstance(refusal, MemoryError) else "invalid_request"
            error = str(refusal)
        if reason:
            for index, request_id in enumerate(request_ids):
                yield Delta(request_id, "", [], reason, error, index)
            return
        answers = [AnswerBuilder(request_id, len(ids), params, engine.facts) for request_id in request_ids]
        try:
            while any(answer.end is None for answer in answers):
                await news.wait()
                news.clear()
                for index, answer in enumerate(answers):
                    if answer.end is None:
                        delta = next_delta(answer, index, submitted[index].take())
                        if delta is not None:
                            yield delta
        finally:
            for answer, request in zip(answers, submitted):
                if answer.end is None:
                    request.cancel()


def next_delta(answer: AnswerBuilder, index: int, news: tuple) -> Optional[Delta]:
    """What has come since the last one; None: nothing."""
    text, outputs = answer.add(news)
    if answer.end is None:
        return Delta(answer.request_id, text, outputs, index=index) if text or outputs else None
    failure = answer.failure()
    return Delta(answer.request_id, text, outputs, failure.finish_reason if failure else answer.end["reason"],
                 failure.error if failure else "", index, **answer.choices())
