"""LiteLLM against `deepinfer serve`: as an OpenAI-compatible server and as Anthropic's."""

import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched
litellm = pytest.importorskip("litellm")

MODEL = "DeepSeek-V4.1-Flash"
HELLO = [{"role": "user", "content": "Hello! Who are you?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris"]}}, "required": ["city"]},
    },
}


@pytest.fixture
def ask(server):
    def ask(**fields):
        settings = dict(model="openai/" + MODEL, api_base=server.url + "/v1", api_key="none", messages=HELLO, max_tokens=24)
        settings |= dict(temperature=0, num_retries=0, extra_body={"thinking": {"type": "disabled"}})
        return litellm.completion(**{**settings, **fields})

    return ask


def test_a_stream_says_what_an_object_says(ask):
    whole = ask()
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens > 0
    assert "".join(chunk.choices[0].delta.content or "" for chunk in ask(stream=True)) == text


def test_reasoning(ask):
    answer = ask(max_tokens=200, extra_body={"thinking": {"type": "enabled"}})
    assert answer.choices[0].message.reasoning_content


def test_tools(ask):
    answer = ask(max_tokens=200, tools=[TOOL], tool_choice="required")
    assert answer.choices[0].message.tool_calls[0].function.name == "get_weather"


def test_messages(server):
    answer = litellm.completion(
        model="anthropic/" + MODEL, api_base=server.url, api_key="none", messages=HELLO, max_tokens=24, num_retries=0,
        thinking={"type": "disabled"}, allowed_openai_params=["thinking"],
    )
    assert answer.choices[0].message.content


def test_refusal(ask):
    with pytest.raises(litellm.BadRequestError, match="nope"):
        ask(model="openai/nope")
