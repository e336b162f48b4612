"""From a prompt to requests under way, and what stands in for them where there can be none.  Shared by LLM and AsyncLLM."""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import _core
from .encoding import EncodedRequest
from .open_engine import OpenEngine
from .outputs import FailedOutput
from .requests import AnswerBuilder, Refusal, core_request
from .sampling_params import SamplingParams


class Submitted:
    """One answer that is under way, or the failure that it is already."""

    def __init__(self, request_id: str, params: SamplingParams) -> None:
        self.request_id = request_id
        self.params = params
        self.prompt_ids: list[int] = []
        self.failed: Optional[FailedOutput] = None
        self.builder: Any = None  # AnswerBuilder, where it has not failed
        self._core: Optional["_core.SubmittedRequest"] = None

    def begin(self, core: "_core.SubmittedRequest", prompt_ids: list[int], builder: AnswerBuilder) -> None:
        self._core, self.prompt_ids, self.builder = core, prompt_ids, builder

    def fail(self, reason: str, error: str) -> None:
        self.failed = FailedOutput(self.request_id, reason, error)

    def wait_end(self, seconds: float) -> bool:
        return self._core is None or self._core.wait_end(seconds)

    def take(self) -> tuple:
        """What has come since the last look, for the builder."""
        assert self._core is not None
        return self._core.take()

    def cancel(self) -> None:
        if self._core is not None:
            self._core.cancel()


def submit(engine: OpenEngine, prompt_ids: Callable[[], list[int]], params: SamplingParams, *, images: Any = None,
           logprobs: bool = True, chat: Optional[EncodedRequest] = None,
           on_news: Optional[Callable[[], None]] = None) -> list[Submitted]:
    """The params.n answers to one prompt; chat: the request that the prompt was made from; on_news: called on the
    engine's output thread.  What is wrong with a request fails its answers; only a closed engine raises."""
    group = [Submitted(engine.next_id(), params) for _ in range(params.n)]
    try:
        if images is not None:
            raise Refusal("ve_error", "multi_modal_data is not offered: this engine answers text only")
        ids = prompt_ids()
        request = core_request(ids, params, engine.facts, engine.tokenizer, engine.seed(params), logprobs, chat)
        constrained = chat is not None and "constraint" in chat.params
        for submitted, core in zip(group, engine.core.submit(request, params.n, on_news)):
            submitted.begin(core, ids, AnswerBuilder(submitted.request_id, len(ids), params, engine.facts, logprobs,
                                                     constrained))
        return group
    except Refusal as refusal:
        reason, error = refusal.reason, refusal.error
    except MemoryError as refusal:
        reason, error = "insufficient_system_resource", str(refusal)
    except (ValueError, TypeError) as refusal:
        if engine.closed:
            raise
        reason, error = "invalid_request", str(refusal)
    for submitted in group:
        submitted.fail(reason, error)
    return group


def token_ids(ids: Any) -> list[int]:
    if isinstance(ids, (str, bytes)):
        raise TypeError(f"prompt_token_ids holds a {type(ids).__name__}; allowed: lists of token ids, int32 arrays")
    try:
        items = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    except TypeError:
        raise TypeError(f"prompt_token_ids holds a {type(ids).__name__}; allowed: lists of token ids, int32 arrays") \
            from None
    for i, item in enumerate(items):
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise TypeError(f"token {i} of the prompt is {item!r}, a {type(item).__name__}; allowed: integers")
    return [item.__index__() for item in items]
