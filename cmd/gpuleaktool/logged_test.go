// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// leakRow is a row of testdata/leak.csv.
type leakRow struct {
	t           time.Time
	gpu         int
	used, total int // MiB
}

// leakRows returns the rows of testdata/leak.csv, to the second.
func leakRows(t *testing.T) (list []leakRow) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(testkit.Read(t, "testdata/leak.csv"))).ReadAll()
	for _, row := range rows[min(1, len(rows)):] { // uuid, memory.total, index, timestamp, memory.used
		var r leakRow
		at, wrong := time.Parse("2006/01/02 15:04:05", strings.TrimSpace(row[3]))
		_, failed := fmt.Sscanf(row[1]+row[2]+row[4], " %d MiB %d %d MiB", &r.total, &r.gpu, &r.used)
		err = errors.Join(err, wrong, failed)
		r.t = at.Truncate(time.Second)
		list = append(list, r)
	}
	testkit.Must(t, err)
	return list
}

// boxed writes rows of one moment as the table of nvidia-smi.
func boxed(rows []leakRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n+---+\n| NVIDIA-SMI 560.35.03   Driver Version: 560.35.03   CUDA Version: 12.6 |\n|===+===|\n", rows[0].t.Format(time.ANSIC))
	for _, r := range rows {
		fmt.Fprintf(&b, "|   %d  NVIDIA H100   On  |   00000000:%02d:00.0 Off |      0 |\n| N/A   34C   P0   120W / 700W | %6dMiB / %6dMiB |   97%%   Default |\n+---+\n", r.gpu, r.gpu, r.used, r.total)
	}
	return b.String() + "\n"
}

// document writes them as nvidia-smi -q -x does.
func document(rows []leakRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n<timestamp>%s</timestamp>\n", rows[0].t.Format(time.ANSIC))
	for _, r := range rows {
		fmt.Fprintf(&b, "<gpu id=\"00000000:%02d:00.0\">\n<mig_devices>\n<fb_memory_usage>\n<total>1 MiB</total>\n<used>1 MiB</used>\n</fb_memory_usage>\n</mig_devices>\n<uuid>GPU-%[1]d</uuid>\n"+
			"<fb_memory_usage>\n<total>%d MiB</total>\n<used>%d MiB</used>\n</fb_memory_usage>\n<bar1_memory_usage>\n<total>2 MiB</total>\n<used>2 MiB</used>\n</bar1_memory_usage>\n</gpu>\n", r.gpu, r.total, r.used)
	}
	return b.String() + "</nvidia_smi_log>\n"
}

// eachRow writes a header, and each row by itself.
func eachRow(head string, write func(r leakRow) string) func([]leakRow) string {
	return func(rows []leakRow) string {
		var b strings.Builder
		b.WriteString(head)
		for _, r := range rows {
			b.WriteString(write(r))
		}
		return b.String()
	}
}

// eachGPU writes the rows of each GPU together.
func eachGPU(rows []leakRow, write func(gpu int, rows []leakRow) string) string {
	var b strings.Builder
	for gpu := range 2 {
		b.WriteString(write(gpu, slices.DeleteFunc(slices.Clone(rows), func(r leakRow) bool { return r.gpu != gpu })))
	}
	return b.String()
}

// eachMoment writes the rows of each moment together.
func eachMoment(write func(rows []leakRow) string) func([]leakRow) string {
	return func(rows []leakRow) string {
		text := ""
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && rows[n].t.Equal(rows[0].t) {
				n++
			}
			text, rows = text+write(rows[:n]), rows[n:]
		}
		return text
	}
}

// TestDocsCommands reads each command of docs/backtest.md: it lacks no more than its file.
func TestDocsCommands(t *testing.T) {
	commands := regexp.MustCompile("`gpuleaktool (backtest [^`]*[a-z])`").FindAllStringSubmatch(testkit.Read(t, "../../docs/backtest.md"), -1)
	if len(commands) < 7 {
		t.Fatalf("docs/backtest.md has %d commands", len(commands))
	}
	for _, c := range commands {
		if code, _, stderr := tool(t.Context(), strings.Fields(strings.ReplaceAll(c[1], "'", ""))...); code != exitWrong || !strings.HasSuffix(stderr, ": no such file or directory\n") {
			t.Errorf("%s: exit code %d, %s", c[1], code, stderr)
		}
	}
}

