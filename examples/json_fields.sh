#!/usr/bin/env bash
# A script that reads the answer's fields (needs python3 for the JSON; jq does as well).
set -euo pipefail
deepinfer=${DEEPINFER:-deepinfer}

"$deepinfer" run "What is 27 + 45?" --thinking --seed 7 --json | python3 -c '
import json, sys
answer = json.load(sys.stdin)
print("answer:   ", answer["content"])
print("reasoning:", answer["reasoning"])
print("tokens:   ", answer["usage"]["completion_tokens"], "seed:", answer["seed"], "end:", answer["finish_reason"])'
