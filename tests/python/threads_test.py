"""Threads, interrupts and the end of the process."""

import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import MODEL, SMALL, settled_stats
from deepinfer import LLM, EngineArgs, SamplingParams
from deepinfer.llm import OpenEngine
from deepinfer.requests import core_request

LONG = SamplingParams(max_tokens=400, ignore_eos=True)
CODE = f"""
import asyncio, sys
from deepinfer import LLM, AsyncLLM, SamplingParams
options = dict(max_model_len=1024, max_num_seqs=8, cache_bytes=64 << 20, threads=2)
long = SamplingParams(max_tokens=900, ignore_eos=True)
"""


def test_other_threads_run_meanwhile(llm):
    beats = 0
    done = threading.Event()

    def count():
        nonlocal beats
        while not done.is_set():
            beats += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    llm.generate("Once", LONG)
    done.set()
    thread.join()
    assert beats > 5


def test_many_threads_share_an_engine(llm):
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    expected = [[o.token_id for o in a] for a in llm.generate([f"Number {i} is" for i in range(8)], params)]
    results = [None] * 8

    def ask(i):
        results[i] = [o.token_id for o in llm.generate(f"Number {i} is", params)[0]]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


def test_interrupt_cancels_what_runs(llm):
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        llm.generate(["Once upon a time"] * 40, SamplingParams(max_tokens=900, ignore_eos=True, n=2))
    settled_stats(llm)
    assert llm.generate("a", SamplingParams(max_tokens=1))


def test_an_engine_that_is_forgotten_goes_away():
    for _ in range(2):
        llm = LLM(MODEL, max_model_len=512, **SMALL)
        llm.generate("a", SamplingParams(max_tokens=1))
        del llm
        gc.collect()


def test_an_engine_collected_on_its_own_output_thread():
    engine = OpenEngine(EngineArgs(MODEL, max_model_len=512, **SMALL))
    params = SamplingParams(max_tokens=300, ignore_eos=True)
    submitted, = engine.core.submit(core_request([0, 50], params, engine.facts, engine.tokenizer, 1), 1, gc.collect)
    gc.disable()
    try:
        cycle = [engine]
        cycle.append(cycle)
        del engine, cycle
        ends = []
        for _ in range(200):
            ends.append(submitted.take()[-1])  # asks to be told again, too
            if any(ends):
                break
            time.sleep(0.02)
        assert ends[-1]["reason"] == "abort"
    finally:
        gc.enable()


@pytest.mark.parametrize("script", [
    "llm = LLM(sys.argv[1], **options)\nllm.generate('a', SamplingParams(max_tokens=2))",
    "llm = AsyncLLM(sys.argv[1], **options)\n"
    "async def run():\n    it = llm.generate('a', long)\n    await anext(it)\n    return it\n"
    "it = asyncio.run(run())",
    "llm = AsyncLLM(sys.argv[1], **options)\n"
    "async def run():\n    await anext(llm.generate('a', long))\n    sys.exit(0)\n"
    "asyncio.run(run())",
], ids=["idle", "running", "exit"])
def test_processes_end_without_close(script):
    done = subprocess.run([sys.executable, "-c", CODE + script, MODEL], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "leaked" not in done.stderr, done.stderr
