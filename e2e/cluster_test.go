// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// actNodes are one that may be cordoned, and one that may not.
const actNodes = `
apiVersion: v1
kind: Node
metadata: {name: listed, annotations: {gpu-leak/act: cordon}}
---
apiVersion: v1
kind: Node
metadata: {name: other}
`

// actPods are deployments whose pods may be evicted, may only be told of, and neither; the first has a budget.
const actPods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: ml}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {gpu-leak/act: "%[2]s"}}
    spec: {containers: [{name: train, image: train}]}
`

const actUser = "system:serviceaccount:gpu-leak-act:gpu-leak-act"

// actCluster runs kubernetes.sh with kubectl and the rights of examples/act/kubernetes.yaml.
type actCluster struct {
	cluster
	kubeconfig string
}

// TestClusterAct has a real API server take what kubernetes.sh asks of it, with the rights of the example, and refuse all else.
func TestClusterAct(t *testing.T) {
	c := actCluster{cluster: cluster{harness.StartKubernetes(t)}}
	c.Kubectl(t, "create", "namespace", "ml")
	c.apply(t, actNodes)
	c.apply(t, harness.ReadExample(t, "act/kubernetes.yaml"))
	for name, allowed := range map[string]string{"leaks": "restart", "told": "event", "other": ""} {
		c.apply(t, fmt.Sprintf(actPods, name, allowed))
	}
	token := c.Kubectl(t, "--namespace=gpu-leak-act", "create", "token", "gpu-leak-act")
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	harness.WriteFile(t, c.kubeconfig, harness.Replace(t, harness.ReadFile(t, c.Kubeconfig), `"token": "admin"`, `"token": "`+token+`"`, 1))
	t.Run("rights", c.rights)
	t.Run("pods", c.podActs)
	t.Run("nodes", c.nodeActs)
	t.Run("runner", c.runner)
}

// rights has the runner allowed what the scripts need, and nothing else.
func (c actCluster) rights(t *testing.T) {
	for _, r := range []struct {
		namespace, verb, group, resource string
		want                             string
	}{
		{"ml", "get", "", "pods", "true"},
		{"ml", "create", "", "pods/eviction", "true"},
		{"ml", "create", "", "events", "true"},
		{"", "get", "", "nodes", "true"},
		{"", "patch", "", "nodes", "true"},
		{"other", "get", "", "pods", "false"},
		{"kube-system", "create", "", "pods/eviction", "false"},
		{"ml", "list", "", "pods", "false"},
		{"ml", "delete", "", "pods", "false"},
		{"ml", "create", "", "pods", "false"},
		{"ml", "patch", "", "pods", "false"},
		{"ml", "create", "", "pods/exec", "false"},
		{"ml", "get", "", "secrets", "false"},
		{"gpu-leak-act", "get", "", "secrets", "false"},
		{"ml", "patch", "apps", "deployments", "false"},
		{"", "list", "", "nodes", "false"},
		{"", "delete", "", "nodes", "false"},
		{"", "patch", "", "nodes/status", "false"},
	} {
		equal(t, c.may(t, actUser, r.namespace, r.verb, r.group, r.resource, ""), r.want, "may it %s %s in %q", r.verb, r.resource, r.namespace)
	}
}

// runner has the manifest of the runner taken, and its pod made under the strictest level of Pod Security.
func (c actCluster) runner(t *testing.T) {
	c.apply(t, harness.ReadExample(t, "act/runner.yaml"))
	harness.Eventually(t, clusterPatience, func() error {
		if got := c.Kubectl(t, "get", "pods", "--namespace=gpu-leak-act", "--output=name"); strings.Count(got, "pod/") != 1 {
			return errors.New("no pod of runner.yaml: " + got + c.refusals(t, "gpu-leak-act"))
		}
		return nil
	})
}

// script runs kubernetes.sh on an alert, by labels in the form NAME=value, and returns what it prints.
func (c actCluster) script(t *testing.T, dry string, labels ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(harness.Root(), "examples/act/kubernetes.sh"))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(harness.ExternalTool(t, "kubectl"))+":"+os.Getenv("PATH"), "KUBECONFIG="+c.kubeconfig, "HOME="+t.TempDir(),
		"STATE_DIRECTORY="+t.TempDir(), "DRY_RUN="+dry, "LABEL_SEVERITY=critical", "LABEL_EVIDENCE=leak", "SUMMARY=GPU 0 of node7 runs out of memory in 55m.", "DESCRIPTION=\"train.py\" grows.",
		"STARTS_AT="+time.Now().Add(time.Minute).Format(time.RFC3339Nano))
	cmd.Env = append(cmd.Env, labels...)
	out, err := cmd.CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}

// pod waits for the pod of a deployment, and returns its name.
func (c actCluster) pod(t *testing.T, deployment string) (name string) {
	t.Helper()
	harness.Eventually(t, clusterPatience, func() error {
		list := strings.Fields(c.Kubectl(t, "get", "pods", "--namespace=ml", "--selector=app="+deployment, "--output=jsonpath={.items[*].metadata.name}"))
		if len(list) != 1 {
			return fmt.Errorf("%s has the pods %q", deployment, list)
		}
		name = list[0]
		return nil
	})
	return name
}

// podActs evicts the pod that is on the list, and tells the owners of two.
func (c actCluster) podActs(t *testing.T) {
	act := func(dry, pod string) string {
		return c.script(t, dry, "LABEL_ALERTNAME=GPUOutOfMemoryPredicted", "LABEL_NAMESPACE=ml", "LABEL_POD="+pod)
	}
	leaks, told, other := c.pod(t, "leaks"), c.pod(t, "told"), c.pod(t, "other")
	for _, r := range []struct{ dry, pod, want string }{
		{"1", leaks, "dry run, would run: kubectl create --raw=/api/v1/namespaces/ml/pods/" + leaks + "/eviction"},
		{"0", other, "nothing done: pod ml/" + other + " has no annotation"},
		{"0", "nobody", "FAILED: cannot read pod ml/nobody"},
		{"0", told, "runs: kubectl create --raw=/api/v1/namespaces/ml/events --filename=-\n<nil>"},
	} {
		if got := act(r.dry, r.pod); !strings.Contains(got, r.want) {
			t.Errorf("%s: it says %s, want %s", r.pod, got, r.want)
		}
	}
	if got := c.Kubectl(t, "describe", "pod", "--namespace=ml", told); !strings.Contains(got, `gpu-leak-act  GPU 0 of node7 runs out of memory in 55m. "train.py" grows.`) {
		t.Errorf("the owner sees %s", got)
	}
	c.budget(t, leaks, act)
	if got := c.pod(t, "leaks"); got != leaks {
		t.Fatalf("%s is there after refusals, want %s", got, leaks)
	}
	if got := act("0", leaks); !strings.HasSuffix(got, "/eviction --filename=-\n<nil>") {
		t.Errorf("it says %s", got)
	}
	harness.Eventually(t, clusterPatience, func() error {
		// No kubelet says that it has ended.
		if got := c.Kubectl(t, "get", "pod", "--namespace=ml", leaks, "--ignore-not-found", "--output=jsonpath={.metadata.name}{.metadata.deletionTimestamp}"); got == leaks {
			return errors.New("it was not evicted")
		}
		return nil
	})
	for _, left := range []string{c.pod(t, "told"), c.pod(t, "other")} {
		if left != told && left != other {
			t.Errorf("%s is new", left)
		}
	}
}

// budget has a PodDisruptionBudget hold for the runner, too.
func (c actCluster) budget(t *testing.T, pod string, act func(dry, pod string) string) {
	t.Helper()
	c.Kubectl(t, "create", "poddisruptionbudget", "leaks", "--namespace=ml", "--selector=app=leaks", "--min-available=1")
	c.Kubectl(t, "patch", "pod", pod, "--namespace=ml", "--subresource=status", `--patch={"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`)
	if got := act("0", pod); !strings.Contains(got, "disruption budget") || !strings.Contains(got, "FAILED: kubectl create") || !strings.HasSuffix(got, "exit status 1") {
		t.Errorf("with a budget it says %s", got)
	}
	c.Kubectl(t, "delete", "poddisruptionbudget", "leaks", "--namespace=ml")
}

