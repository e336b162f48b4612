"""From SamplingParams and prompts to the engine's requests, and from its news to outputs.  Shared by LLM and AsyncLLM."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _core
from .encoding import EncodedRequest
from .outputs import LOGPROB_FLOOR, FailedOutput, RequestOutput, TokenArray
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer

GRAMMAR_FAILURE = "xgrammar runtime errors or timeout"


@dataclass
class EngineFacts:
    """What requests need to know of the engine."""

    vocabulary: int
    eos_token: int
    max_context: int
    batched_tokens: int
    draft_tokens: int = -1
    blacklist: list[int] = field(default_factory=list)
    prefix_replay: str = "exact"
    replay_tokens: int = 140
    routed_experts_shape: tuple[int, int] = (0, 0)  # of a token: layers, experts
    selected_indices_shape: tuple[int, int] = (0, 0)  # indexers, rows


class Refusal(Exception):
    """A request that cannot be made, with its finish_reason."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason, self.error = reason, error


def salt_number(salt: Union[str, int, None]) -> int:
    if salt is None:
        return 0
    if isinstance(salt, int):
        return salt
    return int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=8).digest(), "little")


def bad_word_tokens(words: list[Union[str, list[int]]], tokenizer: Tokenizer) -> list[list[int]]:
    """A string stands for itself and for itself behind a space, as one spells words inside a text."""
    sequences: list[list[int]] = []
    for word in words:
        if isinstance(word, str):
            sequences += [tokenizer.encode(spelling, add_special_tokens=False) for spelling in (word, " " + word)]
        else:
            sequences.append(word)
    return sequences


def check_prompt(ids: list[int], facts: EngineFacts) -> None:
    if not ids:
        raise Refusal("invalid_request", "the prompt is empty; allowed: at least one token")
    for i, token in enumerate(ids):
        if not 0 <= token < facts.vocabulary:
            raise Refusal("invalid_request",
                          f"token {i} of the prompt is {token}; allowed: 0 to {facts.vocabulary - 1}")
    if len(ids) >= facts.max_context:
        raise Refusal("prompt_length_exceeded",
                      f"the prompt has {len(ids)} tokens; allowed: at most {facts.max_context - 1}, one below "
                      f"max_model_len, {facts.max_context}")


def check_tokens(params: SamplingParams, facts: EngineFacts) -> None:
    lists = {"stop_token_ids": params.stop_token_ids, "allowed_token_ids": params.allowed_token_ids,
             "golden_token_ids": [t for t in params.golden_token_ids or [] if t != -1],
             "logit_bias": list(params.logit_bias or {}),
             "bad_words": [t for word in params.bad_words or [] if not isinstance(word, str) for t in word]}
    for name, tokens in lists.items():
        for token in tokens or []:
            if token >= facts.vocabulary:
                raise Refusal("invalid_request", f"{name} holds token {token}; allowed: 0 to {facts.vocabulary - 1}")


def wanted_logprobs(params: SamplingParams, wanted: bool) -> int:
    """-1: none; 0: of the chosen token; k: of the k most likely ones too."""
    if not wanted:
        return -1
    most = params.logprobs if not isinstance(params.logprobs, bool) else 0
    return max(params.top_logprobs, most)


