"""The DEEPINFER_* variables of DeepInfer 0.1.0: those that mean something here, and the refusal of the others by name.
docs/compatibility.md has a row for each; tests/python reads that table."""

from __future__ import annotations

import os
from typing import Mapping, Optional

# Refused unless they hold the value that stands for what happens anyway.
REFUSED: dict[str, tuple[str, ...]] = {
    "DEEPINFER_ACCELERATOR": ("cpu",),
    "DEEPINFER_JIT_CACHE_DIR": (),
    "DEEPINFER_MAX_BACKTRACKING_TOKENS": (),
    "DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE": ("1", "1.0"),
    "DEEPINFER_PREFILL_MAX_SUM_SEQLEN_K": (),
    "DEEPINFER_INDEX_ATTN_MEMORY_LIMIT": (),
    "DEEPINFER_PREFILL_ATTEMPT_INTERVAL": (),
    "DEEPINFER_PREFILL_ANY_ATTEMPT_INTERVAL": (),
    "DEEPINFER_ZERO_OVERHEAD_SCHEDULING": ("1", "true", "True"),
    "DEEPINFER_ENFORCE_EAGER": ("1", "true", "True"),
    "DEEPINFER_DFLASH_ENFORCE_EAGER": ("1", "true", "True"),
    "DEEPINFER_CUDAGRAPH_BATCH_SIZE_INTERVAL": (),
    "DEEPINFER_DFLASH_CUDAGRAPH_BATCH_SIZE_INTERVAL": (),
    "DEEPINFER_DECODE_PERF_CACHE_TTL_SEC": (),
    "DEEPINFER_SAMPLER_FORCE_TOPK": ("0",),
    "DEEPINFER_COMPUTE_SUM_SMALLER_PROBS": ("0", "false", "False"),
    "DEEPINFER_NUM_STATE_SLOTS_RATIO": (),
    "DEEPINFER_PREFILL_STORE_EXTRA_STATE": ("0", "false", "False"),
    "DEEPINFER_PREFILL_STORE_EXTRA_SIZE": (),
    "DEEPINFER_ENGRAM_PAD_TOKEN": (),
    "DEEPINFER_ENGRAM_FORCE_GPU_STORAGE": ("0", "false", "False"),
    "DEEPINFER_OVERRIDE_NUM_EXTRA_EXPERTS": ("0",),
    "DEEPINFER_EXPERT_REARRANGEMENT_STEP_INTERVAL": ("0",),
    "DEEPINFER_EXPERT_COUNT_WINDOW_SIZE": (),
    "DEEPINFER_REARRANGE_AFTER_PREFILL_IN_NORMAL_ENGINE": ("0", "false", "False"),
    "DEEPINFER_REARRANGE_P2P_GROUPS": ("1",),
    "DEEPINFER_MOE_LB_STAT_INTERVAL": (),
    "DEEPINFER_SHOW_EPLB_DETAIL": ("0", "false", "False"),
    "DEEPINFER_FORCE_IMBALANCE_RATIO": ("0",),
    "DEEPINFER_FORCE_LOAD_BALANCE": ("0", "false", "False"),
    "DEEPINFER_NCCL_NUM_SMS": (),
    "DEEPINFER_USERBUFFER_COMM_SMS": ("0",),
    "DEEPINFER_GLOO_TIMEOUT": (),
    "DEEPINFER_XGRAMMAR_TIMEOUT": ("20",),
    "DEEPINFER_XGRAMMAR_DISABLE_CACHE": ("0", "false", "False"),
    "DEEPINFER_XGRAMMAR_CACHE_LIMIT_BYTES": (),
    "DEEPINFER_XGRAMMAR_DEBUG": ("0", "false", "False"),
    "DEEPINFER_SO_BUILDER_CPUS": (),
    "DEEPINFER_USE_MULTIMODAL_POOL": ("0", "false", "False"),
    "DEEPINFER_MULTIMODAL_POOL_SIZE_GB": (),
    "DEEPINFER_MULTI_MODAL_BUFFER_SIZE": (),
    "DEEPINFER_MULTI_MODAL_WORKER_TIMEOUT": (),
    "DEEPINFER_NCCL_MEMORY_SAMPLE_INTERVAL_STEPS": (),
    "DEEPINFER_RINGBUFFER_WARNING_INTERVAL": (),
    "DEEPINFER_GC_INTERVAL_STEP": (),
    "DEEPINFER_PROFILE_HTTP_ENABLE": ("0", "false", "False"),
    "DEEPINFER_PROFILE_HTTP_PORT_BASE": (),
    "DEEPINFER_TORCH_PROFILER_DIR": (),
    "DEEPINFER_PROFILE_TORCH_CUDA_MEMORY": ("0",),
    "DEEPINFER_ENABLE_MEMORY_TRACING": ("0", "false", "False"),
    "DEEPINFER_DISABLE_SYNC_GUARD": ("0", "false", "False"),
    "DEEPINFER_CPP_LOG_LEVEL": ("off",),
    "DEEPINFER_FUSED_SAMPLE_STRESS_TEST": (),
    "DEEPINFER_FUSED_SAMPLE_DETAIL_LOG": (),
}

FALSE = ("0", "", "false", "False")


class Environment:
    """The variables that an LLM reads, once, when it is made."""

    def __init__(self, environ: Optional[Mapping[str, str]] = None) -> None:
        environ = os.environ if environ is None else environ
        for name, allowed in REFUSED.items():
            value = environ.get(name)
            if value and value not in allowed:
                also = "".join(f"{v!r}, " for v in allowed)
                raise ValueError(f"{name} is {value!r}; allowed: {also}not set (docs/compatibility.md says why)")
        self.draft_tokens = _integer(environ, "DEEPINFER_USE_NEXTN_DECODE", -1, 0, "integers from 0 (0: no speculation)")
        self.stats_interval = _integer(environ, "DEEPINFER_LOGGING_INTERVAL_STEP", 100, -(2**31), "integers (0 and "
                                       "below: no lines)")
        varlen = environ.get("DEEPINFER_ENABLE_MTP_VARLEN")
        self.verify_all_drafts = varlen is not None and varlen in FALSE
        mode = environ.get("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE") or "off"
        if mode not in ("off", "mask", "compact"):
            raise ValueError(f"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE is {mode!r}; allowed: 'off', 'mask', 'compact'")
        self.prefix_replay = "exact" if mode == "off" else "bounded"  # both modes give the same rows
        self.replay_tokens = _integer(environ, "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", 0, 0, "integers from 0")
        self.step_cost_folder = environ.get("DEEPINFER_DECODE_PERF_CACHE_DIR", "")
        self.blacklist = token_list(environ.get("DEEPINFER_DECODE_TOKEN_BLACKLIST", ""))


def _integer(environ: Mapping[str, str], name: str, default: int, least: int, allowed: str) -> int:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value < 2**31:
        raise ValueError(f"{name} is {text!r}; allowed: {allowed}")
    return value


def token_list(text: str) -> list[int]:
    """'0..3,7' as [0, 1, 2, 3, 7]; strictly increasing."""
    ids: list[int] = []
    for part in filter(None, text.split(",")):
        first, dots, last = part.partition("..")
        try:
            low = int(first)
            high = int(last) if dots else low
        except ValueError:
            low, high = -1, -1
        if low < 0 or high < low or high >= 2**20 or (ids and low <= ids[-1]):
            raise ValueError(f"DEEPINFER_DECODE_TOKEN_BLACKLIST has {part!r}; allowed: strictly increasing token ids "
                             "and ranges such as 0..3,7")
        ids.extend(range(low, high + 1))
    return ids
