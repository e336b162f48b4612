"""LLM.generate: DeepInfer's result forms, prompts, seeds, and failures in their places."""

import array
import json

import pytest

import deepinfer
from conftest import MODEL, SMALL, settled_stats
from deepinfer import BatchError, FailedOutput, SamplingParams

GREEDY = dict(temperature=0)


def ids_of(answer):
    return [output.token_id for output in answer]


def test_strings(text_llm, tokenizer):
    prompts = ["The capital of France is", "Two plus two"]
    answers = text_llm.generate(prompts, SamplingParams(**GREEDY, max_tokens=8))
    assert len(answers) == 2 and all(isinstance(a, str) for a in answers)
    assert text_llm.generate(prompts[0], SamplingParams(**GREEDY, max_tokens=8)) == answers[:1]
    text_llm.decode_sequence = False
    tokens = text_llm.generate(prompts, SamplingParams(**GREEDY, max_tokens=8))
    assert [tokenizer.decode(ids_of(a)) for a in tokens] == answers


def test_one_output_for_each_token(llm):
    prompt = "The capital of France is"
    [answer] = llm.generate(prompt, SamplingParams(**GREEDY, max_tokens=6, ignore_eos=True, top_logprobs=3,
                                                   prompt_logprobs=True))
    prompt_len = len(llm.get_tokenizer().encode(prompt))
    assert [o.num_output_tokens for o in answer] == [1, 2, 3, 4, 5, 6]
    assert [o.finished for o in answer] == [False] * 5 + [True]
    assert [o.finish_reason for o in answer] == [""] * 5 + ["length"]
    assert {o.prompt_len for o in answer} == {prompt_len}
    assert {o.request_id for o in answer} == {answer[0].request_id} and answer[0].request_id.isdecimal()
    for o in answer:
        assert o.token_logprobs <= 0 and len(o.top_logprobs) == len(o.top_token_ids) == 3
        assert o.top_logprobs == sorted(o.top_logprobs, reverse=True)
        assert o.top_token_ids[0] == o.token_id and o.top_logprobs[0] == o.token_logprobs
        assert (o.nextn_logprobs, o.sum_smaller_probs, o.confidence_score) == (1.0, -1.0, None)
    assert len(answer[0].prompt_logprobs) == prompt_len - 1
    assert all(value <= 0 for value in answer[0].prompt_logprobs)
    assert all(o.prompt_logprobs == [] for o in answer[1:])
    assert sum(o.accept_tok for o in answer) == 6
    for o in answer:
        assert 0 <= o.accept_tok <= o.draft_tok <= 6 and (o.accept_tok > 0) == (o.draft_tok > 0)
    assert answer[0].draft_tok == answer[0].accept_tok == 1  # the prompt's step has no drafts


def test_request_ids_go_on(llm):
    first = llm.generate("a", SamplingParams(max_tokens=1))[0][0].request_id
    second = llm.generate("a", SamplingParams(max_tokens=1))[0][0].request_id
    assert int(second) == int(first) + 1


def test_token_ids_win_over_strings(llm, tokenizer):
    ids = tokenizer.encode("Hello")
    a, = llm.generate(["something else"], SamplingParams(**GREEDY, max_tokens=4), prompt_token_ids=[ids])
    b, = llm.generate("Hello", SamplingParams(**GREEDY, max_tokens=4))
    c, = llm.generate(prompt_token_ids=[array.array("i", ids)], sampling_params=SamplingParams(**GREEDY, max_tokens=4))
    assert ids_of(a) == ids_of(b) == ids_of(c)
    with pytest.raises(ValueError, match="prompt_token_ids 1"):
        llm.generate(["a", "b"], prompt_token_ids=[ids])


def test_wrong_calls(llm):
    with pytest.raises(ValueError, match="prompts and prompt_token_ids"):
        llm.generate()
    with pytest.raises(ValueError, match="sampling_params has 1 entries for 2"):
        llm.generate(["a", "b"], [SamplingParams()])
    with pytest.raises(ValueError, match="on_error"):
        llm.generate("a", on_error="ignore")
    with pytest.raises(TypeError, match="prompts"):
        llm.generate([[1, 2]])
    with pytest.raises(TypeError, match="sampling_params"):
        llm.generate("a", [{"temperature": 1}])
    assert llm.generate([]) == []


