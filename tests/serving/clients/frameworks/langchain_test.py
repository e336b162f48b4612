"""LangChain's chat models against `deepinfer serve`."""

from typing import Literal

import pydantic
import pytest

langchain_anthropic = pytest.importorskip("langchain_anthropic")
langchain_openai = pytest.importorskip("langchain_openai")

MODEL = "DeepSeek-V4.1-Flash"


class Person(pydantic.BaseModel):
    """A person."""

    age: int
    name: Literal["Ann", "Bob"]


@pytest.fixture
def chat(server):
    return langchain_openai.ChatOpenAI(
        model=MODEL, base_url=server.url + "/v1", api_key="none", temperature=0, max_tokens=60, max_retries=0,
        extra_body={"thinking": {"type": "disabled"}},
    )


def test_a_stream_says_what_an_object_says(chat):
    whole = chat.invoke("Hello! Who are you?")
    assert whole.content and whole.usage_metadata["output_tokens"] > 0
    assert "".join(chunk.content for chunk in chat.stream("Hello! Who are you?")) == whole.content


def test_tools(chat):
    called = chat.bind_tools([Person], tool_choice="required", strict=True).invoke("Who is Ann?")
    assert called.tool_calls[0]["name"] == "Person" and called.tool_calls[0]["args"]["name"] in ("Ann", "Bob")


def test_structured_output(chat):
    assert isinstance(chat.with_structured_output(Person, method="json_schema").invoke("Who is Ann?"), Person)


def test_messages(server):
    chat = langchain_anthropic.ChatAnthropic(
        model=MODEL, base_url=server.url, api_key="none", max_tokens=60, max_retries=0, thinking={"type": "disabled"}
    )
    whole = chat.invoke("Hello! Who are you?")
    assert whole.content and whole.usage_metadata["output_tokens"] > 0
    assert "".join(chunk.text for chunk in chat.stream("Hello! Who are you?"))
