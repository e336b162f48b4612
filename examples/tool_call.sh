#!/usr/bin/env bash
# Offers a tool and prints the call that the model makes.
set -euo pipefail
deepinfer=${DEEPINFER:-deepinfer}
tools=$(mktemp)
trap 'rm -f "$tools"' EXIT

cat >"$tools" <<'EOF'
[{"type": "function", "function": {
  "name": "get_weather",
  "description": "Get the weather of a city",
  "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
EOF
"$deepinfer" run "What is the weather in Paris?" --tools "$tools" --temperature 0
