"""Files and batches of the package `openai` against `deepinfer serve`."""

import io
import json
import time

import openai
import pytest

MODEL = "DeepSeek-V4.1-Flash"


def line(custom_id, text="What is 3 + 4?", url="/v1/chat/completions", **fields):
    body = dict(model=MODEL, max_tokens=16, temperature=0, thinking={"type": "disabled"})
    body |= {"messages": [{"role": "user", "content": text}]} | fields
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}) + "\n"


def upload(client, text):
    return client.files.create(file=("requests.jsonl", io.BytesIO(text.encode())), purpose="batch")


def begin(client, file):
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"of": "a test"}
    )


def wait(client, batch, *ends):
    for _ in range(1200):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ends:
            return batch
        time.sleep(0.1)
    raise AssertionError(batch)


def results(client, file):
    return [json.loads(one) for one in client.files.content(file).text.splitlines()]


def test_from_upload_to_answers(server, checked):
    client = server.openai
    file = checked(upload(client, line("a") + line("bad", model="nope") + line("b", "What is 12 + 30?")))
    assert (file.filename, file.purpose, file.status) == ("requests.jsonl", "batch", "processed")
    batch = checked(begin(client, file))
    assert batch.input_file_id == file.id and batch.metadata == {"of": "a test"}
    batch = checked(wait(client, batch, "completed", "failed"))
    counts = batch.request_counts
    assert (batch.status, counts.total, counts.completed, counts.failed) == ("completed", 3, 2, 1)
    answers = results(client, batch.output_file_id)
    assert [one["custom_id"] for one in answers] == ["a", "b"]
    alone = client.chat.completions.create(
        model=MODEL,
        max_tokens=16,
        temperature=0,
        messages=[{"role": "user", "content": "What is 3 + 4?"}],
        extra_body={"thinking": {"type": "disabled"}},
    )
    content = openai.types.chat.ChatCompletion.model_validate(answers[0]["response"]["body"]).choices[0].message.content
    assert content == alone.choices[0].message.content
    assert results(client, batch.error_file_id)[0]["response"]["status_code"] == 400
    assert batch.id in [one.id for one in client.batches.list(limit=1)]
    assert {file.id, batch.output_file_id} <= {one.id for one in client.files.list()}
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(file.id)


def test_faults_in_the_input(server, checked):
    batch = checked(wait(server.openai, begin(server.openai, upload(server.openai, line("a") + "{")), "failed"))
    assert batch.errors.data[0].code == "invalid_json" and batch.errors.data[0].line == 2


def test_cancel(server, checked):
    text = line("a") + "".join(line(f"long {i}", max_tokens=3000, ignore_eos=True) for i in range(40))
    file = upload(server.openai, text)
    batch = begin(server.openai, file)
    wait(server.openai, batch, "in_progress")
    with pytest.raises(openai.BadRequestError):
        server.openai.files.delete(file.id)
    assert checked(server.openai.batches.cancel(batch.id)).status in ("cancelling", "cancelled")
    wait(server.openai, batch, "cancelled")


def test_interactive_requests_come_first(server):
    batch = begin(
        server.openai,
        upload(server.openai, "".join(line(f"{i}", max_tokens=3000, ignore_eos=True) for i in range(200))),
    )
    wait(server.openai, batch, "in_progress")
    answer = server.openai.with_options(timeout=60).chat.completions.create(
        model=MODEL, max_tokens=4, messages=[{"role": "user", "content": "Hello!"}]
    )
    assert answer.choices[0].finish_reason
    assert server.openai.batches.retrieve(batch.id).status == "in_progress"
    server.openai.batches.cancel(batch.id)
    wait(server.openai, batch, "cancelled")


def test_a_killed_server_loses_nothing_and_repeats_nothing(start_server, tmp_path):
    lines = 60
    text = "".join(line(f"{i}", f"What is {i} + 1?", seed=i, temperature=1, max_tokens=40) for i in range(lines))
    server = start_server("--files-dir", str(tmp_path / "files"))
    batch = begin(server.openai, upload(server.openai, text))
    kills = 0
    for wanted in (5, 20, 40):
        while (counts := server.openai.batches.retrieve(batch.id).request_counts).completed < wanted:
            time.sleep(0.01)
        if counts.completed < lines:
            kills += 1
            server.process.kill()
            server.process.wait()
            server = start_server("--files-dir", str(tmp_path / "files"))
    batch = wait(server.openai, batch, "completed")
    assert kills > 0
    assert (batch.request_counts.completed, batch.request_counts.failed) == (lines, 0)
    answers = results(server.openai, batch.output_file_id)
    assert [one["custom_id"] for one in answers] == [f"{i}" for i in range(lines)]
    # The answers are those of a batch that nobody interrupted.
    again = wait(server.openai, begin(server.openai, upload(server.openai, text)), "completed")
    said = lambda one: one["response"]["body"]["choices"][0]["message"]["content"]
    assert [said(one) for one in results(server.openai, again.output_file_id)] == [said(one) for one in answers]
