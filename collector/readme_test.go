// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// readmeLabels is the table of labels.
const readmeLabels = `| labels of | |
|---|---|
| a GPU | %s |
| a GPU instance (MIG) | %s |
| a process | %s |
| a workload: a pod or job with two processes or more on a GPU | %s |
| a finding: what alerts say of a memory, with the labels of the culprit | %s |
`

// TestReadme holds the tables of README.md to those of the package.
func TestReadme(t *testing.T) {
	code := func(labels []string) string { return "`" + strings.Join(labels, "`, `") + "`" }
	var b strings.Builder
	fmt.Fprintf(&b, readmeLabels, code(scopeLabels[ofGPU]), code(scopeLabels[ofInstance]), code(scopeLabels[ofProcess]), code(scopeLabels[ofWorkload]), code(scopeLabels[ofFinding]))
	for _, f := range families {
		flag := ""
		switch {
		case f.always:
			flag = "Always on.\n\n"
		case !f.enabled:
			flag = "Off by default.\n\n"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s| series | of | |\n|---|---|---|\n", f.name, flag)
		rows := map[string][]metric{}
		for _, m := range f.metrics {
			rows[readmeGeneral(m)] = append(rows[readmeGeneral(m)], m)
		}
		for _, m := range f.metrics {
			b.WriteString(readmeRow(rows[readmeGeneral(m)]))
			delete(rows, readmeGeneral(m))
		}
	}
	const begin = "<!-- go test ./collector -run Readme -update writes what follows. -->\n"
	head, _, found := strings.Cut(testkit.Read(t, "README.md"), begin)
	if !found {
		t.Fatal("README.md has no place for the tables")
	}
	testkit.Golden(t, "README.md", head+begin+b.String())
}

// readmeGeneral is what a metric says of any memory. Those of several scopes that say the same have one row.
func readmeGeneral(m metric) string {
	help := strings.NewReplacer(
		"the used memory of the GPU instance", "the memory", "the used memory of the GPU", "the memory", "the GPU memory of the process", "the memory", "the summed GPU memory of the pod or job", "the memory",
		"the GPU instance (its", "the GPU (its", "the memory of the GPU instance is full", "the memory of the GPU is full", "on the GPU instance before", "on the GPU before", "the pod or job", "the process", "this pod or job", "this process",
		"gpu_mig_", "gpu_", "gpu_process_", "gpu_", "gpu_workload_", "gpu_").Replace(m.help)
	return strings.NewReplacer("gpu_mig_", "", "gpu_process_", "", "gpu_workload_", "", "gpu_", "").Replace(m.name) + help
}

// readmeRow is the row of metrics that differ in their scopes alone. It has the help of the first.
func readmeRow(metrics []metric) string {
	if len(metrics) == 0 {
		return ""
	}
	var names, scopes []string
	m, own := metrics[0], ""
	if len(m.labels) > 0 {
		own = "{" + strings.Join(m.labels, ",") + "}"
	}
	for _, m := range metrics {
		names = append(names, "`"+m.name+own+"`")
		scopes = append(scopes, [numScopes]string{ofExporter: "node", ofGPU: "GPU", ofInstance: "GPU instance", ofProcess: "process", ofWorkload: "workload", ofUnreleased: "process that has ended", ofFinding: "finding"}[m.scope])
	}
	name := strings.Join(names, ", ")
	if m.down {
		name += " †"
	}
	// The head of the page says what these do.
	help := strings.NewReplacer("|", `\|`, "\n", " ", " (1 or 0)", "", " (0 to 1)", "",
		", in bytes per second", "", ", in bytes", "", " in bytes", "", ", in seconds since the Unix epoch", "", ", in seconds", "", " in hertz", "", ", in watts", "", " in watts", "",
		" in joules", "", " in degrees Celsius", "").Replace(strings.TrimSuffix(m.help, findingHelp))
	return fmt.Sprintf("| %s | %s | %s |\n", name, strings.Join(scopes, ", "), help)
}
