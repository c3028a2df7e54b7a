// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// seriesOf returns the series of s: the name with the labels, and their number by family.
func seriesOf(t *testing.T, s *sampler.State, o Options) (series map[string]string, byFamily map[string]int, windows int) {
	t.Helper()
	series, byFamily = map[string]string{}, map[string]int{}
	owners := map[string]string{} // the family of each metric
	for _, f := range families {
		for _, m := range f.metrics {
			if owner, there := owners[m.name]; there {
				t.Errorf("%s is one of %s and of %s", m.name, owner, f.name)
			}
			owners[m.name] = f.name
		}
	}
	for name, mf := range gather(t, newCollector(t, s, o)) {
		for _, m := range mf.GetMetric() {
			series[fmt.Sprint(name, m.GetLabel())] = name
			byFamily[owners[name]]++
			for _, l := range m.GetLabel() {
				if l.GetName() == "window" && l.GetValue() == "10m" {
					windows++
				}
			}
		}
	}
	return series, byFamily, windows
}

// TestDetailKeepsWhatAlertsAsk compares what the alerts see of processes in full detail and in less: leaking ones, growing
// ones, and those that do neither.
func TestDetailKeepsWhatAlertsAsk(t *testing.T) {
	s := still(crowd(2, 6))
	for _, d := range s.Devices {
		for i, pattern := range []detector.Pattern{detector.PatternStable, detector.PatternZombie, detector.PatternFragmentation} {
			d.Processes[i].Verdict.Pattern = pattern
		}
		d.Processes[3].Verdict = verdict(200, true)
		d.Processes[4].Verdict = verdict(200, false)
	}
	asked := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bgpu_process_\w+`).FindAllString(testkit.Read(t, "../dashboards/alerts.yaml"), -1) {
		asked[name] = true
	}
	all, _, _ := seriesOf(t, s, Options{})
	less, _, _ := seriesOf(t, s, Options{ProcessDetail: DetailGrowing})
	left := 0
	for id, name := range all {
		if _, there := less[id]; there {
			continue
		}
		left++
		// The rules take these only of a process that takes part in what fills the memory: that one grows.
		if asked[name] && name != "gpu_process_leak_slope_bytes_per_second" && name != "gpu_process_seconds_to_oom" {
			t.Errorf("an alert asks for %s, which less detail leaves out", id)
		}
	}
	if left == 0 {
		t.Error("less detail leaves nothing out")
	}
	for id := range less {
		if all[id] == "" {
			t.Errorf("%s is there in less detail only", id)
		}
	}
}

// TestSeriesTable holds the table of docs/operating.md against what a scrape has.
func TestSeriesTable(t *testing.T) {
	const file, begin, end = "../docs/operating.md", "<!-- series -->\n", "<!-- end of series -->"
	_, all, windows := seriesOf(t, still(crowd(8, 8)), Options{})
	_, less, _ := seriesOf(t, still(crowd(8, 8)), Options{ProcessDetail: DetailGrowing})
	_, bare, bareWindows := seriesOf(t, crowd(8, 0), Options{})
	var b strings.Builder
	b.WriteString("| collector | 8 GPUs of 8 processes | with `growing` | of a GPU | of a process |\n|---|---|---|---|---|\n")
	total := [2]int{}
	for _, f := range families {
		if all[f.name] > 0 {
			fmt.Fprintf(&b, "| `%s` | %d | %d | %.3g | %.3g |\n", f.name, all[f.name], less[f.name], float64(bare[f.name])/8, float64(all[f.name]-bare[f.name])/64)
			total[0], total[1] = total[0]+all[f.name], total[1]+less[f.name]
		}
	}
	if total[0] >= 3000 || total[1] > 1200 { // what a scrape of it may be
		t.Errorf("%d series, and %d in less detail", total[0], total[1])
	}
	fmt.Fprintf(&b, "| together | %d | %d | | |\n", total[0], total[1])
	fmt.Fprintf(&b, "| of these, one `--detector.window` | %d | | %d | %d |\n", windows, bareWindows/8, (windows-bareWindows)/64)
	head, rest, found := strings.Cut(testkit.Read(t, file), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	testkit.Golden(t, file, head+begin+b.String()+end+tail)
}
