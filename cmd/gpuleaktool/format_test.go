// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
)

// twoGPUs writes four hours of two GPUs, a row of each every 30 s: the first one is busy and well, the second one leaks after 45 minutes.
func twoGPUs(row func(at time.Time, gpu, mib int) string) string {
	var b strings.Builder
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 480 {
		for gpu, mib := range []int{61234 + 8*(i%5), 24010 + 50*max(0, i-90)} {
			b.WriteString(row(begin.Add(time.Duration(i)*30*time.Second), gpu, mib))
		}
	}
	return b.String()
}

// logRows writes twoGPUs with a format whose verbs are the time, the GPU and its used memory in MiB, by their numbers.
func logRows(form, layout string) string {
	return twoGPUs(func(at time.Time, gpu, mib int) string { return fmt.Sprintf(form, at.Format(layout), gpu, mib) })
}

// second keeps the rows of the GPU that leaks.
func second(log string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(log) {
		if n++; n%2 == 0 {
			b.WriteString(line)
		}
	}
	return b.String()
}

const (
	smiLayout = "2006/01/02 15:04:05.000"
	smiHead   = "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
	smiForm   = "%[1]s, %[2]d, %[3]d MiB, 81559 MiB\n"
	noHeader  = "no header line of nvidia-smi, and no recording of gpu_leak_exporter: leave noheader out of --format=csv,… when recording; "
)