def test_one_begin_token_and_text_stays_text(tokenizer):
    bos = "<｜begin▁of▁sentence｜>"
    assert tokenizer.encode("Hi")[0] == 0 and tokenizer.encode("Hi").count(0) == 1
    assert tokenizer.encode(bos + "Hi").count(0) == 1
    assert tokenizer.encode(bos + "Hi", allow_special=True) == tokenizer.encode("Hi")
    assert 4 not in tokenizer.encode("<｜User｜>")
    assert tokenizer.encode("<｜User｜>", allow_special=True) == [0, 4]
    assert tokenizer.decode(tokenizer.encode(bos + "Hi")) == bos + bos + "Hi"
    assert tokenizer.encode("\ud800")  # a lone surrogate is repaired


def test_special_tokens_in_prompts(llm, tokenizer):
    text = "<｜User｜>Hi<｜Assistant｜></think>"
    plain, = llm.generate(text, SamplingParams(max_tokens=1))
    special, = llm.generate(text, SamplingParams(max_tokens=1), allow_special=True)
    assert special[0].prompt_len == len(tokenizer.encode(text, allow_special=True)) < plain[0].prompt_len


def test_a_shared_object_without_seed_gives_different_seeds(llm):
    params = SamplingParams(max_tokens=24, ignore_eos=True)
    a, b = llm.generate(["Once upon a time"] * 2, params)
    assert ids_of(a) != ids_of(b)
    assert params.seq_seed is None
    seeded = SamplingParams(max_tokens=24, ignore_eos=True, seq_seed=7)
    c, d = llm.generate(["Once upon a time"] * 2, seeded)
    assert ids_of(c) == ids_of(d)


def test_unseeded_runs_repeat_from_the_engine_seed():
    def run(seed):
        with deepinfer.LLM(MODEL, seed=seed, max_model_len=512, **SMALL) as llm:
            return llm.generate(["Once upon a time"] * 2, SamplingParams(max_tokens=12))

    assert run(3) == run(3)


def test_failures_stay_in_their_places(text_llm):
    good = SamplingParams(**GREEDY, max_tokens=4)
    bad = SamplingParams(**GREEDY, max_tokens=4, stop_token_ids=[10**6])
    ids = [[0, 50], [], [0, 10**6], [0, -1], [0] * 5000, [0, 50], [0, 50]]
    params = [good, good, good, good, good, bad, good]
    answers = text_llm.generate(prompt_token_ids=ids, sampling_params=params)
    assert [isinstance(a, str) for a in answers] == [True, False, False, False, False, False, True]
    assert answers[0] == answers[6]
    failures = answers[1:6]
    assert [f.finish_reason for f in failures] == ["invalid_request"] * 3 + ["prompt_length_exceeded",
                                                                             "invalid_request"]
    for failure, text in zip(failures, ["empty", "1000000", "-1", "5000", "stop_token_ids"]):
        assert text in failure.error and "allowed" in failure.error
        assert failure.outputs == [] and failure.text == ""
    with pytest.raises(BatchError, match="5 of 7") as raised:
        text_llm.generate(prompt_token_ids=ids, sampling_params=params, on_error="raise")
    assert raised.value.outputs[0] == answers[0] and len(raised.value.outputs) == 7
    assert len(raised.value.failures) == 5


def test_images_are_refused_by_name(text_llm):
    data = [None, {"image_bytes": [b"x"], "image_sizes": [(1, 1)]}]
    good, failed = text_llm.generate(["a", "b"], SamplingParams(max_tokens=1), multi_modal_data=data)
    assert isinstance(good, str) and failed.finish_reason == "ve_error" and "multi_modal_data" in failed.error
    assert set(data[1]) == {"image_bytes", "image_sizes"}  # the caller's


