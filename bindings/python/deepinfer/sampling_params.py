"""SamplingParams: what one request asks for.  DeepInfer 0.1.0's names, defaults and ranges, and further fields, off by
default."""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Optional, Sequence, Union

from . import _core

INT32_MAX = 2**31 - 1
MOST_LOGPROBS = 1000
GREEDY_BELOW = 1e-5


def _fail(field: str, value: Any, allowed: str) -> ValueError:
    return ValueError(f"{field} is {value!r}; allowed: {allowed}")


def _number(field: str, value: Any, low: float, high: float, allowed: str, *, low_excluded: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: a number, {allowed}")
    try:
        number = float(value)
    except OverflowError:
        raise _fail(field, value, allowed) from None
    if not math.isfinite(number) or number < low or number > high or (low_excluded and number == low):
        raise _fail(field, value, allowed)
    return number


def _integer(field: str, value: Any, low: int, high: int, allowed: Optional[str] = None) -> int:
    allowed = allowed or f"integers from {low} to {high}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: {allowed}")
    number = value.__index__()
    if not low <= number <= high:
        raise _fail(field, value, allowed)
    return number


def _boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: True or False")
    return value


def _list(field: str, value: Any, what: str) -> list:
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: {what}")
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: {what}") from None


def _tokens(field: str, value: Any, low: int = 0) -> list[int]:
    items = _list(field, value, "a list of token ids")
    return [_integer(f"{field}[{i}]", item, low, INT32_MAX) for i, item in enumerate(items)]


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: a string")
    if not value:
        raise _fail(field, value, "a string that is not empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _fail(field, value, "Unicode text without lone surrogates") from None
    return value


def _logprobs(field: str, value: Any) -> Union[bool, int]:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    return _integer(field, value, 0, MOST_LOGPROBS, f"False, True, or integers from 0 to {MOST_LOGPROBS}")


class SamplingParams:
    """One request's wishes.  Wrong values raise ValueError or TypeError naming the field and its range, at
    construction and at assignment."""

    _FIELDS: dict[str, Any] = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "ignore_eos": False,
        "max_tokens": 16,
        "logprobs": False,
        "prompt_logprobs": False,
        "top_logprobs": 0,
        "first_n_token_no_eos": 0,
        "eos_id": 0,
        "so_args": None,
        "golden_token_ids": None,
        "seq_seed": None,
        # Not in DeepInfer 0.1.0.
        "n": 1,
        "stop": None,
        "stop_token_ids": None,
        "include_stop_str_in_output": False,
        "min_tokens": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "logit_bias": None,
        "bad_words": None,
        "allowed_token_ids": None,
        "priority": 0,
        "timeout": None,
        "logprobs_mode": "processed",
        "cache_salt": None,
        "speculative_sampling": "exact",
        "prefix_replay": None,
        "return_routed_experts": False,
        "return_selected_indices": False,
    }

    temperature: float
    top_p: float
    top_k: int
    ignore_eos: bool
    max_tokens: int
    logprobs: Union[bool, int]
    prompt_logprobs: Union[bool, int]
    top_logprobs: int
    first_n_token_no_eos: int
    eos_id: int
    so_args: Optional[dict]
    golden_token_ids: Optional[list[int]]
    seq_seed: Optional[int]
    n: int
    stop: Optional[list[str]]
    stop_token_ids: Optional[list[int]]
    include_stop_str_in_output: bool
    min_tokens: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: Optional[dict[int, float]]
    bad_words: Optional[list[Union[str, list[int]]]]
    allowed_token_ids: Optional[list[int]]
    priority: int
    timeout: Optional[float]
    logprobs_mode: str
    cache_salt: Optional[Union[str, int]]
    speculative_sampling: str
    prefix_replay: Optional[str]
    return_routed_experts: bool
    return_selected_indices: bool

    def __init__(
        self,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        ignore_eos: bool = False,
        max_tokens: int = 16,
        logprobs: Union[bool, int, None] = False,
        prompt_logprobs: Union[bool, int, None] = False,
        top_logprobs: int = 0,
        first_n_token_no_eos: int = 0,
        eos_id: int = 0,
        so_args: Optional[Mapping[str, Any]] = None,
        golden_token_ids: Optional[Sequence[int]] = None,
        seq_seed: Optional[int] = None,
        *,
        n: int = 1,
        stop: Union[str, Sequence[str], None] = None,
        stop_token_ids: Optional[Sequence[int]] = None,
        include_stop_str_in_output: bool = False,
        min_tokens: int = 0,
        min_p: float = 0.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
        logit_bias: Optional[Mapping[int, float]] = None,
        bad_words: Optional[Sequence[Union[str, Sequence[int]]]] = None,
        allowed_token_ids: Optional[Sequence[int]] = None,
        priority: int = 0,
        timeout: Optional[float] = None,
        logprobs_mode: str = "processed",
        cache_salt: Union[str, int, None] = None,
        speculative_sampling: str = "exact",
        prefix_replay: Optional[str] = None,
        return_routed_experts: bool = False,
        return_selected_indices: bool = False,
    ) -> None:
        given = locals()
        for field in self._FIELDS:
            setattr(self, field, given[field])

    def __setattr__(self, field: str, value: Any) -> None:
        if field not in self._FIELDS:
            raise AttributeError(f"SamplingParams has no field {field!r}")
        object.__setattr__(self, field, getattr(self, "_check_" + field)(value))

    def clone(self) -> "SamplingParams":
        return SamplingParams(**{field: getattr(self, field) for field in self._FIELDS})

    def __repr__(self) -> str:
        changed = (f for f, default in self._FIELDS.items() if getattr(self, f) != default)
        return f"SamplingParams({', '.join(f'{f}={getattr(self, f)!r}' for f in changed)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SamplingParams):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in self._FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def _check_temperature(self, v: Any) -> float:
        return _number("temperature", v, 0, 3.4028234e38, "0 and more (below 1e-5: greedy)")

    def _check_top_p(self, v: Any) -> float:
        return _number("top_p", v, 0, 1, "above 0, up to 1", low_excluded=True)

    def _check_top_k(self, v: Any) -> int:
        allowed = f"-1 (off) or integers from 1 to {INT32_MAX}"
        number = _integer("top_k", v, -1, INT32_MAX, allowed)
        if number == 0:
            raise _fail("top_k", v, allowed)
        return number

    def _check_ignore_eos(self, v: Any) -> bool:
        return _boolean("ignore_eos", v)

    def _check_max_tokens(self, v: Any) -> int:
        return max(1, _integer("max_tokens", v, 0, INT32_MAX, f"integers from 1 to {INT32_MAX} (0 counts as 1)"))

    def _check_logprobs(self, v: Any) -> Union[bool, int]:
        return _logprobs("logprobs", v)

    def _check_prompt_logprobs(self, v: Any) -> Union[bool, int]:
        return _logprobs("prompt_logprobs", v)

    def _check_top_logprobs(self, v: Any) -> int:
        return _integer("top_logprobs", v, 0, MOST_LOGPROBS)

    def _check_first_n_token_no_eos(self, v: Any) -> int:
        return _integer("first_n_token_no_eos", v, 0, INT32_MAX)

    def _check_eos_id(self, v: Any) -> int:
        return _integer("eos_id", v, 0, INT32_MAX)

    def _check_so_args(self, v: Any) -> Optional[dict]:
        if v is None:
            return None
        if not isinstance(v, Mapping):
            raise TypeError(f"so_args is {v!r}, a {type(v).__name__}; allowed: a dict or None")
        _core.check_so_args(json.dumps(dict(v)))
        return dict(v)

    def _check_golden_token_ids(self, v: Any) -> Optional[list[int]]:
        return None if v is None else _tokens("golden_token_ids", v, -1)

    def _check_seq_seed(self, v: Any) -> Optional[int]:
        if v is None:
            return None
        if isinstance(v, bool) or not hasattr(v, "__index__"):
            raise TypeError(f"seq_seed is {v!r}, a {type(v).__name__}; allowed: an integer or None")
        return v.__index__() & (2**64 - 1)

    def _check_n(self, v: Any) -> int:
        return _integer("n", v, 1, 1024)

    def _check_stop(self, v: Any) -> Optional[list[str]]:
        if v is None:
            return None
        items = [v] if isinstance(v, str) else _list("stop", v, "a string or a list of strings")
        return [_text(f"stop[{i}]", item) for i, item in enumerate(items)]

    def _check_stop_token_ids(self, v: Any) -> Optional[list[int]]:
        return None if v is None else _tokens("stop_token_ids", v)

    def _check_include_stop_str_in_output(self, v: Any) -> bool:
        return _boolean("include_stop_str_in_output", v)

    def _check_min_tokens(self, v: Any) -> int:
        return _integer("min_tokens", v, 0, INT32_MAX)

    def _check_min_p(self, v: Any) -> float:
        return _number("min_p", v, 0, 1, "0 to 1")

    def _check_presence_penalty(self, v: Any) -> float:
        return _number("presence_penalty", v, -2, 2, "-2 to 2")

    def _check_frequency_penalty(self, v: Any) -> float:
        return _number("frequency_penalty", v, -2, 2, "-2 to 2")

    def _check_repetition_penalty(self, v: Any) -> float:
        return _number("repetition_penalty", v, 0.001, 1000, "0.001 to 1000")

    def _check_logit_bias(self, v: Any) -> Optional[dict[int, float]]:
        if v is None:
            return None
        if not isinstance(v, Mapping):
            raise TypeError(f"logit_bias is {v!r}, a {type(v).__name__}; allowed: a dict of token ids to numbers, or None")
        return {
            _integer("a key of logit_bias", token, 0, INT32_MAX): _number(
                f"logit_bias[{token!r}]", bias, -1e9, 1e9, "-1e9 to 1e9"
            )
            for token, bias in v.items()
        }

    def _check_bad_words(self, v: Any) -> Optional[list[Union[str, list[int]]]]:
        if v is None:
            return None
        words: list[Union[str, list[int]]] = []
        for i, word in enumerate(_list("bad_words", v, "a list of strings and of lists of token ids")):
            if isinstance(word, str):
                words.append(_text(f"bad_words[{i}]", word))
                continue
            ids = _tokens(f"bad_words[{i}]", word)
            if not ids:
                raise _fail(f"bad_words[{i}]", word, "a list of at least one token id")
            words.append(ids)
        return words

    def _check_allowed_token_ids(self, v: Any) -> Optional[list[int]]:
        if v is None:
            return None
        ids = _tokens("allowed_token_ids", v)
        if not ids:
            raise _fail("allowed_token_ids", v, "a list of at least one token id, or None")
        return ids

    def _check_priority(self, v: Any) -> int:
        return _integer("priority", v, -(2**31), INT32_MAX)

    def _check_timeout(self, v: Any) -> Optional[float]:
        if v is None:
            return None
        return _number("timeout", v, 0.001, 1e9, "seconds from 0.001 to 1e9, or None")

    def _check_logprobs_mode(self, v: Any) -> str:
        if v not in ("processed", "raw"):
            raise _fail("logprobs_mode", v, "'processed' or 'raw'")
        return v

    def _check_cache_salt(self, v: Any) -> Optional[Union[str, int]]:
        if v is None:
            return None
        if isinstance(v, str):
            return _text("cache_salt", v)
        return _integer("cache_salt", v, 0, 2**64 - 1, "a string, or integers from 0 to 2**64 - 1")

    def _check_speculative_sampling(self, v: Any) -> str:
        if v not in ("exact", "rejection"):
            raise _fail("speculative_sampling", v, "'exact' or 'rejection'")
        return v

    def _check_prefix_replay(self, v: Any) -> Optional[str]:
        if v not in (None, "exact", "bounded"):
            raise _fail("prefix_replay", v, "'exact', 'bounded', or None: the engine's")
        return v

    def _check_return_routed_experts(self, v: Any) -> bool:
        return _boolean("return_routed_experts", v)

    def _check_return_selected_indices(self, v: Any) -> bool:
        return _boolean("return_selected_indices", v)
