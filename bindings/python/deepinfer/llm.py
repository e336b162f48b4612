"""LLM: offline inference with DeepInfer 0.1.0's interface, and chat, score and per-prompt failures besides."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from . import encoding
from .chat import chat_output, chat_params
from .engine_args import EngineArgs
from .engine_view import EngineView, check_engine_args
from .open_engine import OpenEngine
from .outputs import Answer, BatchError, ChatOutput, FailedOutput, RequestOutput, Score
from .progress import Progress
from .sampling_params import SamplingParams
from .submission import Submitted, submit, token_ids

POLL_SECONDS = 0.1  # between looks for Ctrl-C and for progress

Conversation = Sequence[Mapping[str, Any]]


def per_prompt(name: str, value: Any, count: int) -> list:
    if value is None or isinstance(value, (SamplingParams, Mapping)):
        return [value] * count
    items = list(value)
    if len(items) != count:
        raise ValueError(f"{name} has {len(items)} entries for {count} prompts; allowed: one for each, or one for all")
    return items


class LLM(EngineView):
    def __init__(self, model: str, tokenizer: Optional[str] = None, trust_remote_code: bool = False,
                 expert_parallel_size: int = 1, revision: Optional[str] = None,
                 tokenizer_revision: Optional[str] = None, seed: int = 0, gpu_memory_utilization: float = 0.9,
                 decode_sequence: bool = True, **engine_args: Any) -> None:
        """engine_args: the other fields of EngineArgs, by name."""
        check_engine_args("LLM", engine_args)
        if not isinstance(decode_sequence, bool):
            raise TypeError(f"decode_sequence is {decode_sequence!r}; allowed: True or False")
        self.decode_sequence = decode_sequence
        self._engine = OpenEngine(EngineArgs(
            model=model, tokenizer=tokenizer, trust_remote_code=trust_remote_code,
            expert_parallel_size=expert_parallel_size, revision=revision, tokenizer_revision=tokenizer_revision,
            seed=seed, gpu_memory_utilization=gpu_memory_utilization, **engine_args))

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pause(self, mode: str = "drain") -> None:
        """Waits until no step runs: with "drain" until the requests that are there have ended, with "keep" between two
        steps; they go on after resume() with the same bits.  For programs whose other threads generate."""
        self._engine.pause(mode)

    def resume(self) -> None:
        self._engine.resume()

    def sleep(self, mode: str = "drain") -> None:
        """Pauses and gives the memory of the cache back to the system.  Requests that were kept are computed again
        after wake_up(), with the same bits; cached prefixes are forgotten."""
        self._engine.sleep(mode)

    def wake_up(self) -> None:
        self._engine.wake_up()

    def update_weights(self, folder: Union[str, "os.PathLike[str]"], mode: str = "drain", *,
                       keep_records: bool = False) -> int:
        """Goes over to the weights of a folder with the same configuration, tokenizer and tensors, and returns the new
        weights_version; an error names the first difference, and the old weights go on.  With mode="keep" requests
        under way go on with the new weights: what the old ones cached of them is computed again, or stays
        (keep_records=True; then nothing is promised of their answers)."""
        return self._engine.update_weights(folder, mode, keep_records)

    def forget_prefixes(self, *, device: bool = True, host: bool = True) -> None:
        """Forgets the prefixes that are cached in the pool (device) and in the host memory below it (host); those in a
        folder stay.  Requests under way go on with the same bits and leave nothing in a pool that was emptied."""
        self._engine.forget_prefixes(device, host)

    def generate(self, prompts: Union[str, Sequence[str], None] = None,
                 sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None,
                 prompt_token_ids: Optional[Sequence[Sequence[int]]] = None, use_tqdm: bool = True,
                 multi_modal_data: Any = None, *, on_error: str = "return",
                 allow_special: bool = False) -> list[Any]:
        """One entry for each prompt, in order: a string (decode_sequence=True) or a list of RequestOutputs, one for
        each token.  With n > 1, a list of n such answers.  A FailedOutput stands where an answer failed."""
        if on_error not in ("return", "raise"):
            raise ValueError(f"on_error is {on_error!r}; allowed: 'return', 'raise'")
        self._engine.check_running("generate")
        ids = self._all_ids(prompts, prompt_token_ids, allow_special)
        params = [p if p is not None else SamplingParams()
                  for p in per_prompt("sampling_params", sampling_params, len(ids))]
        for p in params:
            if not isinstance(p, SamplingParams):
                raise TypeError(f"sampling_params holds a {type(p).__name__}; allowed: SamplingParams")
        images = per_prompt("multi_modal_data", multi_modal_data, len(ids))
        groups = self._submit(ids, params, images, logprobs=not self.decode_sequence)
        self._wait([pending for group in groups for pending in group], use_tqdm)
        results: list[Any] = []
        for group in groups:
            answers = [self._answer(pending) for pending in group]
            results.append(answers[0] if group[0].params.n == 1 else answers)
        if on_error == "raise" and any(pending.failed is not None for group in groups for pending in group):
            raise BatchError(results)
        return results

    def _all_ids(self, prompts: Any, prompt_token_ids: Any, allow_special: bool) -> list:
        if prompts is None and prompt_token_ids is None:
            raise ValueError("prompts and prompt_token_ids are both None; allowed: at least one of them")
        if isinstance(prompts, str):
            prompts = [prompts]
        if prompt_token_ids is None:
            texts = list(prompts)
            for i, text in enumerate(texts):
                if not isinstance(text, str):
                    raise TypeError(f"prompts[{i}] is a {type(text).__name__}; allowed: strings "
                                    "(token ids go into prompt_token_ids)")
            return [self._engine.prompt_ids(text, allow_special) for text in texts]
        ids = list(prompt_token_ids)
        if prompts is not None and len(prompts) != len(ids):
            raise ValueError(f"prompts has {len(prompts)} entries and prompt_token_ids {len(ids)}; allowed: as many")
        return ids

    def _submit(self, ids: list, params: list[SamplingParams], images: list, logprobs: bool,
                chats: Optional[list[encoding.EncodedRequest]] = None) -> list[list[Submitted]]:
        groups: list[list[Submitted]] = []
        try:
            for prompt, wish, image, chat in zip(ids, params, images, chats or [None] * len(ids)):
                groups.append(submit(self._engine, lambda: token_ids(prompt), wish, images=image, logprobs=logprobs,
                                     chat=chat))
        except BaseException:
            self._cancel(pending for group in groups for pending in group)
            raise
        return groups

    def _wait(self, all_pending: list[Submitted], use_tqdm: bool) -> None:
        try:
            with Progress(len(all_pending), use_tqdm) as progress:
                for pending in all_pending:
                    while not pending.wait_end(POLL_SECONDS):
                        pass
                    if pending.failed is None:
                        pending.builder.add(pending.take())
                        pending.failed = pending.builder.failure()
                    progress.advance()
        except BaseException:  # Ctrl-C: nothing goes on running behind the caller's back
            self._cancel(all_pending)
            raise

    @staticmethod
    def _cancel(all_pending: Iterable[Submitted]) -> None:
        for pending in all_pending:
            pending.cancel()

    def _answer(self, pending: Submitted) -> Answer:
        if pending.failed is not None:
            return pending.failed
        if self.decode_sequence:
            return pending.builder.decoded(self._engine.tokenizer)
        return pending.builder.outputs

    def chat(self, messages: Union[Conversation, Sequence[Conversation]],
             sampling_params: Union[SamplingParams, Sequence[SamplingParams], None] = None, use_tqdm: bool = False, *,
             on_error: str = "return", **request: Any) -> Any:
        """Answers one conversation (a ChatOutput) or a list of them (a list).  `messages` and `request` (thinking,
        reasoning_effort, tools, tool_choice, response_format, ...) are those of Chat Completions; so_args of
        sampling_params stand in for what tools and response_format hold the answer to.  Without
        sampling_params the request's own fields hold, up to the context's end."""
        if on_error not in ("return", "raise"):
            raise ValueError(f"on_error is {on_error!r}; allowed: 'return', 'raise'")
        self._engine.check_running("chat")
        one = len(messages) == 0 or isinstance(messages[0], Mapping)
        conversations: list[Any] = [messages] if one else list(messages)
        wishes = per_prompt("sampling_params", sampling_params, len(conversations))
        requests = [encoding.chat_request(conversation, self.get_tokenizer(), **request)
                    for conversation in conversations]
        params = [chat_params(parsed, wish, self.max_model_len) for parsed, wish in zip(requests, wishes)]
        groups = self._submit([parsed.token_ids for parsed in requests], params,
                              [parsed.images or None for parsed in requests], logprobs=True, chats=requests)
        self._wait([group[0] for group in groups], use_tqdm)
        results = [self._chat_output(parsed, group[0]) for parsed, group in zip(requests, groups)]
        if on_error == "raise" and any(isinstance(result, FailedOutput) for result in results):
            raise BatchError(results)
        return results[0] if one else results

    def _chat_output(self, parsed: "encoding.EncodedRequest", pending: Submitted) -> Union[ChatOutput, FailedOutput]:
        if pending.failed is not None:
            return pending.failed
        parser = encoding.MessageParser.of(parsed)
        parser.push(pending.builder.text)
        return chat_output(pending, parser.finish())

    def score(self, prompt: Union[str, Sequence[int]], output: Union[str, Sequence[int]],
              sampling_params: Optional[SamplingParams] = None, *, allow_special: bool = False) -> Score:
        """The log-probabilities that generation with these sampling_params would report for `output` after `prompt`,
        bit for bit; -9999 where their filters exclude a token."""
        tokenizer = self.get_tokenizer()
        prompt_ids = tokenizer.encode(prompt, allow_special=allow_special) if isinstance(prompt, str) \
            else token_ids(prompt)
        output_ids = tokenizer.encode(output, add_special_tokens=False, allow_special=allow_special) \
            if isinstance(output, str) else token_ids(output)
        if not output_ids:
            return Score([], [])
        self._engine.check_running("score")
        params = (sampling_params or SamplingParams()).clone()
        params.golden_token_ids = output_ids
        params.max_tokens = len(output_ids)
        params.ignore_eos = True
        params.stop = params.stop_token_ids = None
        params.n = 1
        [pending] = submit(self._engine, lambda: prompt_ids, params)
        self._wait([pending], False)
        if pending.failed is not None:
            raise BatchError([pending.failed])
        outputs: list[RequestOutput] = pending.builder.outputs
        if len(outputs) != len(output_ids):
            raise ValueError(f"prompt and output have {len(prompt_ids)} and {len(output_ids)} tokens; allowed: "
                             f"together up to max_model_len, {self.max_model_len}")
        return Score(output_ids, [o.token_logprobs for o in outputs])
