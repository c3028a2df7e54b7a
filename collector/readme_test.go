// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// readmeHead is what stands above the tables of README.md.
const readmeHead = `# The series

For example, ` + "`gpu_clock_hertz{clock}`" + ` is of a GPU. So it has the labels of a GPU, and ` + "`clock`" + `. The end of a name is the unit: ` + "`_timestamp_seconds`" + ` since
the Unix epoch, ` + "`_ratio`" + ` from 0 to 1, ` + "`_total`" + ` a counter. A series that answers a question is 1 or 0. Join on ` + "`uuid`" + ` only: ` + "`gpu`" + ` is the driver's index, which may
change over a reboot.

| labels of | |
|---|---|
| a GPU | %s |
| a GPU instance (MIG) | %s |
| a process | %s |
| a workload: a pod or job with two processes or more on a GPU | %s |
| a finding: what alerts say of a memory, with the labels of the culprit | %s |

- A row of several series is worded for the first: read process for GPU in that of a process.
- A label that does not apply, or is not known, is empty.
- A value that the driver does not offer is absent, never 0. A reading that failed is absent until the next one succeeds.
- If a GPU cannot be read (` + "`gpu_up 0`" + `), only its series marked † stay.
- ` + "`+Inf`" + ` in ` + "`…seconds_to_oom`" + ` means that nothing foretells an end. The series is absent until that has been judged.
- In MIG mode the slices are judged, not the whole GPU.
- ` + "`scope`" + ` of a finding is ` + "`gpu`, `mig`" + `, or ` + "`workload`" + ` if a pod or job as a whole is to blame. ` + "`source`" + ` is that of GPUs that are simulated or replayed.
- ` + "`promtool check metrics`" + ` objects to ` + "`…spike_count`" + `, because histograms end in ` + "`_count`" + `. It stays, as the one exception.

With ` + "`--source=prometheus:URL`" + ` the series of a GPU and of a GPU instance also have ` + "`namespace`, `pod`, `container`" + ` of the pod that has it, and the
labels that ` + "`labels`" + ` in ` + "`--source.config`" + ` names (` + "`instance`, `node`, `Hostname`" + `). Series of a driver, of processes and of the host are absent. A GPU whose
memory does not grow has only ` + "`gpu_leak_detected`, `gpu_leak_confidence`, `gpu_seconds_to_oom`, `gpu_memory_pattern`" + ` of the detector
(` + "`--collector.process.detail`" + `, [docs/fleet.md](../docs/fleet.md)).

| with ` + "`--source=prometheus:URL`" + ` | of | |
|---|---|---|
| ` + "`gpu_leak_exporter_source_up`" + ` | node | Whether the Prometheus answered the last request with something of use. |
| ` + "`gpu_leak_exporter_source_last_success_timestamp_seconds`" + ` | node | When it did so last; 0: never. |
| ` + "`gpu_leak_exporter_source_polls_total`" + ` | node | How often it was asked. |
| ` + "`gpu_leak_exporter_source_poll_seconds_total`" + ` | node | Seconds that this took. |
| ` + "`gpu_leak_exporter_source_gpus{state}`" + ` | node | Its GPUs: ` + "`fresh`" + `, ` + "`lost`" + ` (others of the same place have samples), ` + "`silent`" + ` (none of the place has). |
| ` + "`gpu_leak_exporter_source_problems_total{reason}`" + ` | node | What was of no use in its answers: ` + "`query_failed`, `query_timeout`, `answer_too_large`, `wrong_type`, `no_result`, `warning`, `info`, `no_amount`, `above_capacity`, `duplicate`, `labels`, `too_many`, `late`, `capacity`, `history`" + `. |

There are also ` + "`gpu_leak_exporter_build_info`" + `, and ` + "`go_*`, `process_*` and `promhttp_*`" + ` of the exporter itself. ` + "`--web.disable-exporter-metrics`" + ` takes the
latter away.
`

// readmeFoot is what stands below them.
const readmeFoot = `
This file is made from the tables in the folder by ` + "`go test ./collector -run Readme -update`" + `.
`

// TestReadme holds README.md to the tables.
func TestReadme(t *testing.T) {
	code := func(labels []string) string { return "`" + strings.Join(labels, "`, `") + "`" }
	var b strings.Builder
	fmt.Fprintf(&b, readmeHead, code(scopeLabels[ofGPU]), code(scopeLabels[ofInstance]), code(scopeLabels[ofProcess]), code(scopeLabels[ofWorkload]), code(scopeLabels[ofFinding]))
	for _, f := range families.families {
		flag := "`--collector." + f.name + "`, on by default"
		switch {
		case f.always:
			flag = "always on"
		case !f.enabled:
			flag = "`--collector." + f.name + "`, off by default"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| series | of | |\n|---|---|---|\n", f.name, flag)
		rows := map[string][]metric{}
		for _, m := range f.metrics {
			rows[readmeGeneral(m)] = append(rows[readmeGeneral(m)], m)
		}
		for _, m := range f.metrics {
			b.WriteString(readmeRow(rows[readmeGeneral(m)]))
			delete(rows, readmeGeneral(m))
		}
	}
	b.WriteString(readmeFoot)
	if *update {
		if err := os.WriteFile("README.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("README.md")
	if err != nil || string(got) != b.String() {
		t.Errorf("README.md does not say what the tables do (%v): go test ./collector -run Readme -update", err)
	}
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
	labels := slices.Clone(m.labels)
	if m.optional != "" {
		labels = append(labels, m.optional)
	}
	if len(labels) > 0 {
		own = "{" + strings.Join(labels, ",") + "}"
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
