"""Offline inference as a script for DeepInfer 0.1.0 does it; only the model's folder is another.

    python examples/python/offline.py [MODEL]
"""

import os
import sys

from deepinfer import LLM, SamplingParams

MODEL = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("DEEPINFER_HF_MODEL_DIR", "models/DeepSeek-V4.1-Tiny")

PROMPTS = [
    "The capital of France is",
    "Two plus two is",
    "Once upon a time",
]


def main():
    llm = LLM(
        model=MODEL,
        gpu_memory_utilization=0.9,
        max_model_len=4096,
        max_num_seqs=16,
        max_num_batched_tokens=4096,
        decode_sequence=True,
    )
    tokenizer = llm.get_tokenizer()

    greedy = SamplingParams(temperature=0.0, max_tokens=24)
    for prompt, text in zip(PROMPTS, llm.generate(PROMPTS, greedy)):
        print(f"{prompt!r} -> {text!r}")

    # One SamplingParams for each prompt, prompts as token ids.
    params = [SamplingParams(temperature=1.0, top_p=0.95, top_k=50, max_tokens=16, seq_seed=seed) for seed in range(3)]
    ids = [tokenizer.encode(prompt) for prompt in PROMPTS]
    for text in llm.generate(prompt_token_ids=ids, sampling_params=params, use_tqdm=False):
        print(repr(text))
    llm.close()

    # Token by token, with log-probabilities.
    llm = LLM(model=MODEL, max_model_len=4096, max_num_seqs=4, decode_sequence=False)
    answer = llm.generate("The capital of France is", SamplingParams(temperature=0.0, max_tokens=4, top_logprobs=2))[0]
    for output in answer:
        print(output.num_output_tokens, output.token_id, f"{output.token_logprobs:.4f}", output.top_token_ids,
              output.finished, output.finish_reason)
    llm.close()


if __name__ == "__main__":
    main()
