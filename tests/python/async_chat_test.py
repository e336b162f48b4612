"""AsyncLLM.chat: the pieces of LLM.chat's answer."""

import asyncio
import json

import pytest

from conftest import MODEL, SMALL, settled_stats
from deepinfer import AsyncLLM, ChatDelta, SamplingParams
from deepinfer.encoding import RequestRefused

WEATHER = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
    "type": "object", "properties": {"unit": {"type": "string", "enum": ["C", "F"]}}, "required": ["unit"],
    "additionalProperties": False}}}
QUESTION = [{"role": "user", "content": "How warm is it?"}]


@pytest.fixture(scope="module")
def engine():
    llm = AsyncLLM(MODEL, max_model_len=1024, **SMALL)
    yield llm
    llm.close()


async def collect(iterator):
    return [delta async for delta in iterator]


def message_of(deltas):
    """What a client of Chat Completions makes of the pieces."""
    message = {"role": "assistant", "content": None}
    calls = []
    for delta in deltas:
        for name in ("content", "reasoning_content"):
            if name in delta.message:
                message[name] = (message.get(name) or "") + delta.message[name]
        for piece in delta.message.get("tool_calls", ()):
            if piece["index"] == len(calls):
                calls.append({"name": "", "arguments": ""})
            for name, text in piece["function"].items():
                calls[piece["index"]][name] += text
    if calls:
        message["tool_calls"] = [{"id": f"call_{i:02d}", "type": "function", "function": call}
                                 for i, call in enumerate(calls)]
    elif message["content"] is None:
        message["content"] = ""
    return message


REQUESTS = [
    dict(messages=[{"role": "user", "content": "Who are you?"}], reasoning_effort="none"),
    dict(messages=[{"role": "user", "content": "What is 3 + 4?"}]),
    dict(messages=QUESTION, tools=[WEATHER], tool_choice="required", reasoning_effort="none"),
    dict(messages=QUESTION, tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "weather"}}),
    dict(messages=QUESTION, tools=[WEATHER]),
    dict(messages=[{"role": "user", "content": "A number as json"}], reasoning_effort="none", response_format={
        "type": "json_schema", "json_schema": {"name": "n", "schema": {
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}),
    dict(messages=[{"role": "user", "content": "Count"}], reasoning_effort="none", stop=["e"]),
]


@pytest.mark.parametrize("request_fields", REQUESTS, ids=range(len(REQUESTS)))
def test_pieces_join_to_the_answer(engine, llm, request_fields):
    for temperature in (0, 1.5):
        params = SamplingParams(temperature=temperature, seq_seed=3, max_tokens=300)
        deltas = asyncio.run(collect(engine.chat(sampling_params=params, **request_fields)))
        whole = llm.chat(sampling_params=params, **request_fields)
        assert all(isinstance(delta, ChatDelta) for delta in deltas)
        assert [d.finished for d in deltas] == [False] * (len(deltas) - 1) + [True]
        assert [d.output for d in deltas[:-1]] == [None] * (len(deltas) - 1)
        output = deltas[-1].output
        assert message_of(deltas) == output.message == whole.message
        assert deltas[-1].finish_reason == output.finish_reason == whole.finish_reason
        assert (output.token_ids, output.logprobs, output.text) == (whole.token_ids, whole.logprobs, whole.text)
        assert [t for d in deltas for t in d.token_ids] == whole.token_ids
        assert "".join(d.text for d in deltas) == whole.text


def test_calls_and_content_are_held_to_their_schemas(engine):
    async def run():
        return await asyncio.gather(*(collect(engine.chat(
            QUESTION, SamplingParams(temperature=3.0, seq_seed=seed, max_tokens=300), tools=[WEATHER],
            tool_choice="required", reasoning_effort="none")) for seed in range(6)))

    ended = 0
    for deltas in asyncio.run(run()):
        if deltas[-1].finish_reason != "tool_calls":
            continue  # cut off in a long row of calls
        ended += 1
        for call in deltas[-1].output.message["tool_calls"]:
            assert call["function"]["name"] == "weather"
            assert json.loads(call["function"]["arguments"])["unit"] in ("C", "F")
    assert ended > 0


def test_failures_are_the_last_piece(engine):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    unknown = {"type": "function", "function": {"name": "f", "strict": False, "parameters": {"type": "object"}}}

    async def run():
        return (await collect(engine.chat([{"role": "user", "content": [image]}])),
                await collect(engine.chat([{"role": "user", "content": "long " * 2000}])),
                await collect(engine.chat(QUESTION, SamplingParams(max_tokens=4), tools=[unknown],
                                          response_format={"type": "regex", "regex": "(?=a)"})))

    reasons = ("ve_error", "prompt_length_exceeded", "xgrammar runtime errors or timeout")
    for deltas, reason in zip(asyncio.run(run()), reasons):
        assert [d.finish_reason for d in deltas] == [reason]
        assert deltas[0].error and deltas[0].output is None


def test_wrong_calls(engine):
    def call(*arguments, **fields):
        return asyncio.run(collect(engine.chat(*arguments, **fields)))

    with pytest.raises(RequestRefused):
        call([{"role": "nobody", "content": "Hi"}])
    with pytest.raises(TypeError, match="one conversation"):
        call([QUESTION])
    with pytest.raises(TypeError, match="use_tqdm"):
        call(QUESTION, use_tqdm=False)
    with pytest.raises(TypeError, match="SamplingParams"):
        call(QUESTION, {"max_tokens": 3})
    with pytest.raises(ValueError, match="n is 2"):
        call(QUESTION, SamplingParams(n=2))
    with pytest.raises(ValueError, match="so_args"):
        call(QUESTION, SamplingParams(so_args={"schema_type": "regex", "schema": "a"}), tools=[WEATHER],
             tool_choice="required", reasoning_effort="none")


def test_closing_the_iterator_cancels(engine):
    async def run():
        iterator = engine.chat(QUESTION, SamplingParams(max_tokens=900, ignore_eos=True))
        await anext(iterator)
        await iterator.aclose()

    asyncio.run(run())
    settled_stats(engine)
