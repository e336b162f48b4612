"""The package `openai` against `deepinfer serve`."""

import json
import time
from typing import Literal

import openai
import pydantic
import pytest

MODEL = "DeepSeek-V4.1-Flash"
HELLO = [{"role": "user", "content": "Hello! Who are you?"}]
NO_THINKING = {"thinking": {"type": "disabled"}}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def chat(server, **fields):
    settings = dict(model=MODEL, messages=HELLO, max_tokens=24, temperature=0, extra_body=NO_THINKING)
    return server.openai.chat.completions.create(**{**settings, **fields})


def test_models(server):
    assert MODEL in [model.id for model in server.openai.models.list()]
    assert server.openai.models.retrieve(MODEL).id == MODEL


def test_a_stream_says_what_an_object_says(server, checked):
    whole = checked(chat(server))
    chunks = [checked(chunk) for chunk in chat(server, stream=True)]
    assert whole.choices[0].message.content
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_reasoning(server, checked):
    answer = checked(chat(server, max_tokens=200, extra_body={"thinking": {"type": "enabled"}}))
    assert answer.choices[0].message.reasoning_content
    assert answer.usage.completion_tokens_details.reasoning_tokens > 0


def test_several_choices(server, checked):
    answer = checked(chat(server, n=3, seed=4, temperature=1, max_tokens=8))
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    again = chat(server, n=3, seed=4, temperature=1, max_tokens=8)
    assert [c.message.content for c in again.choices] == [c.message.content for c in answer.choices]


def test_log_probabilities(server, checked):
    answer = checked(chat(server, logprobs=True, top_logprobs=2, max_tokens=4))
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 4 and all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)


def test_tools(server, checked):
    question = [{"role": "user", "content": "What is the weather in Paris?"}]
    answer = checked(chat(server, messages=question, tools=[WEATHER], tool_choice="required", max_tokens=200))
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    result = {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 25 degrees."}
    said = {"role": "assistant", "tool_calls": [call.model_dump()]}
    after = checked(chat(server, messages=question + [said, result], tools=[WEATHER]))
    assert after.choices[0].message.content or after.choices[0].message.tool_calls


def test_streamed_tool_call(server, checked):
    question = [{"role": "user", "content": "What is the weather in Paris?"}]
    chunks = chat(server, messages=question, tools=[WEATHER], tool_choice="required", max_tokens=200, stream=True)
    calls = [call for chunk in chunks for call in checked(chunk).choices[0].delta.tool_calls or []]
    assert calls[0].function.name == "get_weather" and calls[0].id
    assert json.loads("".join(call.function.arguments or "" for call in calls))["city"] in ("Paris", "Rome")


def test_json_schema(server, checked):
    schema = {
        "type": "object",
        "properties": {"age": {"type": "integer"}, "name": {"type": "string", "enum": ["Ann", "Bob"]}},
        "required": ["age", "name"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}
    answer = checked(chat(server, response_format=form, max_tokens=200, logit_bias=None))
    if answer.choices[0].finish_reason == "stop":
        person = json.loads(answer.choices[0].message.content)
        assert isinstance(person["age"], int) and person["name"] in ("Ann", "Bob")


class Person(pydantic.BaseModel):
    age: int
    name: Literal["Ann", "Bob"]


def test_structured_parse(server, checked):
    settings = dict(model=MODEL, messages=HELLO, max_tokens=60, temperature=0, extra_body=NO_THINKING)
    answer = checked(server.openai.chat.completions.parse(**settings, response_format=Person))
    assert isinstance(answer.choices[0].message.parsed, Person)
    with server.openai.chat.completions.stream(**settings, response_format=Person) as stream:
        for event in stream:
            if event.type == "chunk":
                checked(event.chunk)
        assert stream.get_final_completion().choices[0].message.parsed == answer.choices[0].message.parsed


def test_parsed_tool_call(server, checked):
    settings = dict(model=MODEL, messages=HELLO, max_tokens=100, temperature=0, extra_body=NO_THINKING)
    tools = [openai.pydantic_function_tool(Person)]
    answer = checked(server.openai.chat.completions.parse(**settings, tools=tools, tool_choice="required"))
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Person)


RESPONSE = dict(model=MODEL, input="What is 3 + 4?", max_output_tokens=40, temperature=0, reasoning={"effort": "none"})


def test_responses(server, checked):
    whole = checked(server.openai.responses.create(**RESPONSE))
    assert whole.output_text == "3 + 4 = 7" and whole.status == "completed"
    with server.openai.responses.stream(**RESPONSE) as stream:
        numbers = [checked(event).sequence_number for event in stream]
        assert numbers == list(range(len(numbers)))
        assert stream.get_final_response().output_text == whole.output_text


def test_responses_with_reasoning_and_tools(server, checked):
    tool = {"type": "function", "name": "get_weather", **{k: WEATHER["function"][k] for k in ("strict", "parameters")}}
    question = {**RESPONSE, "input": "What is the weather in Paris?", "max_output_tokens": 300, "tools": [tool]}
    question |= {"reasoning": {"effort": "low"}, "tool_choice": "required"}
    events = [checked(event) for event in server.openai.responses.create(**question, stream=True)]
    assert events[-1].type in ("response.completed", "response.incomplete")
    whole = checked(server.openai.responses.create(**{**question, "reasoning": {"effort": "none"}}))
    call = next(item for item in whole.output if item.type == "function_call")
    assert json.loads(call.arguments)["city"] in ("Paris", "Rome")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny, 25 degrees."}
    items = [{"role": "user", "content": question["input"]}, call.model_dump(exclude_none=True), result]
    after = checked(server.openai.responses.create(**{**RESPONSE, "input": items, "tools": [tool]}))
    assert after.output


def test_structured_response(server, checked):
    answer = checked(server.openai.responses.parse(**{**RESPONSE, "max_output_tokens": 60}, text_format=Person))
    assert isinstance(answer.output_parsed, Person)


def test_completions(server, checked):
    whole = checked(server.openai.completions.create(model=MODEL, prompt="Once upon", max_tokens=5, echo=True, temperature=0))
    assert whole.choices[0].text.startswith("Once upon")
    pieces = server.openai.completions.create(model=MODEL, prompt="Once upon", max_tokens=5, temperature=0, stream=True)
    # Not checked: the client's type has no null for finish_reason, which OpenAI itself sends in pieces.
    assert "Once upon" + "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text


@pytest.mark.parametrize(
    "fields, part",
    [
        ({"model": "gpt"}, "gpt"),
        ({"messages": []}, "messages"),
        ({"temperature": 3}, "temperature"),
        ({"n": 1000000}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}]}, "image"),
    ],
)
def test_refusals(server, fields, part):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(server, **fields)
    assert part in refused.value.body["message"] and refused.value.body["type"] == "invalid_request_error"


