"""deepinfer.encoding against the goldens of tests/data/encoding: prompts to the byte, errors, events and messages."""

import base64
import json
import pathlib

import pytest

from conftest import MODEL, ROOT
from deepinfer import Tokenizer, encoding
from deepinfer.encoding import EventStream, MessageParser, OutputParser, RequestRefused, RequestRules, encode_request

DATA = pathlib.Path(ROOT) / "tests" / "data" / "encoding"
COUNTS = {"chat_completions": 445, "responses": 152, "messages": 150}
PROTOCOL = {"chat": "chat_completions", "responses": "responses", "messages": "messages"}


def rows(name):
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def tiny():
    return Tokenizer.from_file(MODEL)


def rules_of(row):
    options = row.get("options", {})
    fields = {}
    for key, value in options.items():
        if key == "default_thinking_mode":
            fields["default_thinking"] = value
        elif key == "reasoning_content_behavior":
            fields["reject_missing_reasoning"] = value == "Reject"
        else:
            fields[key] = value.lower()
    return RequestRules(**fields)


def body_of(row):
    if "raw_base64" in row:
        return base64.b64decode(row["raw_base64"])
    return row.get("raw", row.get("request"))


@pytest.mark.parametrize("protocol", COUNTS)
def test_requests(protocol, tiny):
    checked = 0
    for row in rows(protocol):
        name = row["name"]
        try:
            request = encode_request(protocol, body_of(row), tiny, rules_of(row))
        except RequestRefused as refused:
            assert "error" in row, (name, refused.message)
            assert (refused.status, refused.kind) == (row["error"]["status"], row["error"]["kind"]), name
            assert refused.body["error"]["message"] == refused.message
        else:
            assert "error" not in row, name
            assert request.prompt == row["prompt"], name
            assert [list(r) for r in request.special] == row["special"], name
            assert request.token_ids == row["tiny_ids"], name
            assert request.params["start"] == row["params"]["start"], name
            assert request.params["thinking"] == row["params"]["thinking"], name
            assert request.params.get("constraint") == row["params"].get("constraint"), name
            assert [{k: image[k] for k in ("kind", "detail", "path")} for image in request.images] \
                == row.get("images", []), name
        checked += 1
    assert checked == COUNTS[protocol]


def without_random(text, ids):
    for call in ids:
        text = text.replace(call, call[:-24] + "@")
    return text


def run_stream(row, tiny):
    request = encode_request(PROTOCOL[row["protocol"]], row["request"], tiny)
    stream = EventStream(request, tiny, id="ID", model="MODEL", fingerprint="fp", random=42)
    events = stream.open(row["prompt_usage"]["prompt_tokens"], row["prompt_usage"]["cache_hit_tokens"])
    for step in row.get("model_output_ids", row.get("model_output_chunks")):
        if not stream.running:
            break
        if "model_output_ids" in row:
            events += stream.push_tokens([(token, -0.25 * (1 + i % 3), [(token, -0.25 * (1 + i % 3)), (7, -3.5)])
                                          for i, token in enumerate(step)])
        else:
            events += stream.push_text(step, 1)
    finish = row["finish"] if row["finish"] in ("length", "content_filter") else "stop"
    events += stream.finish(finish)
    return request, stream, events


def test_streams(tiny):
    """The final objects; that the events join to them is the C++ test's subject, here it is that they come through."""
    checked = 0
    for row in rows("stream_decode"):
        if "note" in row:
            continue
        request, stream, events = run_stream(row, tiny)
        mine = json.loads(without_random(json.dumps(stream.object(), ensure_ascii=False), stream.call_ids))
        assert mine == row["response"], row["name"]
        assert events[0][1] and len(events) >= 2
        if row["protocol"] == "chat":
            assert events[-1][1] == "[DONE]"
        checked += 1
    assert checked > 150


