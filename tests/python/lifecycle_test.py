"""Pausing, sleeping, other weights, and what tokens chose on their way: the surface for reinforcement learning."""

import asyncio
import json
import pathlib
import pickle
import shutil
import threading
import time

import pytest

import deepinfer
from conftest import MODEL, SMALL, settled_stats
from deepinfer import LLM, AsyncLLM, SamplingParams

PROMPT = "The capital of France is"
GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)


def ids(answer):
    return [o.token_id for o in answer]


@pytest.fixture(scope="module")
def own():
    with LLM(MODEL, decode_sequence=False, max_model_len=1024, **SMALL) as engine:
        yield engine


def test_order_of_calls(own):
    assert own.state == "running"
    for call in (own.resume, own.wake_up):
        with pytest.raises(ValueError, match="the engine is running"):
            call()
    with pytest.raises(ValueError, match="mode is 'now'; allowed"):
        own.pause("now")
    own.pause()
    assert own.state == "paused"
    for call in (own.generate, own.chat):
        with pytest.raises(RuntimeError, match="the engine is paused"):
            call([PROMPT])
    with pytest.raises(RuntimeError, match="score: the engine is paused"):
        own.score("a", "b")
    with pytest.raises(ValueError, match="pause: the engine is paused"):
        own.pause("keep")
    own.sleep()
    assert own.state == "asleep"
    with pytest.raises(ValueError, match="resume: the engine is asleep"):
        own.resume()
    own.wake_up()
    own.resume()
    assert own.state == "running"


def test_other_threads_only_wait(own, llm):
    params = SamplingParams(temperature=0, max_tokens=300, ignore_eos=True)
    want = ids(llm.generate(PROMPT, params)[0])
    got = []
    thread = threading.Thread(target=lambda: got.append(ids(own.generate(PROMPT, params, use_tqdm=False)[0])))
    before = own.stats()["steps"]
    thread.start()
    while own.stats()["steps"] == before:
        time.sleep(0.001)
    own.sleep("keep")
    own.wake_up()
    own.update_weights(MODEL, "keep")
    thread.join()
    assert got == [want]


def test_prefixes_are_forgotten(own):
    prompt = PROMPT * 60  # several blocks
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)

    def cached():
        before = settled_stats(own)["cached_tokens"]
        answer, = own.generate(prompt, params)
        return settled_stats(own)["cached_tokens"] - before, ids(answer)

    _, first = cached()
    tokens, again = cached()
    assert tokens >= 128 and again == first
    own.forget_prefixes(device=False)  # there is no memory below
    assert cached() == (tokens, first)
    own.forget_prefixes()
    assert cached() == (0, first)
    own.pause()
    own.forget_prefixes(host=False)
    assert own.state == "paused"
    own.resume()
    assert cached() == (0, first)


