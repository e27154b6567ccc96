#!/usr/bin/env bash
# The load generator against sysbench: oltp_insert, same table shape, interleaved pairs on one server.
# Prints throughput and client CPU per op of both with medians and ranges, and their ratios by pair.
#
#   tests/bench/oltp_insert.sh [--host H --port P --user U] [--pairs N] [--clients N] [--time SECONDS]
#                              [--tables N] [--table-size N] [--dmbench PATH] [--out FILE]
#
# The password comes from the environment variable DMBENCH_BENCH_PASSWORD. Without --port a private
# server is started with `dmbench sandbox up` and stopped at the end. Writes only to the schemas
# dmbench_bench and sysbench_bench; the second is made and dropped here.
set -euo pipefail
export LC_ALL=C

host=127.0.0.1 port='' user=root pairs=9 clients=16 seconds=10 tables=4 table_size=50000 out=''
dmbench=${DMBENCH:-target/release/dmbench}
while [ $# -gt 0 ]; do
  case $1 in
    --host) host=$2 ;; --port) port=$2 ;; --user) user=$2 ;; --pairs) pairs=$2 ;;
    --clients) clients=$2 ;; --time) seconds=$2 ;; --tables) tables=$2 ;;
    --table-size) table_size=$2 ;; --dmbench) dmbench=$2 ;; --out) out=$2 ;;
    -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
need() { command -v "$1" >/dev/null || { echo "needs $1: $2" >&2; exit 4; }; }
need sysbench "apt-get install sysbench"
need jq "apt-get install jq"
need "$dmbench" "cargo build --release, or --dmbench PATH"
client=$(command -v mysql || command -v mariadb) || { echo "needs a mysql or mariadb client" >&2; exit 4; }
export DMBENCH_BENCH_PASSWORD=${DMBENCH_BENCH_PASSWORD:-}

work=$(mktemp -d)
started='' made=''
finish() {
  if [ -n "$port" ]; then
    [ -z "$made" ] || sql 'DROP DATABASE sysbench_bench' 2>/dev/null || true
    drive cleanup >/dev/null 2>&1 || true
  fi
  [ -z "$started" ] || "$dmbench" sandbox down >/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

sql() { MYSQL_PWD=$DMBENCH_BENCH_PASSWORD "$client" -h "$host" -P "$port" -u "$user" -N -B -e "$1"; }
drive() {
  local password=()
  [ -z "$DMBENCH_BENCH_PASSWORD" ] || password=(--password-env DMBENCH_BENCH_PASSWORD)
  "$dmbench" drive oltp_insert "$1" --host "$host" --port "$port" --user "$user" \
    "${password[@]}" --schema dmbench_bench --tables "$tables" \
    --table-size "$table_size" --clients "$clients" "${@:2}"
}
other() { # the password stays out of the process list
  sysbench --config-file="$work/sysbench.conf" oltp_insert --mysql-host="$host" \
    --mysql-port="$port" --mysql-user="$user" --mysql-db=sysbench_bench --tables="$tables" \
    --table-size="$table_size" --threads="$clients" --rand-type=uniform "$@"
}

if [ -z "$port" ]; then
  started=$("$dmbench" sandbox up --json)
  port=$(jq -r '.source.port' <<<"$started")
  user=$(jq -r '.source.user // "root"' <<<"$started")
  DMBENCH_BENCH_PASSWORD=$(cat "$(jq -r '."password-file"' <<<"$started")")
fi

drive prepare >/dev/null
sql 'CREATE DATABASE sysbench_bench' || { echo "sysbench_bench is not made by this script" >&2; exit 4; }
made=yes
(umask 077 && printf 'mysql-password=%s\n' "$DMBENCH_BENCH_PASSWORD" >"$work/sysbench.conf")
other prepare >/dev/null

# Runs a command; leaves its output in a file and prints the CPU seconds of its whole process.
cpu_of() {
  local to=$1; shift
  local TIMEFORMAT='%U %S' took
  took=$( { time "$@" >"$to" 2>"$to.err"; } 2>&1 ) || { cat "$to.err" >&2; exit 5; }
  awk '{ print $1 + $2 }' <<<"$took"
}

one_of_dmbench() { # appends "tps cpu_us_per_op"
  local cpu; cpu=$(cpu_of "$work/d.json" drive run --time "$seconds" --json)
  jq -r --argjson cpu "$cpu" \
    '.driven | [.["window-committed"] / .window, $cpu * 1e6 / .["committed-ops"]] | @tsv' \
    "$work/d.json" >>"$work/dmbench"
}
one_of_sysbench() {
  local cpu; cpu=$(cpu_of "$work/s.txt" other --time="$seconds" run)
  awk -v cpu="$cpu" '/transactions:/ { gsub(/[(]/, "", $3); print $3 "\t" cpu * 1e6 / $2 }' \
    "$work/s.txt" >>"$work/sysbench"
}

for ((pair = 1; pair <= pairs; pair++)); do
  echo "pair $pair of $pairs" >&2
  if ((pair % 2)); then one_of_dmbench; one_of_sysbench; else one_of_sysbench; one_of_dmbench; fi
done

# Median, least and greatest of a column.
spread() {
  sort -g | awk -v format="$1" '{ v[NR] = $1 } END {
    m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
    printf format " [" format "–" format "]", m, v[1], v[NR] }'
}
ratios() { paste "$work/dmbench" "$work/sysbench" | awk -v c="$1" '{ print $c / $(c + 2) }' | spread '%.2f'; }
report() {
  echo "oltp_insert, $clients clients, $tables tables of $table_size rows, $seconds s each, n = $pairs interleaved pairs"
  echo "server $(sql 'SELECT VERSION()'), $(sysbench --version), $(nproc) cores; median [least–greatest]"
  echo
  echo "| | ops/s | client CPU per op, µs |"
  echo "|---|---|---|"
  for who in dmbench sysbench; do
    echo "| $who | $(cut -f1 "$work/$who" | spread '%.0f') | $(cut -f2 "$work/$who" | spread '%.1f') |"
  done
  echo "| ratio by pair | $(ratios 1) | $(ratios 2) |"
}
report | if [ -n "$out" ]; then tee "$out"; else cat; fi