def test_what_is_not_honoured_is_named(server):
    raw = server.openai.chat.completions.with_raw_response.create(
        model=MODEL, messages=HELLO, max_tokens=2, extra_body={**NO_THINKING, "user_mood": "calm"}
    )
    assert "user_mood" in raw.headers["deepinfer-ignored"]


def test_a_client_that_leaves_frees_its_place(server):
    stream = chat(server, stream=True, max_tokens=3000, extra_body={**NO_THINKING, "ignore_eos": True})
    next(iter(stream))
    stream.close()
    assert chat(server).choices[0].finish_reason


def test_an_answer_that_takes_too_long_for_the_client(server):
    impatient = server.openai.with_options(timeout=0.2)
    with pytest.raises(openai.APITimeoutError):
        impatient.chat.completions.create(
            model=MODEL, messages=HELLO, max_tokens=3000, extra_body={**NO_THINKING, "ignore_eos": True}
        )
    assert chat(server).choices[0].finish_reason


def test_keys_and_retries(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sk-one concurrency=1\n")
    guarded = start_server("--api-key-file", str(keys))
    with pytest.raises(openai.AuthenticationError):
        guarded.openai.models.list()
    client = guarded.openai.with_options(api_key="sk-one")
    settings = dict(model=MODEL, messages=HELLO, max_tokens=3000, extra_body={**NO_THINKING, "ignore_eos": True})
    stream = client.chat.completions.create(**settings, stream=True)
    next(iter(stream))
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**{**settings, "max_tokens": 1})
    assert refused.value.response.headers["retry-after"] and refused.value.body["type"] == "rate_limit_error"
    patient = client.with_options(max_retries=5)
    stream.close()  # the place is free a moment later, and a client that tries again gets it
    start = time.monotonic()
    assert patient.chat.completions.create(**{**settings, "max_tokens": 1}).usage.completion_tokens == 1
    assert time.monotonic() - start < 60


def test_paths_and_models_that_are_not_there(server):
    with pytest.raises(openai.NotFoundError):
        server.openai.models.retrieve("nope")
    with pytest.raises(openai.NotFoundError):
        server.openai.embeddings.create(model=MODEL, input="Hello")
    with pytest.raises(openai.BadRequestError, match="nope"):
        server.openai.responses.create(**{**RESPONSE, "model": "nope"})
