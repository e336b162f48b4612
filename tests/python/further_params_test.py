"""The fields that DeepInfer 0.1.0 has not, and structured output: what they do to answers."""

import json
import re

import pytest

from conftest import settled_stats
from deepinfer import FailedOutput, SamplingParams

PROMPT = "The capital of France is"


def ids_of(answer):
    assert not isinstance(answer, FailedOutput), answer
    return [output.token_id for output in answer]


def run(llm, prompt=PROMPT, **fields):
    fields = {"temperature": 0, "max_tokens": 12, "ignore_eos": True, **fields}
    answer, = llm.generate(prompt, SamplingParams(**fields))
    return answer


@pytest.fixture(scope="module")
def plain(llm):
    return ids_of(run(llm))


def test_n_gives_different_answers_that_repeat(llm):
    fields = dict(temperature=1, n=3, seq_seed=5)
    a, b, c = run(llm, **fields)
    assert len({tuple(ids_of(x)) for x in (a, b, c)}) == 3
    assert [ids_of(x) for x in run(llm, **fields)] == [ids_of(x) for x in (a, b, c)]
    assert ids_of(run(llm, temperature=1, seq_seed=5)) == ids_of(a)  # the first is the only one of n = 1


def test_n_shares_the_blocks_of_the_prompt(llm):
    prompt = [0] + list(range(700, 1000))
    params = SamplingParams(n=4, max_tokens=3, seq_seed=5, ignore_eos=True)
    before = settled_stats(llm)["cached_tokens"]
    together, = llm.generate(prompt_token_ids=[prompt], sampling_params=params)
    assert settled_stats(llm)["cached_tokens"] - before == 3 * 256
    again, = llm.generate(prompt_token_ids=[prompt], sampling_params=params)
    assert [ids_of(a) for a in together] == [ids_of(a) for a in again]
    late, = llm.generate(prompt_token_ids=[[0] + list(range(1100, 1600))], sampling_params=SamplingParams(
        n=3, max_tokens=10, timeout=0.001))
    assert [a.finish_reason for a in late] == ["timeout"] * 3
    bad, = llm.generate(prompt_token_ids=[prompt], sampling_params=SamplingParams(n=2, stop_token_ids=[10**6]))
    assert [a.finish_reason for a in bad] == ["invalid_request"] * 2


def test_rejection_sampling_is_marked_and_repeats(llm, plain):
    fields = dict(temperature=1, seq_seed=5, max_tokens=30, speculative_sampling="rejection")
    answer = run(llm, **fields)
    assert ids_of(answer) == ids_of(run(llm, **fields)) != ids_of(run(llm, **{**fields, "speculative_sampling": "exact"}))
    assert {output.speculative_sampling for output in answer} == {"rejection"}
    assert ids_of(run(llm, speculative_sampling="rejection")) == plain  # greedy


def test_bounded_prefix_is_marked(llm):
    prompt = [0] + list(range(600, 1000))
    for replay in (None, "exact", "bounded"):
        params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True, prefix_replay=replay)
        for ids in (prompt, prompt[:140]):
            answer, = llm.generate(prompt_token_ids=[ids], sampling_params=params)
            expected = "bounded" if replay == "bounded" and len(ids) > 140 else "exact"
            assert [output.prefix_replay for output in answer] == [expected] * 3
    params = SamplingParams(max_tokens=1, prefix_replay="bounded", prompt_logprobs=True)
    failed, = llm.generate(prompt_token_ids=[prompt], sampling_params=params)
    assert isinstance(failed, FailedOutput) and "prompt_logprobs" in failed.error


def test_stop_strings(text_llm):
    whole = run(text_llm)
    word = whole.split()[2]
    assert run(text_llm, stop=word) == whole[: whole.index(word)]
    assert run(text_llm, stop=[word, "never there"], include_stop_str_in_output=True) == \
        whole[: whole.index(word) + len(word)]
    text_llm.decode_sequence = False
    assert run(text_llm, stop=[word])[-1].finish_reason == "stop"