def test_timeout_keeps_what_there_is(llm):
    answer, = llm.generate("Once", SamplingParams(max_tokens=1000, ignore_eos=True, timeout=0.05))
    assert isinstance(answer, FailedOutput) and answer.finish_reason == "timeout" and "0.05" in answer.error
    assert all(o.token_id >= 0 for o in answer.outputs) and len(answer.outputs) < 1000


def test_answers_end_with_the_context(llm):
    answer, = llm.generate(prompt_token_ids=[[0] * 1020], sampling_params=SamplingParams(max_tokens=100, ignore_eos=True))
    assert len(answer) == 4 and answer[-1].finish_reason == "length"


def test_closed_engines_say_so():
    llm = deepinfer.LLM(MODEL, max_model_len=512, **SMALL)
    llm.close()
    llm.close()
    with pytest.raises(ValueError, match="closed"):
        llm.generate("a")


def test_default_context_is_printed(capsys):
    with deepinfer.LLM(MODEL, **SMALL) as llm:
        llm.generate("a", SamplingParams(max_tokens=1))
        assert 1024 <= llm.max_model_len < 2**20
        error = capsys.readouterr().err
        assert error.count("max_model_len") == 1 and str(llm.max_model_len) in error


def test_model_folders_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        deepinfer.LLM(str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="config.json"):
        deepinfer.LLM(str(tmp_path))
    with pytest.raises(TypeError, match="max_modle_len"):
        deepinfer.LLM(MODEL, max_modle_len=5)


def test_statistics(capfd, monkeypatch):
    monkeypatch.setenv("DEEPINFER_LOGGING_INTERVAL_STEP", "2")
    with deepinfer.LLM(MODEL, max_model_len=512, disable_log_stats=False, served_model_name="tiny", **SMALL) as llm:
        llm.generate("a", SamplingParams(max_tokens=30, ignore_eos=True))
        assert 'model_name="tiny"' in llm.metrics()
        assert settled_stats(llm)["answer_tokens"] == 30
    lines = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("deepinfer: ")]
    assert len(lines) >= 5 and all("[stats] (is_prompt " in line for line in lines)


def test_prefixes_outlive_the_engine_on_disk(tmp_path):
    ids = [0] + list(range(300, 700))
    answers, cached = [], []
    for _ in range(2):
        with deepinfer.LLM(MODEL, max_model_len=1024, kv_disk_folder=tmp_path / "kv", **SMALL) as llm:
            answers.append(llm.generate(prompt_token_ids=[ids], sampling_params=SamplingParams(**GREEDY, max_tokens=8)))
            cached.append(settled_stats(llm)["cached_tokens"])
    assert answers[0] == answers[1]
    assert cached[0] == 0 and cached[1] >= 256


def test_disk_folders_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(Exception, match="file"):
        deepinfer.LLM(MODEL, kv_disk_folder=tmp_path / "file", **SMALL)
    with pytest.raises(ValueError, match="kv_host_bytes is 1"):
        deepinfer.LLM(MODEL, kv_host_bytes=1, **SMALL)
    with pytest.raises(ValueError, match="kv_disk_bytes"):
        deepinfer.LLM(MODEL, kv_disk_folder=tmp_path / "kv", kv_disk_bytes=1, **SMALL)


def test_request_log_holds_requests_and_answers(tmp_path):
    file = tmp_path / "run.log"
    with deepinfer.LLM(MODEL, max_model_len=512, request_log=file, decode_sequence=False, **SMALL) as llm:
        [answer] = llm.generate(prompt_token_ids=[[0, 5, 300]],
                                sampling_params=SamplingParams(max_tokens=5, seq_seed=3, ignore_eos=True))
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["deepinfer_request_log"] == 1 and lines[0]["max_context"] == 512
    assert lines[1]["prompt"] == [0, 5, 300] and lines[1]["seed"] == 3
    assert [token[0] for token in lines[2]["tokens"]] == ids_of(answer)
    with pytest.raises(ValueError, match="is there already"):
        deepinfer.LLM(MODEL, max_model_len=512, request_log=file, **SMALL)
    with pytest.raises(TypeError, match="request_log"):
        deepinfer.LLM(MODEL, request_log=5)
