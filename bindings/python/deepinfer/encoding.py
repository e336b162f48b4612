"""deepinfer.encoding: requests of Chat Completions, Responses and Messages as prompts, and generated text as messages.

    request = encode_request("chat_completions", body, tokenizer)
    request.prompt, request.token_ids, request.params
    parser = MessageParser.of(request)
    for piece in pieces: parser.push(piece)
    message = parser.finish()
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from . import _core
from .sampling_params import INT32_MAX, SamplingParams
from .tokenizer import END, Tokenizer

PROTOCOLS = ("chat_completions", "responses", "messages")

_refused = _core.RequestRefused
_MODEL = "DeepSeek-V4.1-Flash"


class RequestRefused(ValueError):
    """A request that breaks its protocol.  `body` is what the official API answers."""

    def __init__(self, message: str, kind: str, status: int, body: str) -> None:
        super().__init__(message)
        self.message, self.kind, self.status, self.body = message, kind, status, json.loads(body)


@dataclass(frozen=True)
class RequestRules:
    """What a server would configure."""

    models: Sequence[str] = ()  # names that `model` may have; empty: the official ones
    profile: str = "deepseek"  # or "extended": max_completion_tokens, efforts 1..100, role developer besides
    default_thinking: bool = True
    reject_missing_reasoning: bool = False
    responses_web_search: str = "drop"  # or "reject"
    messages_web_search: str = "reject"  # or "drop"

    def core(self) -> "_core.RequestOptions":
        for name, allowed in (("profile", ("deepseek", "extended")), ("responses_web_search", ("drop", "reject")),
                              ("messages_web_search", ("drop", "reject"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; allowed: {allowed[0]!r}, {allowed[1]!r}")
        options = _core.RequestOptions()
        options.models = list(self.models)
        options.extended_profile = self.profile == "extended"
        options.default_thinking = self.default_thinking
        options.reject_missing_reasoning = self.reject_missing_reasoning
        options.responses_web_search_rejected = self.responses_web_search == "reject"
        options.messages_web_search_rejected = self.messages_web_search == "reject"
        return options


@dataclass(frozen=True)
class EncodedRequest:
    protocol: str
    prompt: str
    special: list[tuple[int, int]]  # byte ranges of `prompt` that are control tokens
    token_ids: list[int]  # empty without a tokenizer
    params: dict[str, Any]  # effective values: thinking, temperature, max_tokens, stop, start, constraint, ...
    images: list[dict[str, Any]]
    core: Optional["_core.ParsedRequest"] = field(repr=False, compare=False, default=None)


def encode_request(protocol: str, body: Union[str, bytes, Mapping[str, Any]], tokenizer: Optional[Tokenizer] = None,
                   rules: RequestRules = RequestRules()) -> EncodedRequest:
    """`body`: JSON text, or what it stands for.  Raises RequestRefused."""
    if isinstance(body, Mapping):
        body = json.dumps(body, ensure_ascii=False)
    if isinstance(body, str):
        body = body.encode("utf-8", "surrogatepass")
    try:
        parsed = _core.parse_request(protocol, body, rules.core())
    except _refused as refused:
        raise RequestRefused(*refused.args) from None
    ids = parsed.token_ids(tokenizer._core) if tokenizer is not None else []
    return EncodedRequest(protocol, parsed.prompt, parsed.special, ids, parsed.params, parsed.images, parsed)


def chat_request(messages: Iterable[Mapping[str, Any]], tokenizer: Tokenizer, **fields: Any) -> EncodedRequest:
    """A Chat Completions request of these messages; `model` may be left out."""
    body = {"model": _MODEL, **fields, "messages": list(messages)}
    return encode_request("chat_completions", body, tokenizer, RequestRules(models=[body["model"]],
                                                                            profile="extended"))


def so_args(request: EncodedRequest, tokenizer: Tokenizer) -> Optional[dict[str, Any]]:
    """The structured output that a request's response format asks for, behind its thinking.  Calls of tools cannot be
    told in so_args: LLM.chat holds to them by itself."""
    constraint = request.params.get("constraint")
    if constraint is None or constraint["kind"] == "tool_call":  # calls made freely are read from the output
        return None
    if constraint["kind"] not in ("json", "regex"):
        raise ValueError(f"so_args cannot tell the output constraint {constraint['kind']!r}; allowed: tool_choice "
                         "'auto' or 'none', or LLM.chat")
    wish: dict[str, Any] = {"schema_type": constraint["kind"], "schema": constraint["schema"] or "{}"}
    if request.params["start"].startswith("reasoning"):
        wish["trigger_token_ids"] = [tokenizer.convert_tokens_to_ids("</think>")]
    return wish


def sampling_params(request: EncodedRequest, tokenizer: Optional[Tokenizer], max_model_len: int) -> SamplingParams:
    """What the request asks for, as SamplingParams; without a tokenizer they leave out so_args."""
    p = request.params
    return SamplingParams(
        temperature=p["temperature"], top_p=p["top_p"],
        max_tokens=min(p.get("max_tokens", max_model_len), max_model_len, INT32_MAX),
        top_logprobs=p["top_logprobs"], stop=p["stop"] or None, seq_seed=p.get("seed"),
        so_args=so_args(request, tokenizer) if tokenizer is not None else None)


class OutputParser:
    """Generated text, in pieces of any size, to events (kind, text, index of the tool call or -1)."""

    def __init__(self, start: str = "content", parse_tool_calls: bool = False, json_output: bool = False,
                 stop: Sequence[str] = ()) -> None:
        self._core = _core.OutputParser(start, parse_tool_calls, json_output, list(stop))

    def push(self, text: str) -> list[tuple[str, str, int]]:
        return self._core.push(text)

    def finish(self) -> list[tuple[str, str, int]]:
        return self._core.finish()

    @property
    def running(self) -> bool:
        """False once a stop string was found: nothing more will come."""
        return self._core.running


class MessageParser:
    """Generated text to one assistant message in the form of Chat Completions."""

    def __init__(self, start: str = "content", parse_tool_calls: bool = False, json_output: bool = False,
                 stop: Sequence[str] = ()) -> None:
        self._parser = OutputParser(start, parse_tool_calls, json_output, stop)
        self._reasoning = ""
        self._content = ""
        self._calls: list[dict[str, Any]] = []
        self._closed = False

    @classmethod
    def of(cls, request: EncodedRequest) -> "MessageParser":
        p = request.params
        return cls(p["start"], p["parse_tool_calls"], p["json_output"], p["stop"])

    def push(self, text: str) -> dict[str, Any]:
        """The next piece; a final end-of-sentence token is no part of the message.  Returns what it adds, in the form
        of a Chat Completions delta."""
        return self.push_text(text.removesuffix(END))

    def push_text(self, text: str) -> dict[str, Any]:
        """The same for a piece without such a token."""
        return self._take(self._parser.push(text))

    def close(self) -> dict[str, Any]:
        """Nothing more comes: what had waited for it, as a delta.  A second call gives nothing."""
        if self._closed:
            return {}
        self._closed = True
        return self._take(self._parser.finish())

    def finish(self) -> dict[str, Any]:
        """The whole message."""
        self.close()
        message: dict[str, Any] = {"role": "assistant", "content": self._content or None}
        if self._reasoning:
            message["reasoning_content"] = self._reasoning
        if self._calls:
            message["tool_calls"] = [
                {"id": f"call_{i:02d}", "type": "function", "function": dict(call)} for i, call in
                enumerate(self._calls)]
        elif self._content == "":
            message["content"] = ""
        return message

    @property
    def running(self) -> bool:
        return self._parser.running

    def _take(self, events: list[tuple[str, str, int]]) -> dict[str, Any]:
        delta: dict[str, Any] = {}
        for kind, text, call in events:
            if kind == "reasoning":
                self._reasoning += text
                delta["reasoning_content"] = delta.get("reasoning_content", "") + text
            elif kind == "content":
                self._content += text
                delta["content"] = delta.get("content", "") + text
            elif kind == "tool_call_name":
                self._calls.append({"name": text, "arguments": ""})
                delta.setdefault("tool_calls", []).append({"index": call, "function": {"name": text}})
            elif kind == "tool_call_arguments":
                self._calls[call]["arguments"] += text
                delta.setdefault("tool_calls", []).append({"index": call, "function": {"arguments": text}})
        return delta


class EventStream:
    """An answer as the events of its protocol, (name, data) each, and as the final object.  What a server sends."""

    def __init__(self, request: EncodedRequest, tokenizer: Tokenizer, *, id: str, model: str, fingerprint: str = "",
                 created: int = 0, random: int = 0) -> None:
        if request.core is None:
            raise ValueError("request has no core; allowed: results of encode_request")
        self._core = _core.EventStream(request.core, tokenizer._core, id, model, fingerprint, created, random)
        self._logprobs = request.params["logprobs"]

    def open(self, prompt_tokens: int, cached_tokens: int = 0) -> list[tuple[str, str]]:
        return self._core.open(prompt_tokens, cached_tokens)

    def push_text(self, text: str, tokens: int) -> list[tuple[str, str]]:
        return self._core.push_text(text, tokens)

    def push_tokens(self, tokens: Sequence[tuple[int, float, Sequence[tuple[int, float]]]]) -> list[tuple[str, str]]:
        """tokens: (id, log-probability, alternatives) each."""
        return self._core.push_tokens(list(tokens), self._logprobs)

    def finish(self, reason: str = "stop", now: int = 0) -> list[tuple[str, str]]:
        return self._core.finish(reason, now)

    def object(self) -> dict[str, Any]:
        return json.loads(self._core.object())

    @property
    def call_ids(self) -> list[str]:
        return self._core.call_ids

    @property
    def running(self) -> bool:
        return self._core.running
