"""docs/compatibility.md against the code: what it calls same or changed is accepted, what it calls refused is refused
by name, and every argument and variable has a row."""

import ast
import inspect
import re

import pytest

import deepinfer
from conftest import MODEL, ROOT
from deepinfer import LLM, EngineArgs
from deepinfer.environment import REFUSED, Environment

TEXT = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
OWN_ARGUMENTS = {"backend", "expert_placement", "engram_placement", "threads", "cache_bytes", "prefix_caching", "decode_latency_ms", "kv_disk_folder",
                 "kv_disk_bytes", "kv_host_bytes", "prefix_replay", "replay_tokens",
                 "request_log"}


def table(heading):
    section = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    header = rows[0]
    return [dict(zip(header, row)) for row in rows[2:]]


ARGUMENTS = table("Arguments of `LLM`")
VARIABLES = table("Variables")


def value(text):
    return ast.literal_eval(text)


def test_every_argument_has_a_row():
    named = {row["field"] for row in ARGUMENTS}
    assert named == (set(EngineArgs.__dataclass_fields__) | {"decode_sequence"}) - OWN_ARGUMENTS
    assert OWN_ARGUMENTS < set(EngineArgs.__dataclass_fields__)
    for name in OWN_ARGUMENTS:
        assert f"`{name}`" in TEXT


def test_defaults():
    explicit = inspect.signature(LLM.__init__).parameters
    assert list(explicit)[1:10] == ["model", "tokenizer", "trust_remote_code", "expert_parallel_size", "revision",
                                    "tokenizer_revision", "seed", "gpu_memory_utilization", "decode_sequence"]
    for row in ARGUMENTS[1:]:
        default = value(row["default"])
        if row["field"] in explicit:
            assert explicit[row["field"]].default == default, row["field"]
        if row["field"] != "decode_sequence":
            assert EngineArgs.__dataclass_fields__[row["field"]].default == default, row["field"]


@pytest.mark.parametrize("row", ARGUMENTS[1:], ids=lambda row: row["field"])
def test_argument(row):
    assert row["status"] in ("same", "changed", "refused")
    field, tried = row["field"], value(row["tried"])
    if row["status"] == "refused":
        with pytest.raises(ValueError, match=rf"^{field} is .*allowed"):
            LLM(MODEL, **{field: tried})
        for allowed in re.findall(r"`([^`]*)`|(?<=[ :])(-?\d+|None|True|False)(?=[,:;.]|$)",
                                  row["what"].split(". ")[0].split(": ", 1)[1]):
            text = allowed[0] or allowed[1]
            if text.startswith('"') or allowed[1]:
                EngineArgs(MODEL, **{field: value(text)})
    elif field != "decode_sequence":  # that one is LLM's own; generate_test.py is about it
        EngineArgs(MODEL, **{"max_num_seqs": 8, field: tried})


@pytest.mark.parametrize("field", [row["field"] for row in ARGUMENTS])
def test_wrong_types_name_the_argument(field):
    with pytest.raises((TypeError, ValueError), match=field):
        LLM(**{"model": MODEL, field: object()})


def test_accepted_arguments_open_an_engine():
    accepted = {row["field"]: value(row["tried"]) for row in ARGUMENTS[1:] if row["status"] != "refused"}
    with LLM(MODEL, **accepted, cache_bytes=64 << 20, threads=2) as llm:
        assert llm.max_model_len == 300
        assert llm.generate("a", deepinfer.SamplingParams(max_tokens=1), use_tqdm=False)


def test_every_variable_has_a_row():
    named = [row["variable"] for row in VARIABLES]
    assert len(named) == len(set(named)) == 63
    refused = {row["variable"] for row in VARIABLES if row["status"] == "refused"}
    assert refused == set(REFUSED)


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row["variable"])
def test_variable(row):
    name = row["variable"]
    Environment({})
    Environment({name: ""})
    if row["status"] == "refused":
        with pytest.raises(ValueError, match=rf"^{name} is .*allowed"):
            Environment({name: row["tried"]})
        allowed = re.match(r"allowed: `([^`]*)`", row["what"])
        if allowed:
            Environment({name: allowed[1]})
    else:
        Environment({name: row["tried"]})


def test_wrong_values_of_variables():
    for name, text in (("DEEPINFER_USE_NEXTN_DECODE", "-1"), ("DEEPINFER_USE_NEXTN_DECODE", "x"),
                       ("DEEPINFER_LOGGING_INTERVAL_STEP", "1.5"),
                       ("DEEPINFER_DECODE_TOKEN_BLACKLIST", "3,2"), ("DEEPINFER_DECODE_TOKEN_BLACKLIST", "a..b"),
                       ("DEEPINFER_DECODE_TOKEN_BLACKLIST", "0..99999999999")):
        with pytest.raises(ValueError, match=name):
            Environment({name: text})
    assert Environment({"DEEPINFER_DECODE_TOKEN_BLACKLIST": "0..3,7"}).blacklist == [0, 1, 2, 3, 7]
    assert Environment({"DEEPINFER_ENABLE_MTP_VARLEN": "0"}).verify_all_drafts
    kept = {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS": "150"}
    assert Environment(kept).prefix_replay == "exact"
    for mode in ("mask", "compact"):
        replay = Environment({**kept, "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE": mode})
        assert (replay.prefix_replay, replay.replay_tokens) == ("bounded", 150)
    with pytest.raises(ValueError, match="DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE"):
        Environment({"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE": "on"})


def test_refused_variables_stop_an_engine(monkeypatch):
    monkeypatch.setenv("DEEPINFER_SAMPLER_FORCE_TOPK", "50")
    with pytest.raises(ValueError, match="DEEPINFER_SAMPLER_FORCE_TOPK"):
        LLM(MODEL)


def test_methods_of_our_own():
    section = TEXT.split("## Methods of `LLM` and `AsyncLLM`", 1)[1]
    for name in re.findall(r"`(\w+)`", section.split("\n", 2)[1]):
        assert hasattr(LLM, name)
