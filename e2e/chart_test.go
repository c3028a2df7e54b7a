// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

var update = flag.Bool("update", false, "rewrite testdata/chart")

// chartDir is the folder of the chart.
func chartDir() string { return filepath.Join(harness.Root(), "deploy/helm/gpu-leak-exporter") }

// helm runs helm and returns what it prints on its standard output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(harness.ExternalTool(t, "helm"), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, out, stderr.Bytes())
	}
	return string(out), err
}

// render renders the chart with more flags.
func render(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "gpu-leak-exporter", chartDir(), "--namespace=gpu-leak-exporter"}, args...)...)
	harness.Must(t, err)
	return out
}

// ours are the bodies of rules and dashboards, which TestChartFiles compares.
var ours = regexp.MustCompile(`(?m)^(spec:\n  groups:|  gpu-leak-exporter-\w+\.json: \|)\n((?:  .*)?\n)+`)

// TestChart holds what the chart makes for common clusters against files that a reviewer sees change.
func TestChart(t *testing.T) {
	t.Parallel()
	if out, err := helm(t, "lint", "--strict", chartDir()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	values, _ := filepath.Glob(filepath.Join(chartDir(), "values/*.yaml")) // fails only if the pattern is wrong
	if len(values) < 5 {
		t.Fatalf("values %q", values)
	}
	for _, file := range append(values, "") {
		var flags []string
		name := "default.yaml"
		if file != "" {
			flags, name = []string{"--values=" + file}, filepath.Base(file)
		}
		got := ours.ReplaceAllString(render(t, flags...), "$1 # as in dashboards/\n")
		path := filepath.Join("testdata/chart", name)
		if *update {
			harness.WriteFile(t, path, got)
		} else if want := harness.ReadFile(t, path); got != want {
			t.Errorf("%s: it has changed; if this is as it should be: go test -tags e2e -run TestChart -update .\n%s", name, got)
		}
	}
}

// TestChartFiles holds rules and dashboards in the cluster to those that the mixin was rendered to.
func TestChartFiles(t *testing.T) {
	t.Parallel()
	text := render(t, "--set=prometheusRule.enabled=true,dashboards.enabled=true")
	seen := map[string]bool{}
	for _, doc := range documents[struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string]string
		Spec     any
	}](t, text) {
		switch doc.Kind {
		case "ConfigMap":
			for key, content := range doc.Data {
				file := strings.TrimPrefix(key, "gpu-leak-exporter-")
				seen[file] = content == harness.ReadFile(t, filepath.Join(harness.Root(), "dashboards", file))
			}
		case "PrometheusRule":
			file := strings.TrimPrefix(doc.Metadata.Name, "gpu-leak-exporter-") + ".yaml"
			var want any
			harness.Must(t, yaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(harness.Root(), "dashboards", file))), &want))
			seen[file] = fmt.Sprint(doc.Spec) == fmt.Sprint(want)
		}
	}
	files, _ := filepath.Glob(filepath.Join(harness.Root(), "dashboards/*")) // fails only if the pattern is wrong
	for _, f := range files {
		if name := filepath.Base(f); !seen[name] {
			t.Errorf("%s is not in the cluster as it is here", name)
		}
	}
}

// object is what tells one object of a cluster from another, and what it selects.
type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Selector    labelSelector
		PodSelector labelSelector `yaml:"podSelector"`
	}
}

type labelSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// TestChartReleases has two releases in one namespace: they share no object and select no pod of each other.
func TestChartReleases(t *testing.T) {
	t.Parallel()
	const all = "--set=podMonitor.enabled=true,serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true,networkPolicy.enabled=true,openshiftSCC=privileged,detectorConfig.groups[0].name=a"
	owner := map[string]string{}
	for _, release := range []string{"gpu-leak-exporter", "old", "gpu-leak-exporter-b"} {
		out, err := helm(t, "template", release, chartDir(), "--namespace=gpu-leak-exporter", all)
		harness.Must(t, err)
		kinds := map[string]bool{}
		for _, o := range documents[object](t, out) {
			name := o.Kind + "/" + o.Metadata.Name
			equal(t, owner[name], "", "whose %s is besides %s", name, release)
			owner[name], kinds[o.Kind] = release, true
			selects := cmp.Or(o.Spec.Selector.MatchLabels["app.kubernetes.io/instance"], o.Spec.PodSelector.MatchLabels["app.kubernetes.io/instance"])
			if slices.Contains([]string{"DaemonSet", "PodMonitor", "ServiceMonitor", "NetworkPolicy"}, o.Kind) && selects != release {
				t.Errorf("%s of %s selects the pods of %q", name, release, selects)
			}
		}
		equal(t, len(kinds), 9, "kinds that the chart makes, %v", kinds)
	}
}

