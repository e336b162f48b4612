"""SamplingParams: names, defaults and ranges of DeepInfer 0.1.0, and of the further fields."""

import math

import pytest

from deepinfer import SamplingParams

NAN, INF = math.nan, math.inf

REFUSED = {
    "temperature": ([-0.1, NAN, INF, -INF, 10**400], ["1", None, True, [1]]),
    "top_p": ([0, -1, 1.01, NAN], ["1", None]),
    "top_k": ([0, -2, 2**31], [1.5, "5", None, True]),
    "ignore_eos": ([], [1, "yes", None]),
    "max_tokens": ([-1, 2**31], [1.0, "16", None, True]),
    "logprobs": ([-1, 1001], ["x", 1.5]),
    "prompt_logprobs": ([-1, 1001], ["x", 1.5]),
    "top_logprobs": ([-1, 1001], [1.5, None]),
    "first_n_token_no_eos": ([-1], [1.5, None]),
    "eos_id": ([-1], ["a", None]),
    "so_args": ([{}, {"schema_type": "xml", "schema": ""}, {"schema_type": "json", "schema": "{}", "x": 1},
                 {"schema_type": "json", "schema": "{}", "bound_token_ids": [1]},
                 {"schema_type": "json", "schema": "{}", "serialized": True}], ["json", 5]),
    "golden_token_ids": ([[-2], [2**31]], [5, "abc", [1.5], [None]]),
    "seq_seed": ([], [1.5, "7", True]),
    "n": ([0, -1, 1025], [1.5, None]),
    "stop": ([[""], "", ["\ud800"]], [5, [5]]),
    "stop_token_ids": ([[-1]], [5, ["a"]]),
    "include_stop_str_in_output": ([], [1, None]),
    "return_routed_experts": ([], [1, None]),
    "return_selected_indices": ([], [1, None]),
    "min_tokens": ([-1], [1.5, None]),
    "min_p": ([-0.1, 1.1, NAN], ["0", None]),
    "presence_penalty": ([-2.1, 2.1, NAN], ["0", None]),
    "frequency_penalty": ([-2.1, 2.1, NAN], ["0", None]),
    "repetition_penalty": ([0, 1001, NAN], ["1", None]),
    "logit_bias": ([{-1: 0}, {1: NAN}, {1: 1e10}], [[1], {"1": 1}, {1: "x"}]),
    "bad_words": ([[""], [[]], [[-1]]], ["word", [5], 5]),
    "allowed_token_ids": ([[], [-1]], [5, ["a"]]),
    "priority": ([2**31, -(2**31) - 1], [1.5, None]),
    "timeout": ([0, -1, NAN, INF], ["1"]),
    "logprobs_mode": (["", "RAW", None, 5], []),
    "speculative_sampling": (["none", None, ""], []),
    "prefix_replay": (["full", "", 1], []),
    "cache_salt": (["", -1, 2**64], [1.5, b"x"]),
}


def test_defaults_are_those_of_deepinfer():
    p = SamplingParams()
    assert (p.temperature, p.top_p, p.top_k, p.ignore_eos, p.max_tokens) == (1.0, 1.0, -1, False, 16)
    assert (p.logprobs, p.prompt_logprobs, p.top_logprobs, p.first_n_token_no_eos, p.eos_id) == (False, False, 0, 0, 0)
    assert (p.so_args, p.golden_token_ids, p.seq_seed) == (None, None, None)


def test_every_field_has_refused_values():
    assert set(REFUSED) == set(SamplingParams._FIELDS)


@pytest.mark.parametrize("field", REFUSED)
def test_wrong_values_name_the_field(field):
    for error, values in zip((ValueError, TypeError), REFUSED[field]):
        for value in values:
            with pytest.raises(error, match=field) as raised:
                SamplingParams(**{field: value})
            assert "allowed" in str(raised.value) or field == "so_args", value
            p = SamplingParams()
            with pytest.raises(error, match=field):
                setattr(p, field, value)
            assert getattr(p, field) == SamplingParams._FIELDS[field]


def test_edges_are_accepted():
    SamplingParams(temperature=0, top_p=1, top_k=2**31 - 1, max_tokens=2**31 - 1, top_logprobs=1000, min_p=1,
                   presence_penalty=-2, frequency_penalty=2, repetition_penalty=0.001, logit_bias={0: -1e9},
                   priority=-(2**31), n=1024, timeout=0.001)
    assert SamplingParams(max_tokens=0).max_tokens == 1
    assert SamplingParams(seq_seed=-1).seq_seed == 2**64 - 1
    assert SamplingParams(stop="x").stop == ["x"]
    assert SamplingParams(logprobs=None).logprobs is False


def test_unknown_fields_are_refused():
    with pytest.raises(TypeError, match="best_of"):
        SamplingParams(best_of=2)
    with pytest.raises(AttributeError, match="best_of"):
        SamplingParams().best_of = 2


def test_clone_and_repr():
    p = SamplingParams(0.5, 0.9, 40, seq_seed=7, stop=["a"])
    assert p.clone() == p and p.clone() is not p
    assert repr(p) == "SamplingParams(temperature=0.5, top_p=0.9, top_k=40, seq_seed=7, stop=['a'])"