// otherPrograms write the history of testdata/leak.csv as other programs do, by what docs/backtest.md calls their logs.
var otherPrograms = map[string]func([]leakRow) string{
	"The table of `nvidia-smi -l 1`": eachMoment(boxed),
	"XML of `nvidia-smi -q -x -l 1`": eachMoment(document),
	"`nvidia-smi dmon -s m -o DT`": eachRow("#Date       Time        gpu     fb   bar1\n#YYYYMMDD   HH:MM:SS    Idx     MB     MB\n", func(r leakRow) string {
		return fmt.Sprintf(" %s      %d  %6d      3\n", r.t.Format("20060102   15:04:05"), r.gpu, r.used)
	}),
	"`nvidia-smi dmon -s m -o T`, without a date": eachRow("#Time        gpu     fb   bar1\n#HH:MM:SS    Idx     MB     MB\n", func(r leakRow) string {
		return fmt.Sprintf(" %s      %d  %6d      3\n", r.t.Format("15:04:05"), r.gpu, r.used)
	}),
	"`nvidia-smi pmon -s m -o DT`": eachRow("#Date       Time        gpu         pid   type     fb    command\n#YYYYMMDD   HH:MM:SS    Idx           #    C/G     MB    name\n", func(r leakRow) string {
		if r.gpu == 0 {
			return fmt.Sprintf(" %s      0          -      -      -    -\n", r.t.Format("20060102   15:04:05"))
		}
		return fmt.Sprintf(" %s      1       4711      C  %6d    serve\n", r.t.Format("20060102   15:04:05"), r.used)
	}),
	"`dcgmi dmon -e 252,250 -d 1000`": eachRow("#Entity   FBUSD   FBTTL\nID\n", func(r leakRow) string { return fmt.Sprintf("GPU %d     %d    %d\n", r.gpu, r.used, r.total) }),
	"Rows of W&B, from `run.history(stream=\"events\").to_csv(\"events.csv\")`": eachRow(",_timestamp,system.cpu,system.gpu.0.memoryAllocatedBytes,system.gpu.1.memoryAllocatedBytes\n", func(r leakRow) string {
		return fmt.Sprintf("0,%d.0,5.5,%s%d.0%s\n", r.t.Unix(), strings.Repeat(",", r.gpu), r.used<<20, strings.Repeat(",", 1-r.gpu))
	}),
	"The chart of one GPU in W&B, from \"Export panel\" with the wall time as the x axis": eachRow("\"Wall Time\",\"run - system/gpu.1.memoryAllocatedBytes\",\"run - system/gpu.1.memoryAllocatedBytes__MIN\"\n", func(r leakRow) string {
		if r.gpu == 0 {
			return ""
		}
		return fmt.Sprintf("\"%d\",\"%d\",\"1\"\n", r.t.Unix(), r.used<<20)
	}),
	"The answer of Prometheus to `/api/v1/query_range?query=DCGM_FI_DEV_FB_USED&…`": func(rows []leakRow) string {
		point := func(r leakRow) string { return fmt.Sprintf(`[%d,"%d"]`, r.t.Unix(), r.used) }
		return `{"status":"success","data":{"resultType":"matrix","result":[` + eachGPU(rows, func(gpu int, rows []leakRow) string {
			return fmt.Sprintf(`{"metric":{"__name__":"DCGM_FI_DEV_FB_USED","UUID":"GPU-%d","gpu":"%[1]d"},"values":[%s]}`, gpu, strings.TrimSuffix(eachRow("", func(r leakRow) string { return point(r) + "," })(rows), ",")) + strings.Repeat(",", 1-gpu)
		}) + "]}}"
	},
	"`promtool query range … http://localhost:9090 DCGM_FI_DEV_FB_USED`": func(rows []leakRow) string {
		return eachGPU(rows, func(gpu int, rows []leakRow) string {
			return eachRow(fmt.Sprintf("DCGM_FI_DEV_FB_USED{UUID=\"GPU-%d\", gpu=\"%[1]d\"} =>\n", gpu), func(r leakRow) string { return fmt.Sprintf("%d @[%d]\n", r.used, r.t.Unix()) })(rows)
		})
	},
	"`promtool tsdb dump-openmetrics`, or `dump`": func(rows []leakRow) string {
		return "up{job=\"dcgm\"} 1 1772366400.000\n" + eachGPU(rows, func(gpu int, rows []leakRow) string {
			return eachRow("", func(r leakRow) string {
				return fmt.Sprintf("DCGM_FI_DEV_FB_USED{UUID=\"GPU-%d\", gpu=\"%[1]d\", modelName=\"NVIDIA H100\"} %g %d.000\n", gpu, float64(r.used), r.t.Unix())
			})(rows)
		}) + "# EOF\n"
	},
	"CSV of nvidia-smi behind the times of `kubectl logs --timestamps` or `docker logs -t`": eachRow("2026-03-01T12:30:00.1Z timestamp, index, memory.used [MiB], memory.total [MiB]\n", func(r leakRow) string {
		return fmt.Sprintf("%s.123456789Z %s, %d, %d MiB, %d MiB\n", r.t.Format("2006-01-02T15:04:05"), r.t.Format("2006/01/02 15:04:05.000"), r.gpu, r.used, r.total)
	}),
	"The same, where these are its only times": eachRow("2026-03-01T12:30:00.1Z index, memory.used [MiB], memory.total [MiB]\n", func(r leakRow) string {
		return fmt.Sprintf("%s.123456789Z %d, %d MiB, %d MiB\n", r.t.Format("2006-01-02T15:04:05"), r.gpu, r.used, r.total)
	}),
}

