#!/usr/bin/env bash
# Peak memory of dmbench's own processes: a full import of 4 × 1,000,000 rows, and sync of one
# transaction of 500,000 rows. Prints the largest resident set of each in MB; the limit is 300.
#
#   tests/bench/memory.sh [--dmbench PATH]
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
dmbench=${DMBENCH:-target/release/dmbench}
[ "${1:-}" = --dmbench ] && dmbench=$2
client=$(command -v mariadb || command -v mysql) || { echo "needs a mysql or mariadb client" >&2; exit 4; }
command -v jq >/dev/null || { echo "needs jq: apt-get install jq" >&2; exit 4; }

work=$(mktemp -d)
pipeline=''
finish() {
  [ -z "$pipeline" ] || kill "$pipeline" 2>/dev/null || true
  "$dmbench" sandbox --folder "$work/sandbox" down >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT

"$dmbench" run "$here/memory.toml" --out "$work/out" >/dev/null
memory() { # of a process, from the record of the import
  jq -r --arg name "memory.$1" '.metrics[] | select(.name == $name) | .value.number' \
    "$work"/out/*/trials/*.json
}
echo "| process | work | largest resident set, MB |"
echo "|---|---|---|"
for process in pipeline generator; do
  printf '| %s | import of 4 × 1,000,000 rows | %.0f |\n' "$process" "$(memory "$process")"
done

up=$("$dmbench" sandbox --folder "$work/sandbox" --json up)
MYSQL_PWD=$(cat "$(jq -r '."password-file"' <<<"$up")")
export MYSQL_PWD
port=$(jq -r .source.port <<<"$up")
sql() { "$client" -h 127.0.0.1 -P "$port" -u root -N -B -e "$1"; }
"$dmbench" drive oltp_insert prepare --host 127.0.0.1 --port "$port" --user root \
  --password-env MYSQL_PWD --schema dmbench_bench --tables 1 --table-size 1000 >/dev/null
server() { jq --arg side "$1" '{host: .[$side].host, port: .[$side].port, user: .[$side].user,
  password: env.MYSQL_PWD}' <<<"$up"; }
order=$(jq -n -c --argjson source "$(server source)" --argjson target "$(server target)" \
  --arg folder "$work/dump" '{settings: {}, name: "bench", source: $source, target: $target,
  schemas: ["dmbench_bench"], "meta-schema": "dmbench_meta", folder: $folder, run: "bench",
  "server-id": 4000000001, start: "all"}')

mkfifo "$work/commands"
"$dmbench" pipeline <"$work/commands" >"$work/messages" 2>"$work/pipeline.err" &
pipeline=$!
exec 3>"$work/commands"
printf '%s\n' "$order" >&3
# The furthest count of applied rows that sync has told.
applied() {
  grep '"sync"' "$work/messages" 2>/dev/null | tail -n 1 |
    jq -r '.body | select(.unit == "sync") | .rows // 0' 2>/dev/null || true
}
deadline=$((SECONDS + 600))
wait_for() { # rows
  local rows
  while rows=$(applied) && [ "${rows:-none}" = none ] || [ "${rows:-0}" -lt "$1" ]; do
    kill -0 "$pipeline" 2>/dev/null || { tail -n 3 "$work/messages" "$work/pipeline.err" >&2; exit 5; }
    [ $SECONDS -lt $deadline ] || { echo "not applied within 600 s" >&2; exit 5; }
    sleep 0.5
  done
}
wait_for 0
sql "INSERT INTO dmbench_bench.sbtest1 (id, k, c, pad)
  SELECT 1000000 + a.id * 500 + b.id, a.k, a.c, b.pad
  FROM dmbench_bench.sbtest1 a JOIN dmbench_bench.sbtest1 b
  WHERE a.id BETWEEN 1 AND 1000 AND b.id BETWEEN 1 AND 500"
wait_for 500000
peak=$(awk '/VmHWM/ { printf "%.0f", $2 * 1024 / 1e6 }' "/proc/$pipeline/status")
echo "| pipeline | sync of one transaction of 500,000 rows | $peak |"
printf '{"command":"stop","how":"drain"}\n' >&3
wait "$pipeline" || true
pipeline=''
