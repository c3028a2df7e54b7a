// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// clusterPatience is for what a controller does in seconds: past it something hangs.
const clusterPatience = 10 * time.Minute

// nodes are one with a GPU, with the labels of all clusters that there are values for, and one without. The role is one that OpenShift
// makes.
const nodes = `
apiVersion: v1
kind: Node
metadata:
  name: gpu
  labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.deploy.client: "true", cloud.google.com/gke-accelerator: nvidia-l4}
---
apiVersion: v1
kind: Node
metadata:
  name: other
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: system:openshift:scc:privileged
rules:
  - {apiGroups: [security.openshift.io], resources: [securitycontextconstraints], resourceNames: [privileged], verbs: [use]}
`

// runtimeClass is what the NVIDIA container toolkit, or the GPU Operator, makes.
const runtimeClass = `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata:
  name: nvidia
handler: nvidia
`

// cluster is a real API server with controllers, and two nodes on which nothing runs.
type cluster struct{ *harness.Kubernetes }

// TestCluster has a real Kubernetes take the manifests and the chart, and make the pods, or refuse them where the documents say so.
func TestCluster(t *testing.T) {
	c := cluster{harness.StartKubernetes(t)}
	for _, crd := range []string{"podmonitors", "prometheusrules"} {
		c.Kubectl(t, "create", "--filename="+filepath.Join(harness.ExternalTool(t, "crds"), "monitoring.coreos.com_"+crd+".yaml"))
	}
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout="+clusterPatience.String(), "crd", "--all")
	c.apply(t, nodes)
	t.Run("no RuntimeClass", c.noRuntimeClass)
	c.apply(t, runtimeClass)
	t.Run("manifests", c.manifests)
	t.Run("values", c.values)
	t.Run("Pod Security", c.podSecurity)
	t.Run("rights", c.rights)
}

// apply has the API server try a manifest, and then take it.
func (c cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	n, err := c.Apply(manifest)
	if err != nil || n == 0 {
		t.Fatalf("%d objects, %v, in\n%.4000s", n, err, manifest)
	}
}

// namespace makes one whose pods have to keep to this level of Pod Security.
func (c cluster) namespace(t *testing.T, name, level string) {
	t.Helper()
	c.Kubectl(t, "create", "namespace", name)
	c.Kubectl(t, "label", "namespace", name, "pod-security.kubernetes.io/enforce="+level)
}

// helm runs helm, which has to succeed.
func (c cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	return c.Run(t, "helm", "", args...)
}

// install installs the chart as a release with the name of its namespace.
func (c cluster) install(t *testing.T, namespace string, args ...string) {
	t.Helper()
	c.helm(t, append([]string{"install", namespace, chartDir(), "--namespace=" + namespace}, args...)...)
}

// pods waits until the namespace has these pods and no more; each is the node that it is for.
func (c cluster) pods(t *testing.T, namespace string, want ...string) {
	t.Helper()
	harness.Eventually(t, clusterPatience, func() error {
		got := strings.Fields(c.Kubectl(t, "get", "pods", "--namespace="+namespace,
			"--output=jsonpath={.items[*].spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*].matchFields[*].values[*]}"))
		if !slices.Equal(got, want) {
			return fmt.Errorf("there are pods for the nodes %q, want %q: %s", got, want, c.refusals(t, namespace))
		}
		return nil
	})
}

// refusals returns why pods of the namespace were not made.
func (c cluster) refusals(t *testing.T, namespace string) string {
	t.Helper()
	return c.Kubectl(t, "get", "events", "--namespace="+namespace, "--field-selector=reason=FailedCreate", `--output=jsonpath={range .items[*]}{.message}{"\n"}{end}`)
}

// refused waits until a pod was refused for this reason, and holds that none was made.
func (c cluster) refused(t *testing.T, namespace, reason string) {
	t.Helper()
	pattern := regexp.MustCompile(reason)
	harness.Eventually(t, clusterPatience, func() error {
		if got := c.refusals(t, namespace); !pattern.MatchString(got) {
			return fmt.Errorf("pods were refused for %q, want %q", got, reason)
		}
		return nil
	})
	c.pods(t, namespace)
}