def test_messages(tiny):
    """The parsed message equals the one in the final object of Chat Completions, whatever the pieces."""
    checked = 0
    for row in rows("stream_decode"):
        if row["protocol"] != "chat" or "note" in row or "model_output_chunks" not in row:
            continue
        request, stream, _ = run_stream(row, tiny)
        expected = stream.object()["choices"][0]["message"]
        for pieces in (row["model_output_chunks"], list("".join(row["model_output_chunks"]))):
            parser = MessageParser.of(request)
            deltas = []
            for piece in pieces:
                if parser.running:
                    deltas.append(parser.push(piece))
            message = parser.finish()
            got, wanted = message["content"] or "", expected["content"] or ""
            if request.params["json_output"]:  # the number of spaces in place of dropped prose follows the pieces
                got, wanted = got.strip(" "), wanted.strip(" ")
            assert got == wanted, row["name"]
            assert message.get("reasoning_content", "") == (expected.get("reasoning_content") or ""), row["name"]
            calls = [call["function"] for call in message.get("tool_calls", [])]
            assert calls == [call["function"] for call in expected.get("tool_calls") or []], row["name"]
        checked += 1
    assert checked > 30


def test_wrong_arguments(tiny):
    with pytest.raises(ValueError, match="protocol is 'grpc'"):
        encode_request("grpc", "{}")
    with pytest.raises(ValueError, match="start is 'x'"):
        OutputParser("x")
    with pytest.raises(ValueError, match="profile"):
        encode_request("messages", "{}", rules=RequestRules(profile="x"))
    with pytest.raises(RequestRefused, match="JSON"):
        encode_request("messages", "{")
    request = encode_request("chat_completions", {"model": "DeepSeek-V4.1-Flash", "messages": []} | {
        "messages": [{"role": "user", "content": "Hi"}]})
    assert request.token_ids == []
    with pytest.raises(ValueError, match="reason is 'x'"):
        EventStream(request, tiny, id="i", model="m").finish("x")


def test_chat(llm):
    from deepinfer import SamplingParams
    answer = llm.chat([{"role": "user", "content": "Who are you?"}], SamplingParams(temperature=0, max_tokens=60),
                      reasoning_effort="none")
    assert answer.message["role"] == "assistant" and answer.content
    assert answer.finish_reason in ("stop", "length") and len(answer.logprobs) == len(answer.token_ids)
    both = llm.chat([[{"role": "user", "content": "Who are you?"}], [{"role": "user", "content": "What is 3 + 4?"}]],
                    SamplingParams(temperature=0, max_tokens=60), reasoning_effort="none")
    assert both[0].message == answer.message and len(both) == 2
    thinking = llm.chat([{"role": "user", "content": "What is 3 + 4?"}], SamplingParams(temperature=0, max_tokens=200),
                        thinking={"type": "enabled"})
    assert thinking.message.get("reasoning_content") or thinking.finish_reason == "length"
    own = llm.chat([{"role": "user", "content": "Say json"}], temperature=0, max_tokens=50, reasoning_effort="none",
                   response_format={"type": "json_object"})
    assert own.finish_reason in ("stop", "length")
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {
        "type": "object", "properties": {"n": {"enum": [3, 5]}}, "required": ["n"]}}}
    for thinking in ("enabled", "disabled"):
        held = llm.chat([{"role": "user", "content": "A number as json"}], SamplingParams(seq_seed=1, max_tokens=400),
                        response_format=form, thinking={"type": thinking})
        if held.finish_reason == "stop":
            assert json.loads(held.content)["n"] in (3, 5)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert llm.chat([{"role": "user", "content": [image]}]).finish_reason == "ve_error"
    with pytest.raises(encoding.RequestRefused, match="nobody"):
        llm.chat([{"role": "nobody", "content": "Hi"}])


def tool(name, properties, strict, **more):
    return {"type": "function", "function": {"name": name, "strict": strict, "parameters": {
        "type": "object", "properties": properties, **more}}}


STRICT = [
    tool("weather", {"unit": {"type": "string", "enum": ["C", "F"]}, "days": {"type": "integer", "minimum": 1, "maximum": 3}}, True,
         required=["unit", "days"], additionalProperties=False),
    tool("light", {"on": {"type": "boolean"}, "place": {"type": "object", "properties": {"room": {"type": "string",
        "enum": ["hall", "｜"]}}, "required": ["room"], "additionalProperties": False}}, True,
         required=["on", "place"], additionalProperties=False),
]
LOOSE = [tool("weather", {"unit": {"type": "string", "enum": ["C", "F"]}, "days": {"type": "integer"}}, False), tool("now", {}, None)]


