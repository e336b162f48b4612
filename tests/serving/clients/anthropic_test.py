"""The package `anthropic` against `deepinfer serve`."""

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
        assert stream.get_final_message().stop_reason == whole.stop_reason


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


def test_count(server):
    counted = server.anthropic.messages.count_tokens(model=MODEL, messages=QUESTION["messages"])
    assert 0 < counted.input_tokens < 100


def test_refusal(server):
    with pytest.raises(anthropic.BadRequestError) as refused:
        server.anthropic.messages.create(**{**QUESTION, "model": "nope"})
    body = refused.value.body
    assert body["type"] == "error" and "nope" in body["error"]["message"] and body["request_id"]
