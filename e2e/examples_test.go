// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// manifest is what is of interest of one.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Name            string
					Args            []string
					SecurityContext struct{ Capabilities struct{ Add, Drop []string } } `yaml:"securityContext"`
				}
			}
		}
	}
}

func manifests(t *testing.T, name string) (text string, list []manifest) {
	t.Helper()
	text = harness.ReadExample(t, name)
	return text, documents[manifest](t, text)
}

// documents returns those of a text in YAML.
func documents[T any](t *testing.T, text string) (list []T) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one T
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%v in\n%.1000s", err, text)
		}
		list = append(list, one)
	}
}

// TestExamplesProbe holds the options that let the exporter read probes to what they change: the same
// rights for both, the container of the manifest, and neither has them without.
func TestExamplesProbe(t *testing.T) {
	want := []string{"SYS_PTRACE", "DAC_READ_SEARCH"}
	_, base := manifests(t, "kubernetes/daemonset.yaml")
	text, patch := manifests(t, "kubernetes/probe.yaml")
	set := base[len(base)-1]
	if set.Kind != "DaemonSet" || len(patch) != 1 {
		t.Fatalf("%+v, %+v", base, patch)
	}
	if command := "kubectl --namespace=" + set.Metadata.Namespace + " patch daemonset " + set.Metadata.Name + " "; !strings.Contains(text, command) {
		t.Errorf("the patch does not say %q", command)
	}
	from, to := set.Spec.Template.Spec.Containers, patch[0].Spec.Template.Spec.Containers
	if len(to) != 1 || len(from) != 1 || to[0].Name != from[0].Name {
		t.Errorf("the patch is of %+v, the manifest has %+v", to, from)
	}
	if got := to[0].SecurityContext.Capabilities; !slices.Equal(got.Add, want) || !slices.Equal(got.Drop, []string{"ALL"}) {
		t.Errorf("the patch adds %v and drops %v", got.Add, got.Drop)
	}
	if got := from[0].SecurityContext.Capabilities; got.Add != nil || !slices.Equal(got.Drop, []string{"ALL"}) {
		t.Errorf("the manifest adds %v and drops %v", got.Add, got.Drop)
	}

	rights := "CAP_" + strings.Join(want, " CAP_")
	for name, value := range map[string]string{"probe.conf": rights, "gpu_leak_exporter.service": ""} {
		got := regexp.MustCompile(`(?m)^(?:CapabilityBoundingSet|AmbientCapabilities)=(.*)$`).FindAllStringSubmatch(harness.ReadExample(t, name), -1)
		if len(got) != 2 || got[0][1] != value || got[1][1] != value {
			t.Errorf("%s says %q, want twice %q", name, got, value)
		}
	}
}

// TestExamplesCompose has each file that is mounted be there, and in the place where its reader looks.
func TestExamplesCompose(t *testing.T) {
	list := documents[struct {
		Services map[string]struct {
			Volumes []any
			Configs []struct{ Source string }
		}
		Configs map[string]struct{ Content string }
	}](t, harness.ReadExample(t, "compose.yaml"))
	for name, service := range list[0].Services {
		for _, volume := range service.Volumes {
			text, short := volume.(string)
			if !short {
				continue // the program, which is built
			}
			from, to, _ := strings.Cut(strings.TrimSuffix(text, ":ro"), ":")
			if _, err := os.Stat(filepath.Join(harness.Root(), "examples", from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if rules, _ := filepath.Match("/etc/prometheus/rules/gpu_leak_exporter/*.yaml", to); !rules && strings.HasPrefix(from, "../dashboards/") {
				t.Errorf("%s: prometheus.yml does not look in %s", name, to)
			}
		}
		for _, c := range service.Configs {
			equal(t, len(documents[map[string]any](t, list[0].Configs[c.Source].Content)), 1, "%s: documents in %s", name, c.Source)
		}
	}
}

// TestExamplesActGuard runs the scripts by their bare names in their folder, where they read their guard, and without it, where they
// end at once.
func TestExamplesActGuard(t *testing.T) {
	dir, alone := filepath.Join(harness.Root(), "examples/act"), t.TempDir()
	for _, name := range []string{"kubernetes.sh", "slurm.sh", "systemd.sh"} {
		harness.WriteFile(t, filepath.Join(alone, name), harness.ReadFile(t, filepath.Join(dir, name)))
		for folder, want := range map[string]string{dir: "STATE_DIRECTORY: a folder that outlives a restart", alone: "guard.sh: No such file or directory"} {
			cmd := exec.Command("bash", name)
			cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "LABEL_ALERTNAME=GPUOutOfMemoryPredicted"}
			out, err := cmd.CombinedOutput()
			if said := string(out); err == nil || !strings.Contains(said, want) || strings.Count(said, "\n") != 1 {
				t.Errorf("%s in %s: %v, want %q and no more: %s", name, folder, err, want, said)
			}
		}
	}
}

// TestExamplesAct holds the parts of examples/act to each other: what a script reads is passed by the hooks or set in env, what the
// runner runs is there, and the scripts are short enough to be read before they are trusted.
func TestExamplesAct(t *testing.T) {
	dir := filepath.Join(harness.Root(), "examples/act")
	type hook struct {
		ID      string
		Command string                           `yaml:"execute-command"`
		Env     []struct{ Envname, Name string } `yaml:"pass-environment-to-command"`
		Rule    map[string]any                   `yaml:"trigger-rule"`
	}
	hooks := documents[[]hook](t, harness.ReadExample(t, "act/hooks.yaml"))[0]
	set := map[string]bool{"STATE_DIRECTORY": true} // by systemd
	for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=`).FindAllStringSubmatch(harness.ReadExample(t, "act/env"), -1) {
		set[m[1]] = true
	}
	for _, h := range hooks {
		if filepath.Base(h.Command) != h.ID+".sh" || len(h.Env) == 0 || len(h.Rule) == 0 {
			t.Errorf("the hook %+v", h)
		}
		for _, e := range h.Env {
			set[e.Envname] = true
		}
	}
	scripts, _ := filepath.Glob(filepath.Join(dir, "*.sh")) // fails only if the pattern is wrong
	equal(t, len(scripts), len(hooks)+1, "scripts of %d hooks, %q", len(hooks), scripts)
	lines := 0
	for _, path := range scripts {
		text := harness.ReadFile(t, path)
		n := strings.Count(text, "\n")
		if lines += n; n > 40 {
			t.Errorf("%s has %d lines", path, n)
		}
		for _, m := range regexp.MustCompile(`\$\{?([A-Z][A-Z_]+)`).FindAllStringSubmatch(text, -1) {
			if !set[m[1]] {
				t.Errorf("%s reads %s, which nobody sets", path, m[1])
			}
		}
	}
	if lines > 150 {
		t.Errorf("the scripts have %d lines", lines)
	}
}