def check_call(call, strict):
    assert call["type"] == "function"
    arguments = json.loads(call["function"]["arguments"])
    name = call["function"]["name"]
    assert isinstance(arguments, dict)
    if not strict:
        assert name in ("weather", "now") and (name == "now" or set(arguments) <= {"unit", "days"})
    elif name == "weather":
        assert set(arguments) == {"unit", "days"} and arguments["unit"] in ("C", "F") and arguments["days"] in (1, 2, 3)
    else:
        assert name == "light" and set(arguments) == {"on", "place"} and isinstance(arguments["on"], bool)
        assert arguments["place"]["room"] in ("hall", "｜")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("thinking", ["disabled", "enabled"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}, "auto"])
def test_every_call_is_one(llm, choice, thinking, strict):
    """The demonstration model knows no tools: without a grammar almost nothing it writes would be a call."""
    from deepinfer import SamplingParams
    ended = called = 0
    conversations = [[{"role": "user", "content": f"Question {i}: how warm is it?"}] for i in range(2)]
    wishes = [SamplingParams(seq_seed=i, max_tokens=160, temperature=1.0 if i else 0.0) for i in range(2)]
    answers = llm.chat(conversations, wishes, tools=STRICT if strict else LOOSE, tool_choice=choice,
                       thinking={"type": thinking})
    for answer in answers:
        assert answer.finish_reason in ("stop", "length", "tool_calls"), answer
        if answer.finish_reason == "length":
            continue
        ended += 1
        calls = answer.message.get("tool_calls", [])
        called += len(calls)
        for call in calls:
            check_call(call, strict)
            if isinstance(choice, dict):
                assert call["function"]["name"] == "weather"
        assert calls or choice == "auto"
        assert bool(calls) == (answer.finish_reason == "tool_calls")
        assert choice == "auto" or answer.content == ""
    if choice != "auto" and thinking == "disabled" and strict:
        assert ended == 2 and called >= 2


def test_calls_beside_a_response_format(llm):
    from deepinfer import SamplingParams
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {
        "type": "object", "properties": {"n": {"enum": [3, 5]}}, "required": ["n"]}}}
    for seed in range(2):
        answer = llm.chat([{"role": "user", "content": "A number as json"}], SamplingParams(seq_seed=seed, max_tokens=100),
                          tools=LOOSE, response_format=form, reasoning_effort="none")
        if answer.finish_reason == "stop":
            assert json.loads(answer.content)["n"] in (3, 5)
        elif answer.finish_reason == "tool_calls":
            for call in answer.message["tool_calls"]:
                check_call(call, False)


def test_wrong_tools_are_named(llm):
    from deepinfer import SamplingParams
    question = [{"role": "user", "content": "Hi"}]
    with pytest.raises(RequestRefused, match="no function named 'nowhere'"):
        llm.chat(question, tools=LOOSE, tool_choice={"type": "function", "function": {"name": "nowhere"}})
    with pytest.raises(RequestRefused, match="function 'weather'"):
        llm.chat(question, tools=[{"type": "function", "function": {"name": "weather", "parameters": {"type": 3}}}])
    with pytest.raises(RequestRefused, match="strict tool with non-strict"):
        llm.chat(question, tools=[STRICT[0], LOOSE[1]])
    unknown = tool("f", {"a": {"type": "string", "format": "unheard-of"}}, True, required=["a"])
    failed = llm.chat(question, SamplingParams(max_tokens=4), tools=[unknown], reasoning_effort="none")
    assert failed.finish_reason == "xgrammar runtime errors or timeout"
    assert "tool f: /properties/a: the format unheard-of" in failed.error
    with pytest.raises(ValueError, match="so_args is given beside"):
        llm.chat(question, SamplingParams(so_args={"schema_type": "regex", "schema": "a"}), tools=LOOSE,
                 tool_choice="required", reasoning_effort="none")
