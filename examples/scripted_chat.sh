#!/usr/bin/env bash
# A conversation from a script, saved as JSON.
set -euo pipefail
deepinfer=${DEEPINFER:-deepinfer}
saved=${1:-conversation.json}

"$deepinfer" chat --temperature 0 <<EOF
Hello!
What is 3 + 4?
/save $saved
EOF
