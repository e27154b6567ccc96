#!/usr/bin/env bash
# The sync unit's ladder: thousand rows per second and per CPU second of one thread, from the binlog's
# packets to statements that nobody executes, for backlogs of three scripts.
#
#   tests/bench/ladder.sh [--dmbench PATH] [--rounds N] [--rows N]
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
dmbench=${DMBENCH:-target/release/dmbench} rounds=5 rows=400000
while [ $# -gt 0 ]; do
  case $1 in
    --dmbench) dmbench=$2 ;; --rounds) rounds=$2 ;; --rows) rows=$2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
client=$(command -v mariadb || command -v mysql) || { echo "needs a mysql or mariadb client" >&2; exit 4; }
command -v jq >/dev/null || { echo "needs jq: apt-get install jq" >&2; exit 4; }

work=$(mktemp -d)
finish() {
  "$dmbench" sandbox --folder "$work/sandbox" down >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT

"$dmbench" sandbox --folder "$work/sandbox" up --json > "$work/up.json"
of() { jq -r "$1" "$work/up.json"; }
MYSQL_PWD=$(cat "$(of '."password-file"')")
export MYSQL_PWD
sql() { "$client" -h 127.0.0.1 -P "$(of ".$1.port")" -u "$(of ".$1.user")" -N -B -e "$2"; }
drive() { # script, step, more
  "$dmbench" drive "$1" "$2" --port "$(of .source.port)" --user "$(of .source.user)" \
    --password-env MYSQL_PWD --schema dmbench_ladder --tables 4 --table-size 50000 "${@:3}" >/dev/null
}
cat <<'HEAD'
| script | rung | thousand rows per CPU second | thousand rows/s | MB read |
|---|---|---:|---:|---:|
HEAD
for script in oltp_insert oltp_write_only oltp_update_index; do
  changes=1
  [ $script != oltp_write_only ] || changes=4
  drive $script prepare
  sql target 'DROP DATABASE IF EXISTS dmbench_ladder; CREATE DATABASE dmbench_ladder'
  for table in sbtest1 sbtest2 sbtest3 sbtest4; do
    shape=$(sql source "SHOW CREATE TABLE dmbench_ladder.$table" | cut -f 2)
    sql target "USE dmbench_ladder; $(printf '%b' "$shape")"
  done
  sql source 'FLUSH BINARY LOGS'
  read -r binlog offset _ < <(sql source 'SHOW BINARY LOG STATUS')
  drive $script run --clients 16 --events $((rows / changes))
  DMBENCH_LADDER=$(jq -n --arg script $script --arg file "$binlog" --argjson offset "$offset" \
    --argjson rounds "$rounds" --slurpfile up "$work/up.json" '{$script, $file, $offset, $rounds,
      schema: "dmbench_ladder", user: $up[0].source.user,
      "source-port": $up[0].source.port, "target-port": $up[0].target.port,
      "password-file": $up[0]."password-file"}')
  export DMBENCH_LADDER
  (cd "$here/../.." && cargo test --release -q --lib ladder -- --ignored --nocapture) | grep '^|'
  drive $script cleanup
done
