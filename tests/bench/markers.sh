#!/usr/bin/env bash
# What the lag measurement itself adds to the source: marker transactions as a share of the committed
# ones, for the lag task as it is shipped. The limit is 1 %.
#
#   tests/bench/markers.sh [--dmbench PATH]
set -euo pipefail
export LC_ALL=C
dmbench=${DMBENCH:-target/release/dmbench}
[ "${1:-}" = --dmbench ] && dmbench=$2
command -v jq >/dev/null || { echo "needs jq: apt-get install jq" >&2; exit 4; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$dmbench" run "$(dirname "$0")/../../tasks/sync/lag.toml" --set repeat.blocks=1 --out "$work/out" \
  >/dev/null
echo "| task | markers in the window | share of committed transactions, % | outcome |"
echo "|---|---|---|---|"
jq -r '.outcome as $outcome | .metrics[] | select(.name == "marker.share") |
  "| sync/lag | \(.n) | \(.value.number * 10000 | round / 100) | \($outcome.is) |"' \
  "$work"/out/*/trials/*.json
