#!/usr/bin/env bash
# systemd: restarts the service whose process leaks, if its unit is a line of the file UNITS. It runs on the node with the GPU.
source "$(dirname "$0")/guard.sh" || exit 1
as=(sudo --non-interactive)
list=${UNITS:-/etc/gpu-leak-act/units}

paged || refuse "this is no page about a leak"
# The alert has a name, which another program can have, too. The exporter knows which processes of that name leak now.
[[ -n ${LABEL_PROCESS-} && -n ${LABEL_UUID-} ]] || refuse "the alert names no process"
pids=$(curl --silent --show-error --fail --max-time 10 "${EXPORTER:-http://localhost:9844}/api/v1/verdicts" |
	jq --raw-output --arg uuid "$LABEL_UUID" --arg process "$LABEL_PROCESS" \
		'[.. | objects | select(.labels?.uuid == $uuid and .labels?.process == $process and .verdict?.leak) | .labels.pid] | unique | join(",")') ||
	fail "the exporter does not answer"
[[ -n $pids ]] || refuse "no process '$LABEL_PROCESS' leaks there now"

unit_of() { ps --format=unit= --pid="$pids" | sort --unique; }
unit=$(unit_of) || true
if [[ ! $unit =~ ^[^[:space:]]+\.service$ ]] || ! grep --quiet --line-regexp --fixed-strings -- "$unit" "$list"; then
	refuse "unit '$unit' of process $pids is not in $list"
fi
once "restart-$unit"
if [[ ${CHECKPOINT_SECONDS:-0} != 0 ]]; then
	act "${as[@]}" systemctl kill --kill-who=main --signal=SIGUSR1 "$unit"
	act sleep "$CHECKPOINT_SECONDS"
	[[ $(unit_of) == "$unit" ]] || refuse "process $pids of $unit has ended by itself"
fi
act "${as[@]}" systemctl restart "$unit"
