"""An engine that has failed says so, and another one works in the same process."""

import os
import pathlib
import subprocess
import sys

import pytest

import deepinfer
from conftest import MODEL

# In a process of its own, whose memory runs out until the engine's planner has met it.
SCRIPT = """
import asyncio, ctypes, sys, threading, time
from deepinfer import LLM, AsyncLLM, EngineFailedError, FailedOutput, SamplingParams

memory = ctypes.PyDLL(sys.argv[1])
options = dict(max_model_len=2048, max_num_seqs=2, threads=1, cache_bytes=8 << 20)
params = SamplingParams(temperature=0, max_tokens=1500, ignore_eos=True)
llm = LLM(sys.argv[2], decode_sequence=False, **options)
few = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
want = [o.token_id for o in llm.generate(prompt_token_ids=[[0, 5, 7]], sampling_params=few)[0]]

answers = []
thread = threading.Thread(target=lambda: answers.extend(
    llm.generate(prompt_token_ids=[[0, 5], [0, 6], [0, 7]], sampling_params=params, use_tqdm=False)))
thread.start()
while llm.stats()["submitted"] < 4:
    time.sleep(0.01)
while llm.state != "failed" and llm.stats()["ended"] < 4:
    memory.no_memory_for(5)
assert llm.state == "failed", llm.stats()
thread.join()
assert len(answers) == 3 and any(isinstance(answer, FailedOutput) for answer in answers), answers

async def ask():
    async for _ in AsyncLLM.generate(llm, prompt_token_ids=[0, 5]):
        pass

calls = [lambda: llm.generate(prompt_token_ids=[[0, 5]]), lambda: llm.chat([{"role": "user", "content": "Hi"}]),
         lambda: llm.score([0, 5], [6]), llm.pause, llm.resume, llm.sleep, llm.wake_up,
         lambda: llm.update_weights(sys.argv[2]), llm.forget_prefixes, lambda: asyncio.run(ask())]
for call in calls:
    try:
        call()
    except EngineFailedError as error:
        assert "the engine has failed" in str(error) and "close() it and open another one" in str(error), error
        assert "memory" in str(error), error
    else:
        raise AssertionError("a failed engine answers")
llm.close()
assert llm.state == "closed"
with LLM(sys.argv[2], decode_sequence=False, **options) as other:
    assert [o.token_id for o in other.generate(prompt_token_ids=[[0, 5, 7]], sampling_params=few)[0]] == want
print("as it should be")
"""


def test_another_engine_works_after_one_that_failed():
    library = os.environ.get("DEEPINFER_FAILING_MEMORY", "")
    if not pathlib.Path(library).is_file():
        pytest.skip("DEEPINFER_FAILING_MEMORY names no library (ctest sets it)")
    done = subprocess.run([sys.executable, "-c", SCRIPT, library, MODEL],
                          env={**os.environ, "LD_PRELOAD": library, "PYTHONPATH": os.pathsep.join(sys.path)},
                          capture_output=True, text=True, timeout=200)
    assert done.stdout.strip().endswith("as it should be"), done.stdout + done.stderr


def test_it_is_an_error_of_the_package():
    assert issubclass(deepinfer.EngineFailedError, RuntimeError)
