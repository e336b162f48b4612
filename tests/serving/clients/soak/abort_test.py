"""Ten thousand requests to `deepinfer serve`, half of whose clients leave at any point: the others get their answers, whole
and once, and the server is afterwards what it was."""

import asyncio
import json
import os
import random
import re
import socket
import struct
import time

import pytest

MODEL = "DeepSeek-V4.1-Flash"
REQUESTS = int(os.environ.get("DEEPINFER_SOAK_REQUESTS", "10000"))
AT_A_TIME = 24
PROMPTS = ["Hello! Who are you?", "What is 12 + 30?", "Name a colour.", "Once upon a time", "Repeat after me: blue 42"]


def body(kind, prompt, stream):
    fields = {"model": MODEL, "max_tokens": 6, "temperature": 0, "stream": stream}
    if kind == "completions":
        return "/v1/completions", {**fields, "prompt": prompt}
    fields |= {"messages": [{"role": "user", "content": prompt}], "thinking": {"type": "disabled"}}
    return ("/v1/messages" if kind == "messages" else "/v1/chat/completions"), fields


KINDS = [(kind, prompt, stream) for kind in ("chat", "completions", "messages") for prompt in PROMPTS for stream in (True, False)]


def message(kind, prompt, stream):
    path, fields = body(kind, prompt, stream)
    data = json.dumps(fields).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def answer_text(raw, stream):
    """The text of a whole answer; fails for anything else."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), raw[:600]
    if not stream:
        assert len(rest) == int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE).group(1))
        answer = json.loads(rest)
        if "choices" in answer:
            return answer["choices"][0].get("text") or answer["choices"][0]["message"]["content"]
        return "".join(block["text"] for block in answer["content"])
    data = b""
    while True:  # chunks
        size, _, rest = rest.partition(b"\r\n")
        data, rest = data + rest[: int(size, 16)], rest[int(size, 16) :]
        assert rest.startswith(b"\r\n")
        rest = rest[2:]
        if size == b"0":
            break
    assert rest == b"", "bytes behind the end of an answer"
    events = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    text, ends = "", 0
    for event in events:
        if event == "[DONE]":
            continue
        parsed = json.loads(event)
        assert "error" not in parsed, event
        for choice in parsed.get("choices", []):
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
            ends += choice["finish_reason"] is not None
        text += parsed.get("delta", {}).get("text") or ""
        ends += parsed.get("type") == "message_stop"
    assert ends == 1, f"an answer ended {ends} times"
    return text


async def read_all(reader):
    raw = b""
    while piece := await reader.read(1 << 16):
        raw += piece
    return raw


async def one_request(port, what, leaves):
    """The raw answer; None: left before it was whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        data = message(*what)
        if not leaves:
            writer.write(data)
            return await read_all(reader)
        writer.write(data[: random.choice([random.randrange(len(data)), len(data)])])
        await writer.drain()
        if random.random() < 0.7:
            try:
                await asyncio.wait_for(reader.read(random.choice([1, 300, 2000])), random.choice([0.001, 0.02, 0.2]))
            except asyncio.TimeoutError:
                pass
        if random.random() < 0.5:  # a reset in place of an orderly end
            handle = writer.get_extra_info("socket")
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return None
    finally:
        writer.close()


class Process:
    def __init__(self, pid):
        self.folder = f"/proc/{pid}"

    def counts(self):
        return len(os.listdir(self.folder + "/fd")), len(os.listdir(self.folder + "/task"))

    def resident_megabytes(self):
        with open(self.folder + "/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def figures(server):
    """Metrics of /metrics without labels, by name."""
    text = asyncio.run(get(server))
    return dict(re.findall(r"^([a-z_]+)(?:\{[^}]*\})? ([0-9.e+]+)$", text, re.MULTILINE))


async def get(server, path="/metrics"):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    raw = await read_all(reader)
    writer.close()
    return raw.decode()


def wait_until_at_rest(server, process, counts=None):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        at_rest = float(figures(server)["deepinfer_http_requests_in_flight"]) == 0
        if at_rest and (counts is None or process.counts() == counts):
            return
        time.sleep(0.2)
    pytest.fail(f"the server does not come to rest: {process.counts()}, before {counts}")


async def many(port, count, expected):
    left = whole = 0
    queue = iter(range(count))

    async def worker():
        nonlocal left, whole
        for _ in queue:
            what = random.choice(KINDS)
            raw = await one_request(port, what, leaves=random.random() < 0.5)
            if raw is None:
                left += 1
                continue
            whole += 1
            assert answer_text(raw, what[2]) == expected[what]

    await asyncio.gather(*(worker() for _ in range(AT_A_TIME)))
    return whole, left


def test_nothing_is_lost_doubled_or_kept(start_server):
    random.seed(1)
    server = start_server("--threads", "1", "--cache-memory", "0.03")  # a pool that is soon in use
    port, process = int(server.url.rsplit(":", 1)[1]), Process(server.process.pid)
    expected = {}
    for what in KINDS:
        expected[what] = answer_text(asyncio.run(one_request(port, what, leaves=False)), what[2])
    asyncio.run(many(port, REQUESTS // 5, expected))
    wait_until_at_rest(server, process)
    counts, memory = process.counts(), process.resident_megabytes()
    whole, left = asyncio.run(many(port, REQUESTS - REQUESTS // 5, expected))
    wait_until_at_rest(server, process, counts)
    print(f"{whole} answers, {left} left; {memory:.1f} MB, then {process.resident_megabytes():.1f} MB")
    assert process.resident_megabytes() < memory + 8
    assert server.process.poll() is None
