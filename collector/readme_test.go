// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// readmeHead is what stands above the tables of README.md.
const readmeHead = `# The series

Units are base units. What the driver does not offer is absent, never 0; a reading that failed is absent until the next one
succeeds. Join on ` + "`uuid`" + ` only: ` + "`gpu`" + ` is the driver's index, which may change over a reboot. An empty label is one
that does not apply or is not known. Of a GPU that cannot be read (` + "`gpu_up 0`" + `) only the series marked † stay.

| labels of | |
|---|---|
| a GPU | %s |
| a GPU instance (MIG) | %s |
| a process | %s |
| a workload: a pod or job with two processes or more on a GPU | %s |
| a finding: what alerts say of a memory (scope gpu or mig; workload where a pod or job as a whole is to blame), with the labels of the culprit, and the source of GPUs that are simulated or replayed | %s |

` + "`+Inf`" + ` in ` + "`…seconds_to_oom`" + ` means that no leak leads there; the series is absent while that has not been judged.
On a GPU in MIG mode the slices are judged, not the whole. ` + "`promtool check metrics`" + ` objects to the names
` + "`…spike_count`" + `, because histograms end in ` + "`_count`" + `; they stay, as the one exception.

With ` + "`--source=prometheus:URL`" + ` the series of a GPU and of a GPU instance also have ` + "`namespace`, `pod`, `container`" + `: of whom
it is allotted to, as far as DCGM exporter tells. And they have the source's own ` + "`instance`, `node`, `Hostname`" + `, or what ` + "`labels`" + ` in
` + "`--source.config`" + ` names. Series that tell of a driver, of processes and of the host are not there. Of a GPU whose memory does not grow the detector has only
` + "`gpu_leak_detected`, `gpu_leak_confidence`, `gpu_seconds_to_oom`, `gpu_memory_pattern`" + `: see ` + "`--collector.process.detail`" + ` and
[docs/fleet.md](../docs/fleet.md).

| with ` + "`--source=prometheus:URL`" + ` | of | own labels | |
|---|---|---|---|
| ` + "`gpu_leak_exporter_source_up`" + ` | node | | Whether (1 or 0) the Prometheus answered the last request with something of use. |
| ` + "`gpu_leak_exporter_source_last_success_timestamp_seconds`" + ` | node | | When it did so last, in seconds since the Unix epoch; 0: never. |
| ` + "`gpu_leak_exporter_source_polls_total`" + ` | node | | How often it was asked. |
| ` + "`gpu_leak_exporter_source_poll_seconds_total`" + ` | node | | Seconds that this took. |
| ` + "`gpu_leak_exporter_source_gpus`" + ` | node | state | Its GPUs: ` + "`fresh`" + `, ` + "`lost`" + ` (others of the same place have samples), ` + "`silent`" + ` (none of the place has). |
| ` + "`gpu_leak_exporter_source_problems_total`" + ` | node | reason | What was of no use in its answers: ` + "`query_failed`, `query_timeout`, `answer_too_large`, `wrong_type`, `no_result`, `warning`, `info`, `no_amount`, `above_capacity`, `duplicate`, `labels`, `too_many`, `late`, `capacity`, `history`" + `. |

Beside these there are ` + "`gpu_leak_exporter_build_info`" + `, and ` + "`go_*`, `process_*` and `promhttp_*`" + ` about the
exporter's own process unless ` + "`--web.disable-exporter-metrics`" + ` is given.
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
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| series | of | own labels | |\n|---|---|---|---|\n", f.name, flag)
		for _, m := range f.metrics {
			b.WriteString(readmeRow(m))
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

func readmeRow(m metric) string {
	labels := slices.Clone(m.labels)
	if m.optional != "" {
		labels = append(labels, m.optional)
	}
	name := "`" + m.name + "`"
	if m.down {
		name += " †"
	}
	if m.kind == prometheus.CounterValue {
		name += " (counter)"
	}
	of := [numScopes]string{ofExporter: "node", ofGPU: "GPU", ofInstance: "GPU instance", ofProcess: "process", ofWorkload: "workload", ofUnreleased: "process that has ended", ofFinding: "finding"}[m.scope]
	help := strings.NewReplacer("|", `\|`, "\n", " ").Replace(m.help)
	return fmt.Sprintf("| %s | %s | %s | %s |\n", name, of, strings.Join(labels, ", "), help)
}