// TestLogsOfUsers reads logs as people have them. Of each the leak is told, and of which GPU, or what to do.
func TestLogsOfUsers(t *testing.T) {
	smi := smiHead + logRows(smiForm, smiLayout)
	prefixed := func(log string) string {
		var b strings.Builder
		for line := range strings.Lines(log) {
			b.WriteString("2026-03-01T12:00:00.123456789Z " + line)
		}
		return b.String()
	}
	uuid := "GPU-c6bbd36b-91f3-04a6-55c1-9e7a5f1b2c3d"
	for _, c := range []struct {
		name, log string
		args      []string
		code      int
		stdout    string // a part of it
		stderr    string
	}{
		{"of nvidia-smi", smi, nil, exitLeak, "GPU 1 ", ""},
		{"two GPUs, and no column tells which", logRows("%[1]s,%[3]d,81559\n", time.DateTime), []string{"--columns=timestamp,used[MiB],total[MiB]"}, exitWrong, "", "the rows come in bursts, as of several GPUs, and no column tells which"},
		{"one GPU, and no column tells which", second(logRows("%[1]s,%[3]d,81559\n", time.DateTime)), []string{"--columns=timestamp,used[MiB],total[MiB]"}, exitLeak, " for a leak on the GPU, ", ""},
		{"the same in JSON", second(logRows("%[1]s,%[3]d,81559\n", time.DateTime)), []string{"--columns=timestamp,memory.used,memory.total", "--output=json"}, exitLeak, `"series":{},`, ""},
		{"its uuid alone", "timestamp, uuid, memory.used [MiB], memory.total [MiB]\n" + second(logRows("%[1]s, "+uuid+", %[3]d MiB, 81559 MiB\n", smiLayout)), nil, exitLeak, " for a leak on GPU-c6bbd36b, ", ""},
		{"the uuid in JSON", "timestamp, uuid, memory.used [MiB]\n" + second(logRows("%[1]s, "+uuid+", %[3]d MiB\n", smiLayout)), []string{"--output=json"}, exitLeak, `"series":{"uuid":"` + uuid + `"},`, ""},
		{"processes of no known GPU", "timestamp, pid, process_name, used_gpu_memory [MiB]\n" + second(logRows("%[1]s, 7, serve, %[3]d MiB\n", smiLayout)), nil, exitLeak, "serve (pid 7) grows by", ""},
		{"named by a text", logRows("%[1]s,node%[2]d:0,%[3]d MiB\n", time.DateTime), []string{"--columns=timestamp,gpu,used"}, exitLeak, " for a leak on GPU node1:0, ", ""},
		{"points between thousands, commas before decimals", twoGPUs(func(at time.Time, gpu, mib int) string {
			return fmt.Sprintf("%s;%d;%d.%03d,50;81.559,00\n", at.Format(time.DateTime), gpu, mib/1000, mib%1000)
		}), []string{"--columns=timestamp,gpu,used[MiB],total[MiB]"}, exitLeak, "(53 %)", ""},
		{"a GPU without a value", smiHead + twoGPUs(func(at time.Time, gpu, mib int) string {
			if gpu == 0 {
				return at.Format(smiLayout) + ", 0, [N/A], [N/A]\n"
			}
			return fmt.Sprintf(smiForm, at.Format(smiLayout), gpu, mib)
		}), nil, exitLeak, "Nothing tells how much of it is used.", ""},
		{"no value at all", smiHead + logRows("%[1]s, %[2]d, [N/A], [N/A]\n", smiLayout), nil, exitWrong, "", "holds no used memory: every value of it is absent, such as N/A"},
		{"without a time, behind ts", "2026-03-01 12:00:00 index, memory.used [MiB]\n" + logRows("%[1]s %[2]d, %[3]d MiB\n", time.DateTime), nil, exitWrong, "", "no timestamp column"},
		{"behind lines of a program", "Epoch 0 step 0: loss=2.30, lr=1e-4\n" + smi, nil, exitLeak, " for a leak on GPU 1, ", `left out 1 line, line 1: no header of nvidia-smi: "Epoch 0`},
		{"nodes in a column", "timestamp, hostname, index, memory.used [MiB]\n" + logRows("%[1]s, n%[2]d, 0, %[3]d MiB\n", smiLayout), nil, exitLeak, " for a leak on GPU 0 of n1, ", ""},
		{"one GPU, faster than its stamps tick", twoGPUs(func(at time.Time, gpu, mib int) string {
			return strings.Repeat(fmt.Sprintf("%s,%d\n", at.Format(time.DateTime), mib), 2*gpu)
		}), []string{"--columns=timestamp,used[MiB]"}, exitLeak, " for a leak on the GPU, ", "left out 480 lines"},
		{"two nodes in one file", smi + smi, nil, exitWrong, "", "has too many rows that cannot be used: left out 960 lines, the first is line 963"},
		{"MiB that are called bytes", "time,gpu,used,total\n" + logRows("%[1]s,%[2]d,%[3]d,81559\n", time.DateTime), []string{"--columns=timestamp,gpu,used[B],total[B]"}, exitWrong, "", "there are 79.6 KiB of memory at 2026-03-01T12:00:00Z, less than any GPU has: check the unit"},
		{"behind kubectl logs --timestamps", prefixed(smi), nil, exitWrong, "", "no timestamp column: record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1; " + history.OtherLogs + "; it begins with 2026-03-01T12:00:00.123456789Z timestamp, index"},
		{"processes without times", "pid, process_name, used_gpu_memory [MiB]\n7, a, 5 MiB\n", nil, exitWrong, "", "record with nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory --format=csv -l 1; " + history.OtherLogs},
		{"another header", "time,host,gpu,mem_used (GiB),mem_total (GiB)\n", nil, exitWrong, "", "log:1: no column of used memory: record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1; " + history.OtherLogs + "; it begins with time,host,gpu,mem_used (GiB)"},
		{"a dump of a database", "# TYPE a gauge\na 1 1772366400\n", nil, exitWrong, "", noHeader},
		{"JSON", `{"dashboard": {}}` + "\n", nil, exitWrong, "", noHeader + history.OtherLogs + `; it begins with {"dashboard": {}}`},
		{"the table", boxed([]leakRow{{}}), nil, exitWrong, "", noHeader},
		{"a header alone", smiHead, nil, exitWrong, "", "holds no samples: let the recording run longer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := tool(t.Context(), append([]string{"backtest", write(t, "log", c.log)}, c.args...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, stderr %.600q, stdout %.1500s\nwant %d, %q, %q", code, stderr, stdout, c.code, c.stderr, c.stdout)
			}
		})
	}
}

// TestReportOfUnknownMemory names a GPU that never told its memory, and draws nothing of it.
func TestReportOfUnknownMemory(t *testing.T) {
	log := smiHead + "2026/03/01 12:00:00.000, 0, 10 MiB, 81559 MiB\n2026/03/01 12:00:00.000, 1, [N/A], [N/A]\n"
	code, stdout, stderr := tool(t.Context(), "backtest", "--output=html", write(t, "log", log))
	if code != unjudged || stderr != "" || strings.Count(stdout, `<svg class="plot"`) != 1 || strings.Contains(stdout, "1970") || !strings.Contains(stdout, "Nothing tells how much of it is used.") {
		t.Errorf("exit code %d, %d plots, %q: %.3000s", code, strings.Count(stdout, `<svg class="plot"`), stderr, stdout)
	}
}
