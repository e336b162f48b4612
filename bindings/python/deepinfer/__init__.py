"""DeepInfer: inference of DeepSeek-V4.1-Flash.  docs/python.md is the guide."""

from . import encoding
from .async_llm import AsyncLLM
from .engine_args import EngineArgs
from .llm import LLM
from .outputs import (BatchError, ChatDelta, ChatOutput, Delta, EngineFailedError, FailedOutput, RequestOutput, Score,
                      TokenArray)
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "AsyncLLM",
    "BatchError",
    "ChatDelta",
    "ChatOutput",
    "Delta",
    "EngineArgs",
    "EngineFailedError",
    "FailedOutput",
    "RequestOutput",
    "SamplingParams",
    "Score",
    "TokenArray",
    "Tokenizer",
    "encoding",
]
