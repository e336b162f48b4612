"""Encoding speed of tiktoken and Hugging Face tokenizers with the ranks of a tokenizer.json, as JSON lines.

python3 bench/tokenizer_baselines.py TOKENIZER_JSON FILE... [--rounds N] [--ours build/.../tokenizer_speed] [--skip NAME]
    (needs: pip install tiktoken tokenizers)

One core, user CPU time, the fastest of N rounds; the contestants alternate within a round, so that a loaded or
throttled machine meets all of them alike.  The baselines get the text in documents of about 1 MiB, cut at line ends:
one document of 64 MiB makes both slower (memory).  tiktoken knows one expression only, so DeepSeek's three become one
alternation, which cuts the same pieces but in rare places, and its ranks are the merges' order.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess

os.environ["TOKENIZERS_PARALLELISM"] = "false"

DOCUMENT = 1 << 20
# The third expression of DeepSeek's pre_tokenizer sees no numbers and no CJK characters; its classes leave them out.
CJK = r"\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
PATTERN = "|".join([
    r"\p{N}{1,3}",
    f"[{CJK}]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+",
    rf"[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}]?(?:[\p{{L}}\p{{M}}--[{CJK}]])+",
    r" ?[\p{P}\p{S}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])


def byte_alphabet():
    itself = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b]
    others = [b for b in range(256) if b not in itself]
    return {chr(b): b for b in itself} | {chr(256 + i): b for i, b in enumerate(others)}


def tiktoken_encoder(file):
    import tiktoken

    alphabet = byte_alphabet()
    raw = lambda spelling: bytes(alphabet[c] for c in spelling)
    ranks = {bytes([b]): b for b in range(256)}
    for merge in json.loads(file.read_text())["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        ranks.setdefault(raw(left) + raw(right), len(ranks))
    encoding = tiktoken.Encoding("deepseek", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda documents: sum(len(encoding.encode_ordinary(document)) for document in documents)


def huggingface_encoder(file):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    return lambda documents: sum(len(tokenizer.encode(document, add_special_tokens=False).ids) for document in documents)


def split_documents(text):
    documents, begin = [], 0
    while begin < len(text):
        end = text.find("\n", begin + DOCUMENT) + 1 or len(text)
        documents.append(text[begin:end])
        begin = end
    return documents


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def run_ours(program, file, text_file):
    output = subprocess.run([program, str(file), "--runs", "1", str(text_file)], check=True, capture_output=True, text=True).stdout
    result = json.loads(output.splitlines()[-1])
    return result["value"], result["tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", help="the program bench/tokenizer_speed.cpp")
    parser.add_argument("--skip", choices=["tiktoken", "tokenizers"])
    options = parser.parse_args()
    baselines = {"tiktoken": tiktoken_encoder, "tokenizers": huggingface_encoder}
    baselines = {name: make(options.tokenizer) for name, make in baselines.items() if name != options.skip}
    for file in options.files:
        text = file.read_bytes().decode("utf-8", "replace")
        documents, size = split_documents(text), len(text.encode()) / (1 << 20)
        best, tokens = {}, {}
        for _ in range(options.rounds):
            for name, encode in baselines.items():
                start = user_seconds()
                tokens[name] = encode(documents)
                best[name] = max(best.get(name, 0), size / (user_seconds() - start))
            if options.ours:
                speed, tokens["ours"] = run_ours(options.ours, options.tokenizer, file)
                best["ours"] = max(best.get("ours", 0), speed)
        for name, speed in best.items():
            print(json.dumps({"name": f"{name}/{file.stem}", "value": round(speed, 2), "unit": "MiB/s", "tokens": tokens[name],
                              "ours_is_times": round(best["ours"] / speed, 2) if options.ours else None}), flush=True)


if __name__ == "__main__":
    main()
