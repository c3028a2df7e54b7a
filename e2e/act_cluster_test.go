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
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

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