// TestChartValues has wrong values refused, and right ones do what they say.
func TestChartValues(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"driver.runtimClassName=x", "port=0", "extraArgs={web.max-requests=5}", "image.pullPolicy=Sometimes", "image.repository=gpu-leak-exporter", "cri.socket=run/x.sock"} {
		if out, err := helm(t, "template", chartDir(), "--set="+wrong); err == nil {
			t.Errorf("%s is taken: %s", wrong, out)
		}
	}
	for _, c := range []struct{ set, want, not string }{
		{"webConfigSecret=tls", "tcpSocket:", "httpGet:"},
		{"probe.enabled=true", "add: [SYS_PTRACE, DAC_READ_SEARCH]", ""},
		{"sites.enabled=true,probe.enabled=true", "- --collector.allocator.sites", ""},
		{"extraEnv[0].name=A,extraVolumes[0].name=ca,extraVolumeMounts[0].name=ca", "- name: A\n", ""},
		{"serviceMonitor.enabled=true", "regex: namespace|pod|container|endpoint|service\n", "kind: PodMonitor"},
		{"cri.enabled=false,podResources.enabled=false", "- --web.listen-address=:9844", "-socket="},
		{"priorityClassName=system-node-critical", "priorityClassName: system-node-critical", ""},
		{"driver.runtimeClassName=", "hostPID: true", "runtimeClassName"},
		{"detectorConfig.groups[0].name=a", "--detector.config=/etc/gpu_leak_exporter/detector/detector.yml", ""},
		{"extraArgs={--log.level=debug}", `- "--log.level=debug"`, ""},
	} {
		text := render(t, "--set="+c.set)
		if !strings.Contains(text, c.want) || (c.not != "" && strings.Contains(text, c.not)) {
			t.Errorf("%s: want %q and not %q\n%s", c.set, c.want, c.not, text)
		}
	}
}

// TestChartManifests holds the plain manifests to what the chart makes.
func TestChartManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.Run(t, exec.Command(filepath.Join(harness.Root(), "deploy/helm/manifests.sh"), harness.ExternalTool(t, "helm"), dir))
	for _, name := range []string{"daemonset.yaml", "podmonitor.yaml", "networkpolicy.yaml"} {
		if harness.ReadFile(t, filepath.Join(dir, name)) != harness.ReadFile(t, filepath.Join(harness.Root(), "examples/kubernetes", name)) {
			t.Errorf("%s is not what the chart makes: make manifests", name)
		}
	}
}

// daemonSet is what the node is told of the container.
type daemonSet struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				HostPID    bool `yaml:"hostPID"`
				Containers []struct {
					Image           string
					Args            []string
					Env             []struct{ Name, Value string }
					SecurityContext struct {
						RunAsUser                int64 `yaml:"runAsUser"`
						ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
						AllowPrivilegeEscalation bool  `yaml:"allowPrivilegeEscalation"`
						Capabilities             struct{ Add, Drop []string }
					} `yaml:"securityContext"`
					VolumeMounts []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
						ReadOnly  bool   `yaml:"readOnly"`
					} `yaml:"volumeMounts"`
				}
			}
		}
	}
}

func chartDaemonSet(t *testing.T) daemonSet {
	t.Helper()
	sets := slices.DeleteFunc(documents[daemonSet](t, render(t)), func(s daemonSet) bool { return s.Kind != "DaemonSet" })
	if len(sets) == 0 {
		t.Fatal("the chart has no DaemonSet")
	}
	return sets[0]
}

// container returns what the kubelet would ask the runtime for. The volumes are these folders.
func (s *daemonSet) container(t *testing.T, image string, volumes map[string]string) *cri.ContainerConfig {
	t.Helper()
	c := s.Spec.Template.Spec.Containers[0]
	rights := c.SecurityContext
	if !s.Spec.Template.Spec.HostPID || rights.AllowPrivilegeEscalation || !slices.Equal(rights.Capabilities.Drop, []string{"ALL"}) {
		t.Fatalf("the chart gives %+v", rights)
	}
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "gpu-leak-exporter"},
		Image:    &cri.ImageSpec{Image: image},
		Args:     slices.Clone(c.Args),
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_NODE},
			RunAsUser:        &cri.Int64Value{Value: rights.RunAsUser},
			ReadonlyRootfs:   rights.ReadOnlyRootFilesystem,
			NoNewPrivs:       true,
			Capabilities:     &cri.Capability{AddCapabilities: rights.Capabilities.Add, DropCapabilities: rights.Capabilities.Drop},
			Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
		}},
	}
	for _, e := range c.Env {
		config.Envs = append(config.Envs, &cri.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	for _, m := range c.VolumeMounts {
		if volumes[m.Name] == "" {
			t.Fatalf("there is no volume %s", m.Name)
		}
		config.Mounts = append(config.Mounts, &cri.Mount{HostPath: volumes[m.Name], ContainerPath: m.MountPath, Readonly: m.ReadOnly})
	}
	return config
}
