// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"
)

// leakRow is a row of testdata/leak.csv.
type leakRow struct {
	t           time.Time
	gpu         int
	used, total int // MiB
}

// leakRows returns the rows of testdata/leak.csv, to the second.
func leakRows(t *testing.T) (rows []leakRow) {
	t.Helper()
	text, err := os.ReadFile("testdata/leak.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan()
	names := strings.Split(lines.Text(), ",")
	for lines.Scan() {
		var r leakRow
		for i, field := range strings.Split(lines.Text(), ",") {
			field = strings.TrimSpace(field)
			switch name, _, _ := strings.Cut(strings.TrimSpace(names[i]), " "); name {
			case "timestamp":
				r.t, err = time.Parse("2006/01/02 15:04:05", field)
				r.t = r.t.Truncate(time.Second)
			case "index":
				_, err = fmt.Sscan(field, &r.gpu)
			case "memory.used":
				_, err = fmt.Sscan(field, &r.used)
			case "memory.total":
				_, err = fmt.Sscan(field, &r.total)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, r)
	}
	return rows
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
		fmt.Fprintf(&b, "<gpu id=\"00000000:%02d:00.0\"><fb_memory_usage><total>%d MiB</total><used>%d MiB</used></fb_memory_usage></gpu>\n", r.gpu, r.total, r.used)
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
	page, err := os.ReadFile("../../docs/backtest.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`gpuleaktool (backtest [^`]*[a-z])`").FindAllStringSubmatch(string(page), -1)
	if len(commands) < 15 {
		t.Fatalf("docs/backtest.md has %d commands", len(commands))
	}
	for _, c := range commands {
		if code, _, stderr := tool(t.Context(), strings.Fields(c[1])...); code != exitWrong || !strings.HasSuffix(stderr, ": no such file or directory\n") {
			t.Errorf("%s: exit code %d, %s", c[1], code, stderr)
		}
	}
	for _, format := range formatChoices()[1:] {
		if code, _, stderr := tool(t.Context(), "backtest", "--format="+format, "--columns=timestamp,used", "absent"); code != exitWrong || !strings.Contains(stderr, "no such file") {
			t.Errorf("--format=%s: exit code %d, %s", format, code, stderr)
		}
	}
}

// TestEveryFormat writes one history in each format: it is called a leak at the same moment, and pages
// then, where the format tells the capacity.
func TestEveryFormat(t *testing.T) {
	at := func(r leakRow, layout string) string { return r.t.Format(layout) }
	for _, c := range []struct {
		name, args string
		write      func([]leakRow) string
		noCapacity bool
	}{
		{"noheader", "--columns=timestamp,index,memory.used,memory.total", eachRow("", func(r leakRow) string {
			return fmt.Sprintf("%s, %d, %d MiB, %d MiB\n", at(r, "2006/01/02 15:04:05.000"), r.gpu, r.used, r.total)
		}), false},
		{"any CSV", "--columns=timestamp,gpu,used[MiB],total[MiB]", eachRow("a,b,c,d\n", func(r leakRow) string {
			return fmt.Sprintf("%d,%d,%d,%d\n", r.t.Unix(), r.gpu, r.used, r.total)
		}), false},
		{"the table", "", eachMoment(boxed), false},
		{"XML", "", eachMoment(document), false},
		{"dmon", "", eachRow("#Date       Time        gpu     fb\n#YYYYMMDD   HH:MM:SS    Idx     MB\n", func(r leakRow) string {
			return fmt.Sprintf(" %s      %d %d\n", at(r, "20060102   15:04:05"), r.gpu, r.used)
		}), true},
		{"dcgmi", "--log.start=2026-03-01T12:30:00Z --log.interval=20s", eachRow("#Entity   FBUSD   FBTTL\nID\n", func(r leakRow) string {
			return fmt.Sprintf("GPU %d     %d    %d\n", r.gpu, r.used, r.total)
		}), false},
		{"W&B", "", eachRow("", func(r leakRow) string {
			return fmt.Sprintf("{\"_timestamp\":%d,\"system.gpu.%d.memoryAllocatedBytes\":%d}\n", r.t.Unix(), r.gpu, r.used<<20)
		}), true},
		{"promtool", "", func(rows []leakRow) string {
			var b strings.Builder
			for g := range 2 {
				for _, m := range []string{"USED", "TOTAL"} {
					fmt.Fprintf(&b, "DCGM_FI_DEV_FB_%s{gpu=\"%d\"} =>\n", m, g)
					for _, r := range rows {
						if r.gpu == g {
							fmt.Fprintf(&b, "%d @[%d]\n", map[string]int{"USED": r.used, "TOTAL": r.total}[m], r.t.Unix())
						}
					}
				}
			}
			return b.String()
		}, false},
	} {
		text := c.write(leakRows(t))
		wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(strings.ReplaceAll(text, "\n", "\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{c.name: text, c.name + ", by PowerShell": wide} {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := tool(t.Context(), append([]string{"backtest", path}, strings.Fields(c.args)...)...)
			want := "Would have paged at 2026-03-01 13:11 UTC for "
			if c.noCapacity {
				want = "Would have ticketed at 2026-03-01 13:38 UTC for "
			}
			if code != exitLeak || stderr != "" || !strings.Contains(stdout, want) || !strings.Contains(stdout, "leak at 2026-03-01 13:08") {
				t.Errorf("%s: exit code %d, %s%s", name, code, stderr, stdout)
			}
		}
	}
}