// TestOtherLogs runs each command of docs/backtest.md that makes CSV of another log. The tool reads that, and finds the leak at the
// same moment in each; where the log tells the capacity, it would have paged at the same moment, too.
func TestOtherLogs(t *testing.T) {
	_, list, _ := strings.Cut(testkit.Read(t, "../../docs/backtest.md"), "\n## Other logs\n")
	list, _, _ = strings.Cut(list, "\n## ")
	commands := regexp.MustCompile("(?m)^- (.*):\n  `(.* ([a-z]+\\.[a-z]+)) \\| gpuleaktool (backtest (?:.* )?-)`$").FindAllStringSubmatch(list, -1)
	if len(commands) != len(otherPrograms) || len(commands) != strings.Count(list, "\n- ") {
		t.Errorf("docs/backtest.md has %d commands for %d logs, and the test %d", len(commands), strings.Count(list, "\n- "), len(otherPrograms))
	}
	times := strings.NewReplacer("'", "", "T14:00:00Z", "T12:30:00Z", "--log.interval=1s", "--log.interval=20s") // of the history
	for _, c := range commands {
		name, convert, file, args := c[1], c[2], c[3], strings.Fields(times.Replace(c[4]))
		program := otherPrograms[name]
		if program == nil {
			t.Errorf("the test has no log of this: %s", name)
			continue
		}
		for ends, text := range map[string]string{"": program(leakRows(t)), ", with CRLF": strings.ReplaceAll(program(leakRows(t)), "\n", "\r\n")} {
			t.Run(name+ends, func(t *testing.T) {
				log := write(t, file, text)
				cmd := exec.CommandContext(t.Context(), "sh", "-c", convert)
				cmd.Dir = filepath.Dir(log)
				made, err := cmd.Output()
				testkit.Must(t, err)
				pipe(t, write(t, "made.csv", string(made)))
				code, stdout, stderr := tool(t.Context(), args...)
				paged := "Would have paged at 2026-03-01 13:11 UTC for "
				if strings.Contains(c[4], "--capacity") {
					paged = "Would have "
				}
				if code != exitLeak || stderr != "" || !strings.Contains(stdout, paged) || !strings.Contains(stdout, "2026-03-01 13:08 UTC  leak ") {
					t.Errorf("exit code %d, %s%s\n%.300s", code, stderr, stdout, made)
				}
			})
		}
	}
}
