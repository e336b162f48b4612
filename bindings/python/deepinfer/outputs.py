"""What generate() and chat() return."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Optional, Union

LOGPROB_FLOOR = -9999.0
INVALID_LOGPROB = 1.0

FINISH_REASONS = (
    "stop",
    "length",
    "abort",
    "prompt_length_exceeded",
    "insufficient_system_resource",
    "xgrammar runtime errors or timeout",
    "ve_error",
    # Not in DeepInfer 0.1.0.
    "timeout",
    "invalid_request",
    "error",
)


@dataclass(frozen=True)
class TokenArray:
    """Integers of each of some tokens: an array of three dimensions, the first over the tokens.  numpy.asarray() takes it
    without a copy; it can be pickled."""

    data: bytes
    shape: tuple[int, int, int]
    format: str  # of struct: "H" uint16, "i" int32

    def view(self) -> memoryview:
        """Of the shape; of data that is not empty."""
        return memoryview(self.data).cast(self.format, self.shape)

    def tolist(self) -> list[list[list[int]]]:
        return self.view().tolist() if self.data else [[[] for _ in range(self.shape[1])] for _ in range(self.shape[0])]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: tuple[int, int, int]) -> int:
        return self.view()[place]

    @property
    def __array_interface__(self) -> dict[str, Any]:
        kind = ("<" if sys.byteorder == "little" else ">") + {"H": "u2", "i": "i4"}[self.format]
        return {"version": 3, "shape": self.shape, "typestr": kind, "data": self.data}


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """One output token.  Names and sentinels of DeepInfer 0.1.0."""

    request_id: str
    prompt_len: int
    token_id: int
    finish_reason: str = ""
    finished: bool = False
    max_num_batched_tokens: int = 0
    token_logprobs: float = INVALID_LOGPROB
    nextn_logprobs: float = INVALID_LOGPROB
    sum_smaller_probs: float = -1.0
    top_logprobs: list[float] = field(default_factory=list)
    top_token_ids: list[int] = field(default_factory=list)
    num_output_tokens: int = 0
    prompt_logprobs: list[float] = field(default_factory=list)
    draft_tok: int = 0
    accept_tok: int = 0
    confidence_score: Optional[list[float]] = None
    # Not in DeepInfer 0.1.0: the alternatives of each prompt token, where prompt_logprobs is an integer.
    prompt_top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    # "rejection": the token depends on the drafts.  "bounded": an approximation, the prompt's end was seen only.
    speculative_sampling: str = "exact"
    prefix_replay: str = "exact"
    # The weights that this token was drawn with: how many times they had been updated.
    weights_version: int = 0
    # On the last token, where asked for: what each token chose on its way through the network, of the prompt and the
    # answer but for its last token, which was drawn and not computed.
    routed_experts: Optional[TokenArray] = None  # uint16 [tokens, layers, experts], the best first
    selected_indices: Optional[TokenArray] = None  # int32 [tokens, indexers, rows], ascending, then -1


@dataclass(frozen=True)
class FailedOutput:
    """Stands where the answer of a request would be that failed.  `outputs` and `text` are what it had produced."""

    request_id: str
    finish_reason: str
    error: str
    outputs: list[RequestOutput] = field(default_factory=list)
    text: str = ""


class BatchError(RuntimeError):
    """Raised by generate(on_error="raise") when all requests have ended and some failed; `outputs` is what
    on_error="return" would have returned."""

    def __init__(self, outputs: list[Any]) -> None:
        self.outputs = outputs
        self.failures = [o for entry in outputs for o in (entry if isinstance(entry, list) else [entry])
                         if isinstance(o, FailedOutput)]
        first = self.failures[0]
        super().__init__(f"{len(self.failures)} of {len(outputs)} requests failed; the first: "
                         f"{first.finish_reason}: {first.error}")


class EngineFailedError(RuntimeError):
    """Raised by calls on an engine that has failed as a whole (memory, as a rule): nothing runs on it any more.  Requests
    that were under way ended with a FailedOutput.  Close it; another LLM works, in the same process too."""


@dataclass(frozen=True)
class ChatOutput:
    """An answer of chat(): the assistant's message in the form of Chat Completions, ready to be sent back."""

    request_id: str
    message: dict[str, Any]
    finish_reason: str  # "stop", "length" or "tool_calls"
    text: str  # as generated, control tokens spelled out
    token_ids: list[int]
    logprobs: list[float]
    prompt_tokens: int

    @property
    def content(self) -> str:
        return self.message["content"] or ""


@dataclass(frozen=True)
class Delta:
    """A piece of an answer of AsyncLLM.  The last one has a finish_reason, and perhaps nothing else: tokens do not wait
    to know whether another follows, so the mark of the last RequestOutput may be missing."""

    request_id: str
    text: str
    outputs: list[RequestOutput]
    finish_reason: str = ""
    error: str = ""
    index: int = 0  # of the answer, with SamplingParams.n > 1
    # With the last one, as RequestOutput's.
    routed_experts: Optional[TokenArray] = None
    selected_indices: Optional[TokenArray] = None

    @property
    def finished(self) -> bool:
        return bool(self.finish_reason)

    @property
    def token_ids(self) -> list[int]:
        return [output.token_id for output in self.outputs]


@dataclass(frozen=True)
class ChatDelta(Delta):
    """A piece of an answer of AsyncLLM.chat."""

    # What it adds to the message, in the form of a Chat Completions delta; {} where the text waits for its meaning.
    message: dict[str, Any] = field(default_factory=dict)
    output: Optional[ChatOutput] = None  # the whole answer, with the last piece, unless it failed


@dataclass(frozen=True)
class Score:
    """Log-probabilities of a given answer."""

    token_ids: list[int]
    logprobs: list[float]

    @property
    def total(self) -> float:
        return sum(self.logprobs)


Answer = Union[str, list[RequestOutput], FailedOutput]