def core_request(ids: list[int], params: SamplingParams, facts: EngineFacts, tokenizer: Tokenizer, seed: int,
                 logprobs: bool = True, chat: Optional[EncodedRequest] = None) -> "_core.Request":
    """chat: the request whose tools and response format hold where params has no so_args.  Raises Refusal."""
    check_prompt(ids, facts)
    check_tokens(params, facts)
    request = _core.Request()
    request.prompt = ids
    request.temperature = params.temperature
    request.top_p = params.top_p
    request.top_k = max(0, params.top_k)
    request.min_p = params.min_p
    request.presence_penalty = params.presence_penalty
    request.frequency_penalty = params.frequency_penalty
    request.repetition_penalty = params.repetition_penalty
    request.max_tokens = params.max_tokens
    request.seed = seed
    stop_tokens = list(params.stop_token_ids or [])
    if not params.ignore_eos and facts.eos_token not in stop_tokens:
        stop_tokens.append(facts.eos_token)
    request.stop_tokens = stop_tokens
    request.stop = params.stop or []
    request.include_stop = params.include_stop_str_in_output
    request.min_tokens = max(params.min_tokens, params.first_n_token_no_eos)
    request.allowed_tokens = params.allowed_token_ids or []
    request.bad_words = bad_word_tokens(params.bad_words or [], tokenizer) + [[token] for token in facts.blacklist]
    request.forced_tokens = params.golden_token_ids or []
    request.logprobs = wanted_logprobs(params, logprobs)
    request.raw_logprobs = params.logprobs_mode == "raw"
    if logprobs and params.prompt_logprobs is not False:
        request.prompt_logprobs = 0 if params.prompt_logprobs is True else params.prompt_logprobs
    for token, bias in (params.logit_bias or {}).items():
        request.add_logit_bias(token, bias)
    request.priority = params.priority
    request.cache_salt = salt_number(params.cache_salt)
    request.capture_routed_experts = params.return_routed_experts
    request.capture_selected_indices = params.return_selected_indices
    if params.timeout is not None:
        request.set_timeout(max(1, round(params.timeout * 1000)))
    request.rejection_sampling = params.speculative_sampling == "rejection"
    request.bounded_prefix = (params.prefix_replay or facts.prefix_replay) == "bounded"
    request.replay_tokens = facts.replay_tokens
    if facts.draft_tokens >= 0:
        request.draft_tokens = facts.draft_tokens
    if params.so_args is not None:
        request.set_so_args(json.dumps(params.so_args))
    elif chat is not None and chat.core is not None:
        chat.core.constrain(request, tokenizer._core)
    return request


def draw_seed(params: SamplingParams, source: random.Random) -> int:
    return params.seq_seed if params.seq_seed is not None else source.getrandbits(64)


def floor(logprob: float) -> float:
    return max(logprob, LOGPROB_FLOOR)


def token_array(data: bytearray, tokens: int, shape: tuple[int, int], format: str) -> TokenArray:
    """Of the first `tokens` tokens that data has."""
    size = tokens * shape[0] * shape[1] * struct.calcsize(format)
    return TokenArray(bytes(data[:size]), (tokens, *shape), format)