def test_stop_tokens(llm, plain):
    token = plain[4]
    end = plain.index(token)
    answer = run(llm, stop_token_ids=[token])
    assert ids_of(answer) == plain[: end + 1] and answer[-1].finish_reason == "stop"
    llm.decode_sequence = True
    tokenizer = llm.get_tokenizer()
    try:
        assert run(llm, stop_token_ids=[token]) == tokenizer.decode(plain[:end])
        assert run(llm, stop_token_ids=[token], include_stop_str_in_output=True) == tokenizer.decode(plain[: end + 1])
    finally:
        llm.decode_sequence = False


def test_eos_is_part_of_the_string_as_in_deepinfer(text_llm):
    assert run(text_llm, ignore_eos=False, logit_bias={1: 1e6}) == "<｜end▁of▁sentence｜>"


def test_min_tokens(llm):
    answer = run(llm, ignore_eos=False, logit_bias={1: 1e6}, min_tokens=3)
    assert len(answer) == 4 and answer[-1].token_id == 1 and answer[-1].finish_reason == "stop"
    for n in (1, 2):
        assert len(run(llm, ignore_eos=False, logit_bias={1: 1e6}, first_n_token_no_eos=n)) == n + 1


def test_min_p_one_is_greedy(llm, plain):
    assert ids_of(run(llm, temperature=1, min_p=1, seq_seed=3)) == plain


def test_penalties_lower_what_has_been_said(llm):
    free = llm.score(PROMPT, [500, 500, 500]).logprobs
    for field, value in (("presence_penalty", 2), ("frequency_penalty", 2), ("repetition_penalty", 3)):
        first, second, third = llm.score(PROMPT, [500, 500, 500], SamplingParams(**{field: value})).logprobs
        assert second < free[1] and third < free[2]
        assert field == "repetition_penalty" or first == free[0]  # that one counts the prompt's tokens too


def test_logit_bias_and_allowed_tokens(llm, plain):
    assert set(ids_of(run(llm, logit_bias={100: 1e8}))) == {100}
    assert plain[0] not in ids_of(run(llm, logit_bias={plain[0]: -1e8}))
    assert set(ids_of(run(llm, temperature=1, allowed_token_ids=[100, 101]))) <= {100, 101}


def test_bad_words(llm, plain, tokenizer):
    pair = plain[1:3]
    answer = ids_of(run(llm, bad_words=[pair]))
    assert answer[:2] == plain[:2] and answer[2] != plain[2]
    word = tokenizer.decode(plain).split()[1]
    assert word not in tokenizer.decode(ids_of(run(llm, bad_words=[word], max_tokens=8))).split()


def test_teacher_forcing(llm, plain):
    answer = ids_of(run(llm, golden_token_ids=[50, -1, 51]))
    assert answer[0] == 50 and answer[2] == 51 and len(answer) == 12


def test_logprobs_modes(llm):
    fields = dict(temperature=0.5, top_k=1, seq_seed=1, top_logprobs=4)
    processed, raw = run(llm, **fields), run(llm, logprobs_mode="raw", **fields)
    assert ids_of(processed) == ids_of(raw)
    assert all(o.token_logprobs == 0 for o in processed)  # one token is left of the distribution
    assert all(o.token_logprobs < 0 and len(o.top_token_ids) == 4 for o in raw)
    assert all(len(o.top_token_ids) == 1 for o in processed)
    by_field = run(llm, temperature=0.5, seq_seed=1, logprobs=4)
    assert all(len(o.top_token_ids) == 4 for o in by_field)


def test_prompt_logprobs_are_those_of_forcing(llm, tokenizer):
    ids = tokenizer.encode(PROMPT)
    answer = run(llm, prompt_logprobs=2)
    first = answer[0]
    assert len(first.prompt_logprobs) == len(ids) - 1 == len(first.prompt_top_logprobs)
    assert all(len(top) == 2 for top in first.prompt_top_logprobs)
    forced, = llm.generate(prompt_token_ids=[ids[:1]], sampling_params=SamplingParams(
        temperature=0, golden_token_ids=ids[1:], max_tokens=len(ids) - 1))
    assert [o.token_logprobs for o in forced] == first.prompt_logprobs


