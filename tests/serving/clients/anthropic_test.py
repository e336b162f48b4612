"""The package `anthropic` against `deepinfer serve`."""

import json

import anthropic
import pytest

MODEL = "DeepSeek-V4.1-Flash"
QUESTION = dict(
    model=MODEL,
    max_tokens=24,
    extra_body={"temperature": 0},
    messages=[{"role": "user", "content": "Hello! Who are you?"}],
    thinking={"type": "disabled"},
)


def test_a_stream_says_what_an_object_says(server, checked):
    whole = checked(server.anthropic.messages.create(**QUESTION))
    assert whole.content[0].text and whole.usage.output_tokens > 0
    with server.anthropic.messages.stream(**QUESTION) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        assert checked(stream.get_final_message()).stop_reason == whole.stop_reason
    events = [checked(event) for event in server.anthropic.messages.create(**QUESTION, stream=True)]
    assert events[0].type == "message_start" and events[-1].type == "message_stop"


def test_thinking(server, checked):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    answer = checked(server.anthropic.messages.create(**{**QUESTION, "max_tokens": 2000, "thinking": thinking}))
    assert [block.type for block in answer.content] == ["thinking", "text"]


def test_tools(server, checked):
    tool = {
        "name": "get_weather",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    choice = {"type": "tool", "name": "get_weather"}
    answer = checked(server.anthropic.messages.create(**{**QUESTION, "max_tokens": 300}, tools=[tool], tool_choice=choice))
    assert answer.stop_reason == "tool_use"
    assert [(block.type, block.name) for block in answer.content] == [("tool_use", "get_weather")]
    assert isinstance(answer.content[0].input["city"], str)
    with server.anthropic.messages.stream(**{**QUESTION, "max_tokens": 300}, tools=[tool], tool_choice=choice) as stream:
        pieces = "".join(event.partial_json for event in stream if event.type == "input_json")
        assert json.loads(pieces) == stream.get_final_message().content[0].input == answer.content[0].input
    result = {"type": "tool_result", "tool_use_id": answer.content[0].id, "content": "Sunny, 25 degrees."}
    said = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}
    messages = QUESTION["messages"] + [said, {"role": "user", "content": [result]}]
    assert checked(server.anthropic.messages.create(**{**QUESTION, "messages": messages}, tools=[tool])).content


def test_count(server):
    counted = server.anthropic.messages.count_tokens(model=MODEL, messages=QUESTION["messages"])
    assert 0 < counted.input_tokens < 100


def test_refusal(server):
    with pytest.raises(anthropic.BadRequestError) as refused:
        server.anthropic.messages.create(**{**QUESTION, "model": "nope"})
    body = refused.value.body
    assert body["type"] == "error" and "nope" in body["error"]["message"] and body["request_id"]


def test_a_client_that_leaves_frees_its_place(server):
    with server.anthropic.messages.stream(**{**QUESTION, "max_tokens": 3000, "extra_body": {"ignore_eos": True}}) as stream:
        next(iter(stream))
    assert server.anthropic.messages.create(**QUESTION).stop_reason


def test_keys_and_retries(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("sk-two concurrency=1\n")
    guarded = start_server("--api-key-file", str(keys))
    with pytest.raises(anthropic.AuthenticationError) as refused:
        guarded.anthropic.messages.create(**QUESTION)
    assert refused.value.body["type"] == "error" and refused.value.body["error"]["type"] == "authentication_error"
    client = guarded.anthropic.with_options(api_key="sk-two")
    stream = client.messages.create(**{**QUESTION, "max_tokens": 3000, "extra_body": {"ignore_eos": True}}, stream=True)
    next(iter(stream))
    with pytest.raises(anthropic.RateLimitError):
        client.messages.create(**QUESTION)
    stream.close()
    assert client.with_options(max_retries=5).messages.create(**QUESTION).stop_reason
