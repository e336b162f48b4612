"""One engine for all tests of the Python package: opening takes a second."""

import pathlib
import time

import pytest

import deepinfer

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "models" / "DeepSeek-V4.1-Tiny")
SMALL = dict(max_num_seqs=8, cache_bytes=64 << 20, threads=2)


def settled_stats(llm):
    """The counts once nothing runs: answers are delivered before they are counted."""
    for _ in range(500):
        stats = llm.stats()
        if stats["ended"] == stats["submitted"]:
            return stats
        time.sleep(0.02)
    raise AssertionError(stats)


@pytest.fixture(scope="session")
def llm():
    """Token by token: decode_sequence=False."""
    with deepinfer.LLM(MODEL, decode_sequence=False, max_model_len=1024, **SMALL) as engine:
        yield engine


@pytest.fixture(scope="session")
def tokenizer(llm):
    return llm.get_tokenizer()


@pytest.fixture()
def text_llm(llm):
    """The same engine with strings as results."""
    llm.decode_sequence = True
    yield llm
    llm.decode_sequence = False