class AnswerBuilder:
    """Turns the news of one request into RequestOutputs."""

    def __init__(self, request_id: str, prompt_len: int, params: SamplingParams, facts: EngineFacts,
                 logprobs: bool = True, constrained: bool = False) -> None:
        """constrained: the answer follows a grammar."""
        self.request_id = request_id
        self.text = ""
        self.token_ids: list[int] = []
        self.outputs: list[RequestOutput] = []
        self.end: Optional[dict[str, Any]] = None
        self._prompt_len = prompt_len
        self._params = params
        self._facts = facts
        self._logprobs = logprobs
        self._constrained = constrained or params.so_args is not None
        self._prompt_logprobs: list[float] = []
        self._prompt_top: list[list[tuple[int, float]]] = []
        self._experts = bytearray()
        self._selected = bytearray()

    def add(self, news: tuple) -> tuple[str, list[RequestOutput]]:
        """The text and the outputs that are new.  The last token's output comes with the end of the answer."""
        text, tokens, steps, prompt, (experts, selected), end = news
        self.text += text
        self._prompt_logprobs += [floor(logprob) for _, logprob, _ in prompt]
        self._prompt_top += [top for _, _, top in prompt]
        self._experts += experts
        self._selected += selected
        new: list[RequestOutput] = []
        for size, drafted, version in steps:
            for place in range(1, size + 1):
                rows = (drafted + 1, size) if place == size else (0, 0)
                last = end is not None and len(new) + 1 == len(tokens)
                new.append(self._output(tokens[len(new)], rows, version, last, end["reason"] if end else ""))
        self.outputs += new
        if end is not None:
            self.end = end
            if self.outputs and not self.outputs[-1].finished:
                self._finish_last(end)
        return text, new

    def _output(self, token: tuple, rows: tuple[int, int], version: int, last: bool, reason: str) -> RequestOutput:
        """rows: of the step, verified and accepted, with its last token."""
        token_id, logprob, top = token
        self.token_ids.append(token_id)
        first = len(self.token_ids) == 1
        return RequestOutput(
            request_id=self.request_id,
            prompt_len=self._prompt_len,
            token_id=token_id,
            finish_reason=reason if last else "",
            finished=last,
            max_num_batched_tokens=self._facts.batched_tokens,
            token_logprobs=floor(logprob) if self._logprobs else 1.0,
            top_logprobs=[floor(value) for _, value in top],
            top_token_ids=[other for other, _ in top],
            num_output_tokens=len(self.token_ids),
            prompt_logprobs=self._prompt_logprobs if first else [],
            prompt_top_logprobs=self._prompt_top if first else [],
            draft_tok=rows[0],
            accept_tok=rows[1],
            weights_version=version,
            speculative_sampling=self._params.speculative_sampling,
            prefix_replay=self._prefix_replay(),
            **(self.choices() if last else {}),
        )

    def choices(self) -> dict[str, TokenArray]:
        """routed_experts and selected_indices, as far as asked for, of the tokens that were computed so far."""
        tokens = self._prompt_len + len(self.token_ids) - 1 if self.token_ids else 0
        arrays: dict[str, TokenArray] = {}
        if self._params.return_routed_experts:
            arrays["routed_experts"] = token_array(self._experts, tokens, self._facts.routed_experts_shape, "H")
        if self._params.return_selected_indices:
            arrays["selected_indices"] = token_array(self._selected, tokens, self._facts.selected_indices_shape, "i")
        return arrays

    def _prefix_replay(self) -> str:
        bounded = (self._params.prefix_replay or self._facts.prefix_replay) == "bounded"
        return "bounded" if bounded and self._prompt_len > self._facts.replay_tokens else "exact"

    def _finish_last(self, end: dict[str, Any]) -> None:
        last = self.outputs[-1]
        fields = {name: getattr(last, name) for name in RequestOutput.__dataclass_fields__}
        fields.update(finish_reason=end["reason"], finished=True, **self.choices())
        self.outputs[-1] = RequestOutput(**fields)

    def failure(self) -> Optional[FailedOutput]:
        """Once the answer has ended: None for an answer that stopped or reached its length."""
        assert self.end is not None
        reason, error = self.end["reason"], self.end["error"]
        if reason in ("stop", "length"):
            return None
        if reason == "timeout":
            error = error or f"the answer was not complete after the timeout of {self._params.timeout} s"
        elif reason == "abort":
            error = error or "the request was cancelled"
        elif reason == "error":
            if self._constrained and self.end["code"] != "corrupt_file":
                reason = GRAMMAR_FAILURE
            elif self.end["code"] == "resource_exhausted":
                reason = "insufficient_system_resource"
        return FailedOutput(self.request_id, reason, error, self.outputs, self.text)

    def decoded(self, tokenizer: Tokenizer) -> str:
        """DeepInfer's string: all output ids, control tokens spelled out; up to a stop string, where one was found."""
        assert self.end is not None
        if self.end["stop_string"] >= 0:
            return self.text
        ids = self.token_ids
        own_stops = self._params.stop_token_ids or []
        if (self.end["reason"] == "stop" and ids and ids[-1] in own_stops and ids[-1] != self._facts.eos_token
                and not self._params.include_stop_str_in_output):
            ids = ids[:-1]
        return tokenizer.decode(ids)