def test_weights_are_updated(own, tmp_path):
    answer, = own.generate(PROMPT, GREEDY)
    version = own.weights_version
    assert {o.weights_version for o in answer} == {version}

    other = tmp_path / "other"
    shutil.copytree(MODEL, other)
    config = json.loads((other / "config.json").read_text())
    config["text_config"]["rope_theta"] = 12345.0
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="rope_theta is 12345; allowed: 10000, as in the loaded model"):
        own.update_weights(other)
    with pytest.raises(FileNotFoundError):
        own.update_weights(tmp_path / "nowhere")
    assert own.weights_version == version and own.state == "running"

    shutil.copy(pathlib.Path(MODEL) / "config.json", other)
    index = json.loads((other / "model.safetensors.index.json").read_text())
    shard = other / index["weight_map"]["head.weight"]
    data = bytearray(shard.read_bytes())
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    begin, end = header["head.weight"]["data_offsets"]
    start = 8 + int.from_bytes(data[:8], "little") + begin
    rows = [data[start + i:start + i + (end - begin) // 4096] for i in range(0, end - begin, (end - begin) // 4096)]
    data[start:start + end - begin] = b"".join(reversed(rows))  # another token for every logit
    shard.write_bytes(data)
    assert own.update_weights(other) == version + 1
    changed, = own.generate(PROMPT, GREEDY)
    assert changed[0].token_id == 4095 - answer[0].token_id
    assert {o.weights_version for o in changed} == {version + 1}
    own.update_weights(MODEL)
    assert ids(own.generate(PROMPT, GREEDY)[0]) == ids(answer)


def test_choices_of_tokens(llm, own):
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, return_routed_experts=True,
                            return_selected_indices=True)
    answer, = llm.generate(PROMPT, params)
    last = answer[-1]
    assert all(o.routed_experts is None and o.selected_indices is None for o in answer[:-1])
    tokens = last.prompt_len + len(answer) - 1
    assert last.routed_experts.shape[0] == last.selected_indices.shape[0] == tokens
    assert pickle.loads(pickle.dumps(last)) == last
    for token in last.routed_experts.tolist():
        for chosen in token:
            assert len(set(chosen)) == len(chosen) and all(0 <= expert < 16 for expert in chosen)
    for place, token in enumerate(last.selected_indices.tolist()):
        for chosen in token:
            rows = [row for row in chosen if row >= 0]
            assert rows == sorted(set(rows)) and all(row <= place for row in rows)
            assert chosen[len(rows):] == [-1] * (len(chosen) - len(rows))

    # Without drafts, in company, and as a prompt of the same tokens.
    crowd = own.generate([PROMPT + " " + str(i) for i in range(6)] + [PROMPT], [params.clone() for _ in range(7)])
    assert crowd[-1][-1].routed_experts == last.routed_experts
    assert crowd[-1][-1].selected_indices == last.selected_indices
    prompt = llm.get_tokenizer().encode(PROMPT) + ids(answer)[:-1]
    params.max_tokens = 1
    again, = llm.generate(prompt_token_ids=[prompt], sampling_params=params)
    assert again[-1].routed_experts == last.routed_experts
    assert again[-1].selected_indices == last.selected_indices


def test_choices_as_numpy_arrays(llm):
    numpy = pytest.importorskip("numpy")
    params = SamplingParams(temperature=0, max_tokens=3, return_routed_experts=True, return_selected_indices=True)
    last = llm.generate(PROMPT, params)[0][-1]
    experts, selected = numpy.asarray(last.routed_experts), numpy.asarray(last.selected_indices)
    assert experts.dtype == numpy.uint16 and selected.dtype == numpy.int32
    assert experts.tolist() == last.routed_experts.tolist() and selected.tolist() == last.selected_indices.tolist()
    assert experts[1, 2, 3] == last.routed_experts[1, 2, 3]


def test_choices_end_where_the_answer_does(llm):
    whole = llm.get_tokenizer().decode(ids(llm.generate(PROMPT, GREEDY)[0]))
    params = GREEDY.clone()
    params.return_routed_experts = True
    params.stop = whole[10:14]
    answer, = llm.generate(PROMPT, params)
    assert answer[-1].finish_reason == "stop"
    assert answer[-1].routed_experts.shape[0] == answer[-1].prompt_len + len(answer) - 1
    assert answer[-1].selected_indices is None


def test_async():
    async def run():
        async with await AsyncLLM.open(MODEL, max_model_len=1024, **SMALL) as engine:
            params = SamplingParams(temperature=0, max_tokens=30, ignore_eos=True, return_routed_experts=True)

            async def collect():
                return [delta async for delta in engine.generate(PROMPT, params)]

            await engine.pause("keep")
            waiting = asyncio.create_task(collect())
            await asyncio.sleep(0.05)
            assert not waiting.done() and engine.state == "paused"
            await engine.resume()
            deltas = await waiting
            outputs = [o for d in deltas for o in d.outputs]
            assert deltas[-1].routed_experts.shape[0] == outputs[0].prompt_len + len(outputs) - 1
            running = asyncio.create_task(collect())
            await engine.sleep("keep")
            await engine.wake_up()
            assert await engine.update_weights(MODEL, "keep") == 1 == engine.weights_version
            await engine.forget_prefixes()
            again = await running
            assert [t for d in again for t in d.token_ids] == [o.token_id for o in outputs]

    asyncio.run(run())


def test_closing_ends_a_wait():
    engine = LLM(MODEL, decode_sequence=False, max_model_len=4096, **SMALL)
    params = SamplingParams(max_tokens=4000, ignore_eos=True)
    worker = threading.Thread(target=lambda: engine.generate(PROMPT, params, use_tqdm=False))
    worker.start()
    while engine.stats()["running"] == 0:
        time.sleep(0.001)
    told = []

    def pause():
        try:
            engine.pause("drain")
        except ValueError as error:
            told.append(str(error))

    waiter = threading.Thread(target=pause)
    waiter.start()
    time.sleep(0.05)
    engine.close()
    waiter.join()
    worker.join()
    assert told and "clos" in told[0]
    assert engine.state == "closed"
    assert deepinfer.__version__
