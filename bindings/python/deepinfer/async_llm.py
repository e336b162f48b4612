"""AsyncLLM: answers as they come, for asyncio."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import Any, AsyncIterator, Mapping, Optional, Sequence, Union

from . import encoding
from .chat import chat_output, chat_params
from .engine_args import EngineArgs
from .engine_view import EngineView, check_engine_args
from .open_engine import OpenEngine
from .outputs import ChatDelta, Delta
from .sampling_params import SamplingParams
from .submission import Submitted, submit, token_ids
from .tokenizer import END


class AsyncLLM(EngineView):
    def __init__(self, model: str, **engine_args: Any) -> None:
        """engine_args: the fields of EngineArgs, by name.  Opening blocks; `await AsyncLLM.open(model)` does not."""
        check_engine_args("AsyncLLM", engine_args)
        self._engine = OpenEngine(EngineArgs(model=model, **engine_args))

    @classmethod
    async def open(cls, model: str, **engine_args: Any) -> "AsyncLLM":
        return await asyncio.to_thread(cls, model, **engine_args)

    async def __aenter__(self) -> "AsyncLLM":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # As LLM's; requests that come meanwhile wait.

    async def pause(self, mode: str = "drain") -> None:
        await asyncio.to_thread(self._engine.pause, mode)

    async def resume(self) -> None:
        await asyncio.to_thread(self._engine.resume)

    async def sleep(self, mode: str = "drain") -> None:
        await asyncio.to_thread(self._engine.sleep, mode)

    async def wake_up(self) -> None:
        await asyncio.to_thread(self._engine.wake_up)

    async def update_weights(self, folder: Union[str, "os.PathLike[str]"], mode: str = "drain", *,
                             keep_records: bool = False) -> int:
        return await asyncio.to_thread(self._engine.update_weights, folder, mode, keep_records)

    async def forget_prefixes(self, *, device: bool = True, host: bool = True) -> None:
        await asyncio.to_thread(self._engine.forget_prefixes, device, host)

    async def generate(self, prompt: Optional[str] = None, sampling_params: Optional[SamplingParams] = None,
                       prompt_token_ids: Optional[Sequence[int]] = None, *,
                       allow_special: bool = False) -> AsyncIterator[Delta]:
        """The pieces of an answer; the last has a finish_reason.  With n > 1 the pieces of n answers as they come, told
        apart by their index, each with a last one.  Closing the iterator, or cancelling the task that waits for it,
        cancels what has not ended."""
        self._engine.check_not_failed("generate")
        params = (sampling_params or SamplingParams()).clone()
        if prompt is None and prompt_token_ids is None:
            raise ValueError("prompt and prompt_token_ids are both None; allowed: one of them")

        def ids() -> list[int]:
            if prompt_token_ids is not None:
                return token_ids(prompt_token_ids)
            return self._engine.prompt_ids(str(prompt), allow_special)

        news = News()
        answers = submit(self._engine, ids, params, on_news=news.tell)
        async with aclosing(pieces(answers, news)) as stream:
            async for delta, _ in stream:
                yield delta

    async def chat(self, messages: Sequence[Mapping[str, Any]], sampling_params: Optional[SamplingParams] = None,
                   **request: Any) -> AsyncIterator[ChatDelta]:
        """The pieces of the answer to one conversation, each with what it adds to the message; the last has a
        finish_reason and, unless it failed, the whole answer in `output`.  Arguments as LLM.chat's, and what they hold
        the answer to; closing and cancelling as with generate."""
        self._engine.check_not_failed("chat")
        for name in ("use_tqdm", "on_error"):
            if name in request:
                raise TypeError(f"AsyncLLM.chat has no argument {name!r}: a failure is the last piece")
        if len(messages) > 0 and not isinstance(messages[0], Mapping):
            raise TypeError(f"messages[0] is a {type(messages[0]).__name__}; allowed: the messages of one conversation "
                            "(AsyncLLM answers many with many calls)")
        parsed = encoding.chat_request(messages, self.get_tokenizer(), **request)
        params = chat_params(parsed, sampling_params, self.max_model_len)
        parser = encoding.MessageParser.of(parsed)
        news = News()
        answers = submit(self._engine, lambda: parsed.token_ids, params, images=parsed.images or None, chat=parsed,
                         on_news=news.tell)
        async with aclosing(pieces(answers, news)) as stream:
            async for delta, answer in stream:
                ended = bool(delta.outputs) and delta.outputs[-1].token_id == self._engine.facts.eos_token
                message = parser.push_text(delta.text.removesuffix(END) if ended else delta.text)
                fields: dict[str, Any] = {name: getattr(delta, name) for name in Delta.__dataclass_fields__}
                if delta.finished:
                    message = joined(message, parser.close())
                    if answer.failed is None:
                        fields["output"] = chat_output(answer, parser.finish())
                        fields["finish_reason"] = fields["output"].finish_reason
                yield ChatDelta(**fields, message=message)


class News:
    """Wakes the task that waits for the pieces of a request.  Made in its loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def tell(self) -> None:
        """On the engine's output thread."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


async def pieces(answers: list[Submitted], news: News) -> AsyncIterator[tuple[Delta, Submitted]]:
    """Of all answers to a prompt, as they come; a failure is its answer's last piece.  Cancels what has not ended when it
    is closed."""
    running: dict[int, Submitted] = {}
    for index, answer in enumerate(answers):
        if answer.failed is None:
            running[index] = answer
        else:
            yield Delta(answer.request_id, "", [], answer.failed.finish_reason, answer.failed.error, index), answer
    try:
        while running:
            await news.wait()
            for index, answer in list(running.items()):
                delta = next_delta(answer, index)
                if delta is None:
                    continue
                if delta.finished:
                    del running[index]
                yield delta, answer
    finally:
        for answer in running.values():
            answer.cancel()


def next_delta(answer: Submitted, index: int) -> Optional[Delta]:
    """What has come since the last one; None: nothing."""
    builder = answer.builder
    text, outputs = builder.add(answer.take())
    if builder.end is None:
        return Delta(answer.request_id, text, outputs, index=index) if text or outputs else None
    answer.failed = builder.failure()
    return Delta(answer.request_id, text, outputs,
                 answer.failed.finish_reason if answer.failed else builder.end["reason"],
                 answer.failed.error if answer.failed else "", index, **builder.choices())


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two deltas of one message as one."""
    both = dict(first)
    for name, value in second.items():
        both[name] = both[name] + value if name in both else value
    return both
