"""Conversations as requests, and answers as messages.  Shared by LLM.chat and AsyncLLM.chat."""

from __future__ import annotations

from typing import Any, Optional

from . import encoding
from .outputs import ChatOutput
from .sampling_params import SamplingParams
from .submission import Submitted


def chat_params(request: encoding.EncodedRequest, wish: Optional[SamplingParams], max_model_len: int) -> SamplingParams:
    """wish: of the caller; None: the request's own fields hold, up to the context's end."""
    if wish is None:
        return encoding.sampling_params(request, None, max_model_len)
    if not isinstance(wish, SamplingParams):
        raise TypeError(f"sampling_params is a {type(wish).__name__}; allowed: SamplingParams")
    wish = wish.clone()
    if wish.n != 1:
        raise ValueError(f"n is {wish.n}; allowed in chat: 1")
    if wish.so_args is not None and request.params["start"] == "tools":
        raise ValueError("so_args is given beside a tool_choice that requires a call; allowed: one of them")
    wish.stop = [*(wish.stop or []), *request.params["stop"]] or None
    return wish


def chat_output(submitted: Submitted, message: dict[str, Any]) -> ChatOutput:
    """Of an answer that has ended and not failed."""
    builder = submitted.builder
    reason = builder.end["reason"]
    return ChatOutput(
        request_id=submitted.request_id, message=message,
        finish_reason="tool_calls" if reason == "stop" and message.get("tool_calls") else reason,
        text=builder.text, token_ids=builder.token_ids,
        logprobs=[output.token_logprobs for output in builder.outputs], prompt_tokens=len(submitted.prompt_ids))
