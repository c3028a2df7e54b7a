#!/usr/bin/env bash
# Kubernetes: evicts a pod that leaks, and has an Event tell its owner; cordons a node whose GPU lost memory.
# The annotation gpu-leak/act allows it: restart, or only event, on the pod; cordon on the node.
source "$(dirname "$0")/guard.sh" || exit 1

case $LABEL_ALERTNAME in GPUECCUncorrectable | GPURowRemapFailed)
	node=${LABEL_INSTANCE-}
	node=${node%:*} # without the port
	named "$node"
	allowed=$(kubectl get node "$node" --output='jsonpath={.metadata.annotations.gpu-leak/act}') || fail "cannot read node $node"
	[[ $allowed == cordon ]] || refuse "node $node has no annotation gpu-leak/act: cordon"
	once "cordon-$node"
	act kubectl cordon "$node"
	exit
	;;
esac

namespace=${LABEL_NAMESPACE-} pod=${LABEL_POD-}
named "$LABEL_ALERTNAME" "${LABEL_SEVERITY-}" "$namespace" "$pod"
it=$(kubectl get pod "$pod" --namespace="$namespace" --output='jsonpath={.metadata.uid}|{.metadata.creationTimestamp}|{.metadata.ownerReferences[0].kind}|{.metadata.annotations.gpu-leak/act}') ||
	fail "cannot read pod $namespace/$pod"
IFS='|' read -r uid created owner allowed <<<"$it"
[[ $allowed == restart || $allowed == event ]] || refuse "pod $namespace/$pod has no annotation gpu-leak/act: restart"
older "pod $namespace/$pod" "$created"
paged && [[ $allowed == restart ]] && verb=evict || verb=event
[[ $verb == event || -n $owner ]] || refuse "nothing would start pod $namespace/$pod again"
once "$verb-$LABEL_ALERTNAME-${LABEL_SEVERITY-}-$namespace.$pod"

rate=$(curl --silent --fail --max-time 10 --get "${PROMETHEUS-}/api/v1/query" --data-urlencode "query=sum(gpu_process_leak_rate_bytes_per_second{namespace=\"$namespace\",pod=\"$pod\"})*60/1048576" |
	jq --raw-output '.data.result[] | "leaks \(.value[1] | tonumber | round) MiB/min; "') || rate= # the Event is of use without it
# No pipes: a dry run reads nothing, which would fail jq.
(act kubectl create --raw="/api/v1/namespaces/$namespace/events" --filename=- < <(jq --null-input --arg ns "$namespace" --arg pod "$pod" --arg uid "$uid" --arg text "$rate${SUMMARY-} ${DESCRIPTION-}" --arg alert "$LABEL_ALERTNAME" --arg now "$(date --utc +%FT%TZ)" '
	{apiVersion: "v1", kind: "Event", metadata: {generateName: "gpu-leak-", namespace: $ns}, type: "Warning", reason: $alert, message: $text[:1000],
	 involvedObject: {apiVersion: "v1", kind: "Pod", namespace: $ns, name: $pod, uid: $uid}, source: {component: "gpu-leak-act"}, firstTimestamp: $now, lastTimestamp: $now, count: 1}')) || say "the owner is not told"

[[ $verb == evict ]] || exit 0
act kubectl create --raw="/api/v1/namespaces/$namespace/pods/$pod/eviction" --filename=- < <(jq --null-input --arg ns "$namespace" --arg pod "$pod" --arg uid "$uid" '
	{apiVersion: "policy/v1", kind: "Eviction", metadata: {name: $pod, namespace: $ns}, deleteOptions: {preconditions: {uid: $uid}}}')