// nodeActs cordons the node that is on the list, and has the API server refuse any other change of a node.
func (c actCluster) nodeActs(t *testing.T) {
	as := func(args ...string) string {
		cmd := exec.Command(harness.ExternalTool(t, "kubectl"), append([]string{"--kubeconfig=" + c.kubeconfig}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, _ := cmd.CombinedOutput() // what it prints says whether it failed
		return string(out)
	}
	for _, args := range [][]string{
		{"cordon", "other"}, {"label", "node", "listed", "a=b"}, {"annotate", "node", "other", "gpu-leak/act=cordon"}, {"taint", "node", "listed", "a=b:NoSchedule"},
	} {
		harness.Eventually(t, clusterPatience, func() error { // it takes a moment until a policy holds
			if got := as(append(args, "--dry-run=server")...); !strings.Contains(got, "ValidatingAdmissionPolicy 'gpu-leak-act' with binding 'gpu-leak-act' denied request") {
				return fmt.Errorf("%q: %s", args, got)
			}
			return nil
		})
	}
	for _, r := range []struct{ dry, node, want, unschedulable string }{
		{"1", "listed", "dry run, would run: kubectl cordon listed", ""},
		{"0", "other", "nothing done: node other has no annotation", ""},
		{"0", "listed", "runs: kubectl cordon listed\n<nil>", "true"},
	} {
		if got := c.script(t, r.dry, "LABEL_ALERTNAME=GPURowRemapFailed", "LABEL_INSTANCE="+r.node+":9844"); !strings.Contains(got, r.want) {
			t.Errorf("%s: it says %s, want %s", r.node, got, r.want)
		}
		if got := c.Kubectl(t, "get", "node", r.node, "--output=jsonpath={.spec.unschedulable}"); got != r.unschedulable {
			t.Errorf("%s: unschedulable is %q", r.node, got)
		}
	}
}
