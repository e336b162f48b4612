"""AsyncLLM: pieces as they come, many at once, cancelled with their iterator."""

import asyncio

import pytest

import deepinfer
from conftest import MODEL, SMALL, settled_stats
from deepinfer import AsyncLLM, SamplingParams


@pytest.fixture(scope="module")
def engine():
    llm = AsyncLLM(MODEL, max_model_len=1024, **SMALL)
    yield llm
    llm.close()


async def collect(iterator):
    return [delta async for delta in iterator]


def test_pieces_join_to_the_answer(engine, llm):
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True, prompt_logprobs=True)
    deltas = asyncio.run(collect(engine.generate("The capital of France is", params)))
    whole, = llm.generate("The capital of France is", params)
    assert len(deltas) > 1
    assert [d.finish_reason for d in deltas] == [""] * (len(deltas) - 1) + ["length"]
    outputs = [o for d in deltas for o in d.outputs]
    assert [o.token_id for o in outputs] == [o.token_id for o in whole]
    assert [o.token_logprobs for o in outputs] == [o.token_logprobs for o in whole]
    assert outputs[0].prompt_logprobs == whole[0].prompt_logprobs
    assert "".join(d.text for d in deltas) == llm.get_tokenizer().decode([o.token_id for o in whole])
    assert [o.num_output_tokens for o in outputs] == list(range(1, 41))


def test_many_at_once(engine, llm):
    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
    prompts = [f"Number {i} is" for i in range(20)]

    async def run():
        return await asyncio.gather(*(collect(engine.generate(prompt, params)) for prompt in prompts))

    together = [[t for d in deltas for t in d.token_ids] for deltas in asyncio.run(run())]
    assert together == [[o.token_id for o in answer] for answer in llm.generate(prompts, params)]


def test_several_answers(engine, llm):
    params = SamplingParams(n=3, max_tokens=20, ignore_eos=True, seq_seed=5)
    long_prompt = "All work and no play makes Jack a dull boy. " * 40
    for prompt in ("Once upon a time", long_prompt):
        deltas = asyncio.run(collect(engine.generate(prompt, params)))
        whole, = llm.generate(prompt, params)
        for index in range(3):
            own = [d for d in deltas if d.index == index]
            assert [d.finished for d in own] == [False] * (len(own) - 1) + [True]
            assert [t for d in own for t in d.token_ids] == [o.token_id for o in whole[index]]
        assert len({d.request_id for d in deltas}) == 3
    failed = asyncio.run(collect(engine.generate(prompt_token_ids=[], sampling_params=params)))
    assert [(d.index, d.finish_reason) for d in failed] == [(i, "invalid_request") for i in range(3)]

    async def first_pieces():
        iterator = engine.generate("Once upon a time", SamplingParams(n=4, max_tokens=900, ignore_eos=True))
        async for _ in iterator:
            break
        await iterator.aclose()

    asyncio.run(first_pieces())
    settled_stats(engine)


def test_closing_the_iterator_cancels(engine):
    params = SamplingParams(max_tokens=1000, ignore_eos=True)

    async def run():
        iterator = engine.generate("Once upon a time", params)
        async for delta in iterator:
            break
        await iterator.aclose()
        task = asyncio.create_task(collect(engine.generate("Once upon a time", params)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert settled_stats(engine)["answer_tokens"] < 2000


def test_failures_are_the_last_piece(engine):
    async def run():
        return (await collect(engine.generate(prompt_token_ids=[])),
                await collect(engine.generate(prompt_token_ids=[0] * 2000)),
                await collect(engine.generate("a", SamplingParams(stop_token_ids=[10**6]))))

    for deltas, reason in zip(asyncio.run(run()), ("invalid_request", "prompt_length_exceeded", "invalid_request")):
        assert len(deltas) == 1 and deltas[0].finished
        assert deltas[0].finish_reason == reason and "allowed" in deltas[0].error


def test_engine_that_is_closed_while_it_answers():
    async def run():
        async with await AsyncLLM.open(MODEL, max_model_len=1024, **SMALL) as engine:
            iterator = engine.generate("Once", SamplingParams(max_tokens=1000, ignore_eos=True))
            first = await anext(iterator)
            await asyncio.to_thread(engine.close)
            rest = await collect(iterator)
            assert first.finish_reason == "" and rest[-1].finish_reason in ("abort", "length")
            with pytest.raises(ValueError, match="closed"):
                await collect(engine.generate("a"))

    asyncio.run(run())


def test_a_loop_that_ends_before_the_answer(engine):
    async def run():
        iterator = engine.generate("Once", SamplingParams(max_tokens=200, ignore_eos=True))
        await anext(iterator)
        return iterator  # neither read nor closed

    asyncio.run(run())
    assert asyncio.run(collect(engine.generate("a", SamplingParams(max_tokens=1))))[-1].finished


def test_wrong_calls(engine):
    with pytest.raises(TypeError, match="decode_sequence"):
        AsyncLLM(MODEL, decode_sequence=False)
    with pytest.raises(ValueError, match="prompt"):
        asyncio.run(collect(engine.generate()))
    assert deepinfer.__version__
