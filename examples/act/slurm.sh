#!/usr/bin/env bash
# Slurm: requeues a job that leaks, and drains a node whose GPU lost memory, if all of its partitions are in PARTITIONS.
source "${BASH_SOURCE%/*}/guard.sh"
as=(sudo --non-interactive --user=slurm)

# listed WHAT PARTITION...
listed() {
	local what=$1 partition
	shift
	(($#)) || refuse "Slurm knows no $what that runs"
	for partition; do [[ " ${PARTITIONS-} " == *" $partition "* ]] || refuse "partition $partition of $what is not listed"; done
}

case $LABEL_ALERTNAME in GPUECCUncorrectable | GPURowRemapFailed)
	node=${LABEL_INSTANCE-}
	node=${node%%[.:]*} # without domain and port
	named "$node"
	mapfile -t partitions < <(sinfo --noheader --nodes="$node" --format=%R | sort -u)
	listed "node $node" "${partitions[@]}"
	once "drain-$node"
	act "${as[@]}" scontrol update "nodename=$node" state=drain "reason=gpu_leak_exporter:$LABEL_ALERTNAME"
	exit
	;;
esac

job=${LABEL_SLURM_JOB-}
[[ $job =~ ^[0-9]+$ ]] || refuse "the alert names no job: '$job'"
# The number of an array's last task is that of the whole array, too: 4711_3 is one task.
running() { squeue --noheader --jobs="$job" --states=RUNNING --format='%A %i %P' | awk -v job="$job" '$1 == job { print $2, $3 }'; }
read -r id partition < <(running) || true
listed "job $job" ${partition:+"$partition"}
once "requeue-$id"
if ((${CHECKPOINT_SECONDS:-0})); then
	act "${as[@]}" scancel --signal=USR1 "$id"
	act sleep "$CHECKPOINT_SECONDS"
	[[ -n $(running) ]] || refuse "job $id has ended by itself"
fi
act "${as[@]}" scontrol requeue "$id"