def test_priority_and_salt_change_no_token(llm, plain):
    assert ids_of(run(llm, priority=5)) == plain
    assert ids_of(run(llm, cache_salt="tenant")) == plain
    assert ids_of(run(llm, cache_salt=17)) == plain


def test_salts_keep_prefixes_apart(llm):
    long = list(range(300, 600))
    cached = lambda: settled_stats(llm)["cached_tokens"]
    one = SamplingParams(temperature=0, max_tokens=1, cache_salt="first tenant")
    two = SamplingParams(temperature=0, max_tokens=1, cache_salt="second tenant")
    llm.generate(prompt_token_ids=[long], sampling_params=one)
    before = cached()
    llm.generate(prompt_token_ids=[long], sampling_params=two)
    assert cached() == before
    llm.generate(prompt_token_ids=[long], sampling_params=one)
    assert cached() > before


def test_structured_output(text_llm):
    schema = json.dumps({"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
                         "required": ["city"]})
    answer = run(text_llm, ignore_eos=False, max_tokens=100, so_args={"schema_type": "json", "schema": schema})
    value = json.loads(answer.removesuffix("<｜end▁of▁sentence｜>"))
    assert set(value) == {"city"} and len(value["city"]) <= 8
    answer = run(text_llm, ignore_eos=False, max_tokens=100, so_args={"schema_type": "regex", "schema": "[a-c]{5}"})
    assert re.fullmatch("[a-c]{5}<｜end▁of▁sentence｜>", answer)


def test_bad_grammars_fail_alone(text_llm):
    params = [SamplingParams(temperature=0, max_tokens=4),
              SamplingParams(max_tokens=4, so_args={"schema_type": "regex", "schema": "(("}),
              SamplingParams(max_tokens=4, so_args={"schema_type": "json", "schema": "{"})]
    good, *failed = text_llm.generate([PROMPT] * 3, params)
    assert isinstance(good, str)
    for failure in failed:
        assert isinstance(failure, FailedOutput), failure
        assert failure.finish_reason == "xgrammar runtime errors or timeout" and failure.error


def test_score_is_generation_bit_for_bit(llm, tokenizer):
    for fields in (dict(temperature=0), dict(temperature=0.7, top_p=0.9), dict(temperature=1, logprobs_mode="raw")):
        params = SamplingParams(max_tokens=20, ignore_eos=True, seq_seed=9, **fields)
        answer, = llm.generate(PROMPT, params)
        score = llm.score(PROMPT, ids_of(answer), params)
        assert score.logprobs == [o.token_logprobs for o in answer]
        assert score.token_ids == ids_of(answer)
    text = llm.score(PROMPT, " Paris.")
    assert text.token_ids == tokenizer.encode(" Paris.", add_special_tokens=False)
    assert text.total == sum(text.logprobs) < 0
    assert llm.score(PROMPT, []).logprobs == []
    greedy = SamplingParams(temperature=1, top_k=1)
    assert min(llm.score(PROMPT, [5, 6, 7], greedy).logprobs) == -9999.0
    with pytest.raises(Exception, match="max_model_len|prompt"):
        llm.score([0] * 1000, [5] * 100)


def test_blacklist_variable(monkeypatch, plain):
    import deepinfer
    from conftest import MODEL, SMALL
    monkeypatch.setenv("DEEPINFER_DECODE_TOKEN_BLACKLIST", f"{plain[0]}")
    monkeypatch.setenv("DEEPINFER_USE_NEXTN_DECODE", "0")
    with deepinfer.LLM(MODEL, decode_sequence=False, max_model_len=512, **SMALL) as llm:
        assert plain[0] not in ids_of(run(llm))
        assert settled_stats(llm)["drafted"] == 0
