#!/usr/bin/env bash
# Slurm: requeues a job that leaks, and drains a node whose GPU lost memory, if all of its partitions are in PARTITIONS.
source "$(dirname "$0")/guard.sh" || exit 1
as=(sudo --non-interactive --user=slurm)

# listed WHAT PARTITION...
listed() {
	local partition
	(($# > 1)) || refuse "Slurm knows no $1 that runs"
	for partition in "${@:2}"; do [[ " ${PARTITIONS-} " == *" $partition "* ]] || refuse "partition $partition of $1 is not listed"; done
}

case $LABEL_ALERTNAME in GPUECCUncorrectable | GPURowRemapFailed)
	node=${LABEL_INSTANCE-}
	node=${node%%[.:]*} # without domain and port
	named "$node"
	# One called ALL is none: scontrol takes that for each of them. Without --all partitions of other groups are missing.
	mapfile -t partitions < <(sinfo --all --noheader --Node --nodes="$node" --format='%N %R' | awk -v node="$node" '$1 == node { print $2 }')
	listed "node $node" "${partitions[@]}"
	once "drain-$node"
	act "${as[@]}" scontrol update "nodename=$node" state=drain "reason=gpu_leak_exporter:$LABEL_ALERTNAME"
	exit
	;;
esac

paged || refuse "this is no page about a leak"
job=${LABEL_SLURM_JOB-}
[[ $job =~ ^[0-9]+$ ]] || refuse "the alert names no job: '$job'"
# The number of an array's last task is that of the whole array, too: 4711_3 is one task.
running() { squeue --all --noheader --jobs="$job" --states=RUNNING --format='%A %i %S %P' | awk -v job="$job" '$1 == job { print $2, $3, $4 }'; }
read -r id start partition < <(running) || true
listed "job $job" ${partition:+"$partition"}
older "this run of job $job" "$start" # a job keeps its number when it is requeued
once "requeue-$id"
if [[ ${CHECKPOINT_SECONDS:-0} != 0 ]]; then
	act "${as[@]}" scancel --signal=USR1 "$id"
	act sleep "$CHECKPOINT_SECONDS"
	[[ -n $(running) ]] || refuse "job $id has ended by itself"
fi
act "${as[@]}" scontrol requeue "$id"
