"""One server with the demonstration model for all tests here, and the clients that people use."""

import os
import re
import subprocess

import pytest

pydantic = pytest.importorskip("pydantic")
anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

MODEL = "DeepSeek-V4.1-Flash"
# What the answers have beyond the clients' types.
EXTRA_KEYS = {
    "reasoning_content",
    "prompt_cache_hit_tokens",
    "prompt_cache_miss_tokens",
    "accepted_prediction_tokens",  # in the usage of Messages and Responses
    "rejected_prediction_tokens",
    "index",  # of a call in a whole message, as the official API has it
    "service_tier",  # of the usage of a stream of Messages, as the official API has it
    # What a response says of itself.
    "content_filters",
    "frequency_penalty",
    "presence_penalty",
    "store",
}
# What the clients' types demand since their last versions, and the official API does not have.
ABSENT_KEYS = {"cache_write_tokens"}


class Server:
    """`deepinfer serve` on a free port of this machine."""

    def __init__(self, *options):
        options = list(options) + ([] if "--cache-memory" in options else ["--cache-memory", "0.25"])
        self.process = subprocess.Popen(
            [os.environ["DEEPINFER_PROGRAM"], "serve", "--port", "0", "--max-context", "4096"] + options,
            stderr=subprocess.PIPE,
            text=True,
        )
        greeting, match = "", None
        while match is None:  # behind the options that were given
            line = self.process.stderr.readline()
            assert line, greeting
            greeting += line
            match = re.search(r" on (http://[^ ]+)", line)
        self.url = match.group(1)
        self.openai = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120)
        self.anthropic = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0, timeout=120)

    def end(self, signal_number, timeout=60):
        """The exit code after a signal."""
        self.process.send_signal(signal_number)
        return self.process.wait(timeout)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def start_server():
    started = []

    def start(*options):
        started.append(Server(*options))
        return started[-1]

    yield start
    for running in started:
        running.close()


def _check(value, path):
    if isinstance(value, list):
        for index, element in enumerate(value):
            _check(element, f"{path}[{index}]")
    elif hasattr(value, "model_fields_set"):
        extra = set(value.model_extra or ()) - EXTRA_KEYS
        assert not extra, f"{path} has keys that the client does not know: {extra}"
        for name in type(value).model_fields:
            _check(getattr(value, name), f"{path}.{name}")


@pytest.fixture
def checked():
    """Passes an object of a client on, once every key in it is one of the client's own or of EXTRA_KEYS."""

    def check(value):
        # Where the client has parsed the text of an answer too, its type is not known to pydantic.
        plain = next(c for c in type(value).__mro__ if not c.__name__.startswith("Parsed"))
        try:
            plain.model_validate(value.model_dump(by_alias=True, warnings=False))
        except pydantic.ValidationError as error:
            faults = [fault for fault in error.errors() if fault["loc"][-1] not in ABSENT_KEYS]
            assert not faults, faults
        _check(value, type(value).__name__)
        return value

    return check