// noRuntimeClass has the chart on a cluster whose values files say that there is none: only those are taken.
func (c cluster) noRuntimeClass(t *testing.T) {
	for _, name := range []string{"gke", "dra"} {
		c.namespace(t, name, "privileged")
		c.install(t, name, "--values="+filepath.Join(chartDir(), "values", name+".yaml"))
		c.pods(t, name, "gpu")
	}
	c.namespace(t, "no-class", "privileged")
	c.install(t, "no-class")
	c.refused(t, "no-class", `RuntimeClass "nvidia" not found`)
}

// manifests has the plain manifests taken in the order of their names, all in one cluster.
func (c cluster) manifests(t *testing.T) {
	dir := filepath.Join(harness.Root(), "examples/kubernetes")
	files, _ := filepath.Glob(filepath.Join(dir, "*.yaml")) // fails only if the pattern is wrong
	for _, file := range files {
		if filepath.Base(file) == "probe.yaml" { // a patch
			continue
		}
		c.apply(t, harness.ReadFile(t, file))
	}
	if len(files) < 5 {
		t.Fatalf("only %q", files)
	}
	const namespace = "gpu-leak-exporter"
	c.pods(t, namespace, "gpu")
	// As its first lines tell.
	for _, more := range [][]string{{"--dry-run=server"}, nil} {
		c.Kubectl(t, append([]string{"--namespace=" + namespace, "patch", "daemonset", "gpu-leak-exporter", "--patch-file=" + filepath.Join(dir, "probe.yaml")}, more...)...)
	}
	rights := c.Kubectl(t, "--namespace="+namespace, "get", "daemonset", "gpu-leak-exporter", "--output=jsonpath={.spec.template.spec.containers[*].securityContext.capabilities}")
	if rights != `{"add":["SYS_PTRACE","DAC_READ_SEARCH"],"drop":["ALL"]}` {
		t.Errorf("with probe.yaml it has %s", rights)
	}
	harness.Eventually(t, clusterPatience, func() error {
		if got := c.Kubectl(t, "get", "pods", "--namespace=gpu-leak-exporter-fleet", "--output=name"); strings.Count(got, "pod/") != 1 {
			return errors.New("no pod of fleet.yaml: " + got + c.refusals(t, "gpu-leak-exporter-fleet"))
		}
		return nil
	})
	c.isSelected(t, namespace, "networkpolicy/gpu-leak-exporter", ".spec.podSelector")
	c.isSelected(t, namespace, "podmonitor/gpu-leak-exporter", ".spec.selector")
}

// isSelected holds what an object selects to the one pod of its namespace.
func (c cluster) isSelected(t *testing.T, namespace, object, selector string) {
	t.Helper()
	got := c.Kubectl(t, "--namespace="+namespace, "get", object, "--output=go-template={{range $k, $v := "+selector+".matchLabels}}{{$k}}={{$v}},{{end}}")
	pods := c.Kubectl(t, "--namespace="+namespace, "get", "pods", "--output=name", "--selector="+strings.TrimSuffix(got, ","))
	equal(t, strings.Count(pods, "pod/"), 1, "pods that %s selects by %s: %q", object, got, pods)
}

