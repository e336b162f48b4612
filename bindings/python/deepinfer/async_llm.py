"""AsyncLLM: answers as they come, for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Optional, Sequence, Union

from .engine_args import EngineArgs
from .llm import OpenEngine, token_ids
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

    async def generate(self, prompt: Optional[str] = None, sampling_params: Optional[SamplingParams] = None,
                       prompt_token_ids: Optional[Sequence[int]] = None, *,
                       allow_special: bool = False) -> AsyncIterator[Delta]:
        """The pieces of one answer; the last has a finish_reason.  Closing the iterator, or cancelling the task that
        waits for it, cancels the request."""
        params = (sampling_params or SamplingParams()).clone()
        if params.n != 1:
            raise ValueError(f"n is {params.n}; allowed in AsyncLLM.generate: 1")
        if prompt is None and prompt_token_ids is None:
            raise ValueError("prompt and prompt_token_ids are both None; allowed: one of them")
        engine = self._engine
        request_id = engine.next_id()
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def tell() -> None:  # on the engine's output thread
            try:
                loop.call_soon_threadsafe(news.set)
            except RuntimeError:
                pass  # the loop is closed: nobody waits

        try:
            ids = token_ids(prompt_token_ids) if prompt_token_ids is not None else \
                engine.prompt_ids(str(prompt), allow_special)
            request = core_request(ids, params, engine.facts, engine.tokenizer, engine.seed(params))
            submitted, = engine.core.submit(request, 1, tell)
        except Refusal as refusal:
            yield Delta(request_id, "", [], refusal.reason, refusal.error)
            return
        except (ValueError, TypeError, MemoryError) as error:
            if engine.closed:
                raise
            reason = "insufficient_system_resource" if isinstance(error, MemoryError) else "invalid_request"
            yield Delta(request_id, "", [], reason, str(error))
            return
        builder = AnswerBuilder(request_id, len(ids), params, engine.facts)
        try:
            while builder.end is None:
                await news.wait()
                news.clear()
                text, outputs = builder.add(submitted.take())
                if builder.end is None:
                    if text or outputs:
                        yield Delta(request_id, text, outputs)
                    continue
                failure = builder.failure()
                reason = failure.finish_reason if failure else builder.end["reason"]
                yield Delta(request_id, text, outputs, reason, failure.error if failure else "")
        finally:
            if builder.end is None:
                submitted.cancel()
