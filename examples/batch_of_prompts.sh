#!/usr/bin/env bash
# Every line of a file is a question; answers go to a file beside it, one JSON object a line.
#   examples/batch_of_prompts.sh questions.txt
set -euo pipefail
deepinfer=${DEEPINFER:-deepinfer}
questions=${1:?usage: batch_of_prompts.sh FILE}

: >"$questions.answers.jsonl"
while IFS= read -r question; do
  [ -z "$question" ] && continue
  printf '%s' "$question" | "$deepinfer" run --temperature 0 --json >>"$questions.answers.jsonl"
done <"$questions"
echo "$questions.answers.jsonl"
