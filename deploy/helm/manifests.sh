#!/usr/bin/env bash
# Renders the plain manifests of examples/kubernetes from the chart.
#
#   deploy/helm/manifests.sh HELM OUT
set -euo pipefail
cd "$(dirname "$0")/../.."

render() { # FILE FLAG...
	local file=$1
	shift
	"$helm" template gpu-leak-exporter deploy/helm/gpu-leak-exporter --namespace=gpu-leak-exporter "$@" 2>/dev/null | grep -v '^# Source: ' > "$out/$file"
}

helm=$1 out=$2
render daemonset.body
{
	cat <<'END'
# gpu_leak_exporter on every node with an NVIDIA GPU. Rendered from deploy/helm/gpu-leak-exporter, which has more choices.
apiVersion: v1
kind: Namespace
metadata:
  name: gpu-leak-exporter
  labels:
    # hostPID and hostPath need it.
    pod-security.kubernetes.io/enforce: privileged
END
	cat "$out/daemonset.body"
} > "$out/daemonset.yaml"
rm "$out/daemonset.body"
render podmonitor.yaml --set=podMonitor.enabled=true --show-only=templates/podmonitor.yaml
render networkpolicy.yaml --set=networkPolicy.enabled=true --show-only=templates/networkpolicy.yaml
