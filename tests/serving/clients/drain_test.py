"""SIGTERM while answers are under way (`deepinfer serve --drain-seconds`)."""

import signal
import time

import openai
import pytest

QUESTION = dict(
    model="DeepSeek-V4.1-Flash",
    messages=[{"role": "user", "content": "Tell me a story."}],
    stream=True,
    extra_body={"ignore_eos": True, "thinking": {"type": "disabled"}},
)


def begin(server, tokens):
    stream = iter(server.openai.chat.completions.create(**QUESTION, max_tokens=tokens))
    next(stream)
    return stream


def test_answers_are_finished(start_server):
    server = start_server("--drain-seconds", "120")
    stream = begin(server, 2000)  # still under way when the next request comes
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    with pytest.raises(openai.InternalServerError) as refused:
        server.openai.chat.completions.create(**QUESTION)
    assert refused.value.status_code == 503 and refused.value.response.headers["retry-after"]
    assert list(stream)[-1].choices[0].finish_reason == "length"
    assert server.process.wait(60) == 0


def test_answers_that_take_too_long_end_with_an_error(start_server):
    server = start_server("--drain-seconds", "0")
    stream = begin(server, 3000)
    server.process.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError, match="shutting down"):
        list(stream)
    assert server.process.wait(60) == 6


def test_a_second_signal_ends_at_once(start_server):
    server = start_server("--drain-seconds", "600")
    begin(server, 3000)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert server.end(signal.SIGTERM, timeout=10) == 128 + signal.SIGTERM
