"""EngineArgs: the keyword arguments of LLM and AsyncLLM.  DeepInfer 0.1.0's names; docs/compatibility.md has a row for
each, tests/python reads that table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Optional

from . import _core
from .environment import Environment
from .sampling_params import INT32_MAX, _boolean, _fail, _integer, _number

DEFAULT_CACHE_BYTES = 1 << 30


@dataclass
class EngineArgs:
    model: str
    tokenizer: Optional[str] = None
    trust_remote_code: bool = False
    expert_parallel_size: int = 1
    revision: Optional[str] = None
    tokenizer_revision: Optional[str] = None
    seed: int = 0
    gpu_memory_utilization: float = 0.9
    served_model_name: str = "deepinfer-model"
    load_format: str = "auto"
    max_model_len: Optional[int] = None
    data_parallel_size: int = 0
    context_parallel_size: int = 1
    engram_parallel_size: int = 0
    engine_rank: int = 0
    engine_group_rank: int = 0
    max_num_batched_tokens: Optional[int] = None
    max_num_seqs: int = 256
    disable_log_stats: bool = True
    stop_preempted_request: bool = False
    engine_type: str = "NORMAL"
    chunked_prefill: bool = False
    ignore_len: int = 128 * 2**20
    tokens_per_block: int = -1
    lookahead_tokens: int = 0
    offline_inference: bool = True
    # Not in DeepInfer 0.1.0.
    backend: str = "auto"
    expert_placement: str = "device"
    engram_placement: str = "disk"
    threads: int = 0
    cache_bytes: Optional[int] = None
    prefix_caching: bool = True
    decode_latency_ms: int = 250
    kv_disk_folder: Optional[str] = None
    kv_disk_bytes: int = 10 << 30
    kv_host_bytes: int = 0
    prefix_replay: Optional[str] = None
    replay_tokens: Optional[int] = None
    request_log: Optional[str] = None

    def __post_init__(self) -> None:
        self._check_text()
        self._check_single_process()
        self._check_numbers()

    def _check_text(self) -> None:
        for field in ("model", "tokenizer", "kv_disk_folder", "request_log"):
            value = getattr(self, field)
            if field != "model" and value is None:
                continue
            if not isinstance(value, (str, os.PathLike)):
                raise TypeError(f"{field} is {value!r}, a {type(value).__name__}; allowed: the path of a "
                                f"{'file' if field == 'request_log' else 'folder'}")
            setattr(self, field, os.fspath(value))
        if not isinstance(self.served_model_name, str):
            raise TypeError(f"served_model_name is {self.served_model_name!r}; allowed: a string")
        for field in ("revision", "tokenizer_revision"):
            if getattr(self, field) not in (None, "main"):
                raise _fail(field, getattr(self, field), "None or 'main': folders on this machine have no revisions")
        for field, allowed in (("load_format", "auto"), ("engine_type", "NORMAL")):
            if getattr(self, field) != allowed:
                raise _fail(field, getattr(self, field), repr(allowed))
        for field in ("trust_remote_code", "disable_log_stats", "chunked_prefill", "offline_inference",
                      "prefix_caching"):
            _boolean(field, getattr(self, field))
        on_gpu = self.backend == "cuda"
        for field, allowed in (("expert_placement", ("device", "host") if on_gpu else ("device",)),
                               ("engram_placement", ("device", "host", "disk") if on_gpu else ("host", "disk"))):
            if getattr(self, field) not in allowed:
                raise _fail(field, getattr(self, field),
                            " or ".join(map(repr, allowed)) + f" with backend {self.backend!r}")
        if self.prefix_replay not in (None, "exact", "bounded"):
            raise _fail("prefix_replay", self.prefix_replay,
                        "'exact', 'bounded', or None: as DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE says")
        if _boolean("stop_preempted_request", self.stop_preempted_request):
            raise _fail("stop_preempted_request", True, "False: preempted requests go on and keep their bits")

    def _check_single_process(self) -> None:
        for field, allowed in (("expert_parallel_size", (1,)), ("data_parallel_size", (0, 1)),
                               ("context_parallel_size", (1,)), ("engram_parallel_size", (0, 1)),
                               ("engine_rank", (0,))):
            value = _integer(field, getattr(self, field), -INT32_MAX, INT32_MAX)
            if value not in allowed:
                raise _fail(field, value, f"{' or '.join(map(str, allowed))}: this engine is one process on one device")
        _integer("engine_group_rank", self.engine_group_rank, 0, INT32_MAX)

    def _check_numbers(self) -> None:
        _integer("seed", self.seed, 0, 2**64 - 1)
        _number("gpu_memory_utilization", self.gpu_memory_utilization, 0, 1, "above 0, up to 1", low_excluded=True)
        _integer("max_num_seqs", self.max_num_seqs, 1, 4096)
        _integer("ignore_len", self.ignore_len, 0, 2**62)
        if _integer("tokens_per_block", self.tokens_per_block, -1, INT32_MAX) not in (-1, 128):
            raise _fail("tokens_per_block", self.tokens_per_block, "-1 or 128: blocks have 128 tokens")
        if _integer("lookahead_tokens", self.lookahead_tokens, -INT32_MAX, INT32_MAX) != 0:
            raise _fail("lookahead_tokens", self.lookahead_tokens, "0: chunks of a prompt have no least length")
        if self.max_model_len is not None:
            _integer("max_model_len", self.max_model_len, 2, INT32_MAX)
        if self.max_num_batched_tokens is not None:
            _integer("max_num_batched_tokens", self.max_num_batched_tokens, self.max_num_seqs, 2**20,
                     f"integers from max_num_seqs, {self.max_num_seqs}, to {2**20}")
        _integer("threads", self.threads, 0, 4096)
        _integer("decode_latency_ms", self.decode_latency_ms, 1, 3_600_000)
        _integer("kv_disk_bytes", self.kv_disk_bytes, 1, 2**50)
        _integer("kv_host_bytes", self.kv_host_bytes, 0, 2**50)
        if self.replay_tokens is not None:
            _integer("replay_tokens", self.replay_tokens, 1, INT32_MAX)
        if self.cache_bytes is not None:
            _integer("cache_bytes", self.cache_bytes, 1, 2**50)

    def cache_size(self) -> int:
        """Bytes of the cache: those asked for; 0, what is left, on a GPU; or 1 GiB, no more than
        gpu_memory_utilization of the free memory."""
        if self.cache_bytes is not None:
            return self.cache_bytes
        if self.backend == "cuda":
            return 0
        return max(1 << 20, min(DEFAULT_CACHE_BYTES, int(free_memory() * self.gpu_memory_utilization)))

    def core_options(self, environment: Environment) -> "_core.EngineOptions":
        options = _core.EngineOptions()
        options.model = _core.locate_model(self.model)
        if self.tokenizer is not None and self.tokenizer != self.model:
            options.tokenizer = _core.locate_model(self.tokenizer)
        options.backend = self.backend
        options.gpu_memory_utilization = self.gpu_memory_utilization
        options.expert_placement = self.expert_placement
        options.engram_placement = self.engram_placement
        options.threads = self.threads
        options.max_context = self.max_model_len or 0
        options.cache_bytes = self.cache_size()
        options.max_sequences = self.max_num_seqs
        options.step_rows = self.batched_tokens
        options.decode_latency_ms = self.decode_latency_ms
        options.kv_disk_folder = self.kv_disk_folder or ""
        options.kv_disk_bytes = self.kv_disk_bytes
        options.kv_host_bytes = self.kv_host_bytes
        options.stats_interval = 0 if self.disable_log_stats else max(0, environment.stats_interval)
        options.request_log = self.request_log or ""
        options.prefix_cache = self.prefix_caching
        options.verify_all_drafts = environment.verify_all_drafts
        if environment.step_cost_folder:
            options.step_cost_file = os.path.join(environment.step_cost_folder, "step_cost")
        return options

    @property
    def batched_tokens(self) -> int:
        return self.max_num_batched_tokens or max(512, self.max_num_seqs)


def free_memory() -> int:
    """Bytes that can be allocated without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return DEFAULT_CACHE_BYTES