// values has helm install, upgrade and uninstall the chart for each cluster that there are values for.
func (c cluster) values(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(chartDir(), "values/*.yaml")) // fails only if the pattern is wrong
	for _, file := range append(files, filepath.Join(chartDir(), "values.yaml")) {
		name := "with-" + strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			c.namespace(t, name, "privileged")
			const kinds = "daemonsets,serviceaccounts,configmaps,rolebindings,networkpolicies,podmonitors,prometheusrules,secrets"
			list := func() string { return c.Kubectl(t, "get", kinds, "--namespace="+name, "--output=name") }
			harness.Eventually(t, clusterPatience, func() error {
				if before := list(); before != "serviceaccount/default\n" {
					return fmt.Errorf("a namespace begins with %q", before)
				}
				return nil
			})
			// Without Helm in the cluster, as GitOps tools do it: the text is tried, taken, and taken away.
			text := c.helm(t, "template", name, chartDir(), "--namespace="+name, "--values="+file)
			_, text, _ = strings.Cut(text, "---\n") // helm says something before it
			c.apply(t, text)
			c.pods(t, name, "gpu")
			c.Kubectl(t, "delete", kinds, "--all", "--namespace="+name)
			c.pods(t, name)

			c.install(t, name, "--values="+file)
			c.pods(t, name, "gpu")
			c.helm(t, "upgrade", name, chartDir(), "--namespace="+name, "--values="+file, "--set=port=9999")
			port := c.Kubectl(t, "--namespace="+name, "get", "daemonset", name+"-gpu-leak-exporter", "--output=jsonpath={.spec.template.spec.containers[*].ports[*].containerPort}")
			equal(t, port, "9999", "port after an upgrade")
			c.helm(t, "uninstall", name, "--namespace="+name)
			c.pods(t, name)
			equal(t, list(), "serviceaccount/default\n", "what uninstall leaves")
		})
	}
}

// podSecurity has the pods refused where the level is not privileged, for the two things that the chart's README names; and those for a fleet taken.
func (c cluster) podSecurity(t *testing.T) {
	c.namespace(t, "baseline", "baseline")
	c.install(t, "baseline")
	c.refused(t, "baseline", `violates PodSecurity "baseline:latest": host namespaces \(hostPID=true\), hostPath volumes \(volumes "runtime", "pod-resources", "state"\)\n`)
	c.Kubectl(t, "label", "namespace", "baseline", "pod-security.kubernetes.io/enforce=privileged", "--overwrite") // as the notes of the chart tell
	c.pods(t, "baseline", "gpu")
	if level := c.Kubectl(t, "get", "namespace", "gpu-leak-exporter-fleet", `--output=jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`); level != "restricted" {
		t.Errorf("the level of fleet.yaml is %q", level)
	}
}

// rights has the chart installed by who may only write into its namespace. What it runs as may do nothing, and on OpenShift
// what the binding says.
func (c cluster) rights(t *testing.T) {
	c.namespace(t, "rights", "privileged")
	c.Kubectl(t, "create", "rolebinding", "owner", "--namespace=rights", "--clusterrole=admin", "--user=owner")
	c.install(t, "rights", "--kube-as-user=owner")
	c.pods(t, "rights", "gpu")
	may := func(verb, group, resource, name string) string {
		return c.may(t, "system:serviceaccount:rights:rights-gpu-leak-exporter", "rights", verb, group, resource, name)
	}
	for _, resource := range []string{"pods", "secrets", "nodes", "configmaps"} {
		equal(t, may("get", "", resource, ""), "false", "may the exporter get %s", resource)
	}
	useConstraints := func() string {
		return may("use", "security.openshift.io", "securitycontextconstraints", "privileged")
	}
	equal(t, useConstraints(), "false", "may it use the constraints without openshift.yaml")
	c.helm(t, "upgrade", "rights", chartDir(), "--namespace=rights", "--values="+filepath.Join(chartDir(), "values/openshift.yaml"))
	harness.Eventually(t, clusterPatience, func() error { // RBAC sees a binding a moment later
		if got := useConstraints(); got != "true" {
			return errors.New("with openshift.yaml it may not use the constraints: " + got)
		}
		return nil
	})
}

// may returns whether a user may do something: "true" or "false". A resource can have a part, as in pods/eviction.
func (c cluster) may(t *testing.T, user, namespace, verb, group, resource, name string) string {
	t.Helper()
	resource, part, _ := strings.Cut(resource, "/")
	review := fmt.Sprintf(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": %q,
		"resourceAttributes": {"namespace": %q, "verb": %q, "group": %q, "resource": %q, "subresource": %q, "name": %q}}}`, user, namespace, verb, group, resource, part, name)
	return c.Run(t, "kubectl", review, "create", "--filename=-", "--output=jsonpath={.status.allowed}")
}
