# shellcheck shell=bash
# Guards every act of the scripts beside it, which begin with this file.
set -euo pipefail
export LC_ALL=C
state=${STATE_DIRECTORY:?a folder that outlives a restart}

say() { printf '%s: %s\n' "${0##*/}" "${*//[^[:print:]]/?}"; }
refuse() { say "nothing done: $*"; exit 0; }
fail() { say "FAILED: $*; the page is yours"; exit 1; }
# Only this page ends programs: no ticket, and no growth that is no leak yet, whatever the routes are.
paged() { [[ $LABEL_ALERTNAME-${LABEL_SEVERITY-}-${LABEL_EVIDENCE-} == GPUOutOfMemoryPredicted-critical-leak ]]; }
# older WHAT TIME: goes on if it began before the alert: else the alert is about an earlier one of its name.
older() { (($(date --date="${2:?}" +%s) < $(date --date="${STARTS_AT:?}" +%s))) || refuse "$1 is younger than the alert"; }

# named NAME...: programs choose the names in their labels, so only what a pod, a node or a job can be called goes on.
named() {
	for name; do [[ $name =~ ^[A-Za-z0-9][A-Za-z0-9.-]*$ ]] || refuse "the alert names no culprit, or one with odd characters: '$name'"; done
}

# once KEY: goes on if this was not done within the hour, nor too much else. The stamp comes before the act.
once() {
	exec 9>>"$state/lock"
	flock 9
	find "$state" -maxdepth 1 -type f -empty -name '*-*' ! -mmin -60 -delete # a volume has room for some thousands
	[[ ! -e $state/$1 ]] || refuse "$1 was done within the hour"
	local most=${MAX_AN_HOUR:-5}
	[[ $1 == event-* || $(find "$state" -maxdepth 1 -name '*-*' ! -name 'event-*' | wc -l) -lt $most ]] || refuse "$most acts within the hour are enough, so not $1"
	[[ ${DRY_RUN:-1} != 0 ]] || touch "$state/$1" || fail "no stamp in $state"
	exec 9>&-
}

# act COMMAND...: runs it, unless this is a dry run.
act() {
	if [[ ${DRY_RUN:-1} != 0 ]]; then say "dry run, would run: $*"; return; fi
	say "runs: $*"
	"$@" >/dev/null || fail "$*, not tried again within the hour"
}

say "${LABEL_ALERTNAME:?}: ${SUMMARY-}"
[[ ${LABEL_CLUSTER-} == "${CLUSTER-}" ]] || refuse "the alert is of cluster '${LABEL_CLUSTER-}', and CLUSTER is '${CLUSTER-}'"
