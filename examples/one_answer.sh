#!/usr/bin/env bash
# One answer, three ways to ask.  The program is taken from PATH, or from DEEPINFER.
set -euo pipefail
deepinfer=${DEEPINFER:-deepinfer}

"$deepinfer" run "Hello! Who are you?"
echo "What is 27 + 45?" | "$deepinfer" run --thinking --temperature 0
"$deepinfer" run --raw "<｜User｜>Hello!<｜Assistant｜></think>" --temperature 0
