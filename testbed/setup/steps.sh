# What the set-up's steps share: how they time themselves, report, and fail. Read by them, not run.
# A step sets `step` to its name first.

log=$(mktemp "${TMPDIR:-/tmp}/wan-testbed-${step:?}.XXXXXX")
ticker=
began=$(date +%s%N)
trap 'stop_ticker; rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# say STATE: one line that is the step's outcome, with the seconds it took.
say() {
    took=$(( ($(date +%s%N) - began) / 100000000 ))
    printf '%-12s %-12s %6d.%d s\n' "$step" "$1" $((took / 10)) $((took % 10))
}

# note TEXT: what the step is about to do.
note() {
    printf '%-12s %s\n' "$step" "$1"
}

# fail CODE PROBLEM REMEDY...: ends the step. Each further argument is a line of its own.
fail() {
    code=$1
    printf '%-12s failed: %s\n' "$step" "$2" >&2
    shift 2
    for line; do printf '%-12s %s\n' '' "$line"; done >&2
    exit "$code"
}

# quietly COMMAND...: runs it with its output in the log, and a sign of life every 15 s.
quietly() {
    start_ticker
    status=0
    "$@" >>"$log" 2>&1 </dev/null || status=$?
    stop_ticker
    return "$status"
}

# The ticker ends by itself when the step was killed, and holds nobody's output open.
start_ticker() {
    (
        waited=0
        while sleep 1 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
            waited=$((waited + 1))
            [ $((waited % 15)) -ne 0 ] || printf '%-12s ... %d s\n' "$step" "$waited"
        done
    ) &
    ticker=$!
}

# SIGKILL, because a shell that has only just been forked can lose any other signal.
stop_ticker() {
    [ -z "$ticker" ] || kill -KILL "$ticker" 2>/dev/null || true
    ticker=
}

# The last lines of what the command that failed said.
show_log() {
    tail -n 20 "$log" | sed 's/^/    | /' >&2
}
