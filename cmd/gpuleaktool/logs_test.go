// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
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
		{"nodes in a column", "timestamp, hostname, index, memory.used [MiB]\n" + logRows("%[1]s, n%[2]d, 0, %[3]d MiB\n", smiLayout), nil, exitLeak, " for a leak on GPU 0 of n1, ", ""},
		{"one GPU, faster than its stamps tick", twoGPUs(func(at time.Time, gpu, mib int) string {
			return strings.Repeat(fmt.Sprintf("%s,%d\n", at.Format(time.DateTime), mib), 2*gpu)
		}), []string{"--columns=timestamp,used[MiB]"}, exitLeak, " for a leak on the GPU, ", "left out 480 lines"},
		{"MiB that are called bytes", "time,gpu,used,total\n" + logRows("%[1]s,%[2]d,%[3]d,81559\n", time.DateTime), []string{"--columns=timestamp,gpu,used[B],total[B]"}, exitWrong, "", "there are 79.6 KiB of memory at 2026-03-01T12:00:00Z, less than any GPU has: check the unit"},
		{"behind kubectl logs --timestamps", prefixed(smi), nil, exitWrong, "", "no timestamp column: give both --log.start and --log.interval, or record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1; " + history.OtherLogs + "; it begins with 2026-03-01T12:00:00.123456789Z timestamp, index"},
		{"processes without times", "pid, process_name, used_gpu_memory [MiB]\n7, a, 5 MiB\n", nil, exitWrong, "", "record with nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory --format=csv -l 1; " + history.OtherLogs},
		{"another header", "time,host,gpu,mem_used (GiB),mem_total (GiB)\n", nil, exitWrong, "", "log:1: no column of used memory: record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1; " + history.OtherLogs + "; it begins with time,host,gpu,mem_used (GiB)"},
		{"JSON", `{"dashboard": {}}` + "\n", nil, exitWrong, "", noHeader + history.OtherLogs + `; it begins with {"dashboard": {}}`},
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

// TestLeftOut warns of the lines of logs that are of no use, in the order of the files.
func TestLeftOut(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00:00.000, GPU-a, 10 MiB\n"
	messages := write(t, "messages.csv", head+"No devices were found\n2026/03/01 10:00:02")
	berlin := write(t, "berlin.csv", head+"2026/10/25 02:30:00.000, GPU-a, 10 MiB\n2026/10/25 02:10:00.000, GPU-a, 10 MiB\n")
	nothing := write(t, "nothing.csv", "timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00")
	ofMessages := messages + ": left out 1 line, line 3: is no part of the log: \"No devices were found\"\n" +
		"gpuleaktool: " + messages + ": left out 1 line, line 4: the file ends inside it: \"2026/03/01 10:00:02\"\n"
	for _, c := range []struct {
		args, stderr string
		code         int
	}{
		{berlin + " " + messages, "gpuleaktool: " + berlin + ": left out 1 line, line 4: 2026/10/25 02:10:00.000 of GPU \"GPU-a\" is not after 2026/10/25 02:30:00.000, its row before: " +
			"the clock was set back, as where daylight saving ends and --timezone is not given, two recordings overlap, or several GPUs are taken for one\ngpuleaktool: " + ofMessages, unjudged},
		{"--timezone=Europe/Berlin " + berlin, "", unjudged},
		{nothing, "gpuleaktool: " + nothing + ": left out 1 line, line 2: the file ends inside it: \"2026/03/01 10:00\"\n" +
			"gpuleaktool: error: " + nothing + ": holds no samples: let the recording run longer\n", exitWrong},
	} {
		code, _, stderr := tool(t.Context(), append([]string{"backtest", "--output=json"}, strings.Fields(c.args)...)...)
		if code != c.code || stderr != c.stderr {
			t.Errorf("%s: exit code %d, stderr %s\nwant %d, %s", c.args, code, stderr, c.code, c.stderr)
		}
	}
}

// pipe makes a file the standard input of the test.
func pipe(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	testkit.Must(t, err)
	before := os.Stdin
	os.Stdin = file
	t.Cleanup(func() {
		os.Stdin = before
		file.Close()
	})
}

func TestStandardInput(t *testing.T) {
	bad := write(t, "bad", "timestamp,memory.used [MiB]\n2026/03/01 00:00:00.000,x\n")
	_, want, _ := tool(t.Context(), "backtest", "--output=json", "testdata/leak.csv")
	for _, args := range [][]string{{"-"}, {"--", "-"}} {
		pipe(t, "testdata/leak.csv")
		code, stdout, stderr := tool(t.Context(), append([]string{"backtest", "--output=json"}, args...)...)
		if code != exitLeak || stdout != want || stderr != "" {
			t.Errorf("from %q: exit code %d, %s", args, code, stderr)
		}
	}
	pipe(t, "testdata/leak.csv")
	if _, stdout, _ := tool(t.Context(), "backtest", "--output=json", "-", "testdata/healthy.csv"); !strings.Contains(stdout, `"file":"standard input"`) {
		t.Errorf("no line names the standard input: %.300s", stdout)
	}
	for _, c := range []struct {
		name, input string
		args        []string
		want        string
	}{
		{"a bad line", bad, []string{"-"}, `standard input:2: memory.used: cannot read "x" as memory such as 1234 MiB: "2026/03/01 00:00:00.000,x"`},
		{"twice", bad, []string{"-", "-"}, "standard input: can be read only once"},
		{"and a Prometheus", bad, []string{"-", "--prometheus.url=http://localhost:1", "--query=a", "--start=-1h"}, "either files or --prometheus.url, not both: -"},
		{"a device", os.DevNull, []string{"-"}, "standard input: nothing is piped into it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pipe(t, c.input)
			code, stdout, stderr := tool(t.Context(), append([]string{"backtest"}, c.args...)...)
			if code != exitWrong || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// TestSilentPipe has an input whose writer says nothing: a signal and an error in another file
// end the wait for it.
func TestSilentPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(path, 0o600))
	silent, err := os.OpenFile(path, os.O_RDWR, 0) // as a reader, too: that waits for nobody
	testkit.Must(t, err)
	defer silent.Close() // then the readers that were left behind end
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{ctx, []string{path}, "interrupted"},
		{t.Context(), []string{"testdata/missing", path}, "no such file"},
	} {
		code, stdout, stderr := 0, "", ""
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			code, stdout, stderr = tool(c.ctx, append([]string{"backtest"}, c.args...)...)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%q: does not end", c.args)
		}
		if code != exitWrong || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, code, stderr, c.want)
		}
	}
}

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
