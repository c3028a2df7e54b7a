// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// told writes a sample in one line: GPU, time, MiB of used memory and of the capacity, processes.
func told(info gpu.Info, s *gpu.Sample) string {
	var b strings.Builder
	amount := func(v gpu.Opt[uint64]) string {
		if !v.OK {
			return "?"
		}
		return strconv.FormatUint(v.V/mib, 10)
	}
	fmt.Fprintf(&b, "%s %s %s/%s", info.UUID, s.Time.Format("02 15:04:05.999"), amount(s.Memory.Used), amount(s.Memory.Capacity()))
	if s.ProcessesKnown {
		var list []string
		for _, p := range s.Processes {
			list = append(list, fmt.Sprintf("%s:%d.%d=%s", p.Owner.Process, p.ID.PID, p.ID.Start, amount(p.Used)))
		}
		fmt.Fprintf(&b, " %v", list)
	}
	return b.String()
}

// readLog reads a log to its end, as told.
func readLog(in io.Reader, log *Log) (got, left []string, err error) {
	return readNamed("log", in, log)
}

func readNamed(name string, in io.Reader, log *Log) (got, left []string, err error) {
	r, err := NewReader(name, in, log)
	for err == nil {
		var info *gpu.Info
		var s *gpu.Sample
		if info, s, err = r.Next(); err == nil {
			got = append(got, told(*info, s))
		}
	}
	if r != nil {
		left = r.LeftOut()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, left, err
}

// columns is a log whose columns are given.
func columns(names string) Log {
	list, err := ParseColumns(names)
	if err != nil {
		panic(err)
	}
	return Log{Columns: list, Start: time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)}
}

func zoneOf(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return loc
}

// logCase is a log, and what is read of it.
type logCase struct {
	name, text string
	log        Log
	want       []string
	left       string // parts of what is said of what was left out, between |
}

// at begins a row.
const at = "2026/03/01 10:00:00.000, "

func logCases() []logCase {
	untimed := columns("host,index,memory.used,memory.total")
	untimed.Interval = 10 * time.Second
	in := func(zone string, l Log) Log {
		l.Location = zoneOf(zone)
		return l
	}
	every, err := os.ReadFile("testdata/smi-all.csv")
	if err != nil {
		panic(err)
	}
	return []logCase{
		{name: "every column of nvidia-smi", text: string(every), want: []string{"GPU-00000000-1111-2222-3333-444444444444 01 10:00:00 1004/81008"}},
		{name: "of GPUs", text: "timestamp, index, uuid, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n" + at + "3, GPU-a, 1826 MiB, 81920 MiB, 17 %\n", want: []string{"GPU-a 01 10:00:00 1826/81920"}},
		{name: "without units and in another order", text: "memory.used [MiB], utilization.gpu [%], uuid, timestamp\n1826, 17, GPU-a, 2026/03/01 10:00:00.000\n", want: []string{"GPU-a 01 10:00:00 1826/?"}},
		{name: "units only in the rows, no blanks, Windows line breaks", text: "timestamp,uuid,memory.used\r\n2026/03/01 10:00:00.000,GPU-a,1826 MiB\r\n", want: []string{"GPU-a 01 10:00:00 1826/?"}},
		{name: "other units", text: "timestamp, memory.used [B], memory.total [GiB]\n" + at + "1914699776, 80\n", want: []string{"unnamed 01 10:00:00 1826/81920"}},
		{name: "of our own names", text: "timestamp,gpu,used [MiB]\n" + at + "0,5\n", want: []string{"index-0 01 10:00:00 5/?"}},
		{name: "nothing is known", text: "timestamp, uuid, name, memory.used [MiB], memory.total [MiB]\n" + at + "GPU-a, [Unknown Error], [GPU is lost], N/A\n", want: []string{"GPU-a 01 10:00:00 ?/?"}},
		{name: "only free memory", text: "timestamp, memory.free [MiB], memory.total [MiB], memory.reserved [MiB]\n" + at + "100, 2000, 74\n", want: []string{"unnamed 01 10:00:00 1826/1926"}},
		{name: "used memory that failed is not worked out", text: "timestamp, memory.used [MiB], memory.free [MiB], memory.total [MiB]\n" + at + "[N/A], 100, 2000\n", want: []string{"unnamed 01 10:00:00 ?/2000"}},
		{name: "in the afternoon", text: "timestamp, memory.used [MiB]\n2026/03/01 12:00:00 AM, 5\n2026-03-01 8:00:00.5 PM, 6\n", want: []string{"unnamed 01 00:00:00 5/?", "unnamed 01 20:00:00.5 6/?"}},
		{name: "blank lines", text: "timestamp, memory.used [MiB]\n\n" + at + "1826\n\n \n2026/03/01 10:00:01.000, 11 MiB\n\n ", want: []string{"unnamed 01 10:00:00 1826/?", "unnamed 01 10:00:01 11/?"}},
		{name: "saved again with semicolons and quotes", text: "\"timestamp\";\"memory.used [MiB]\"\n\"2026/03/01 10:00:00.000\";\"24010 MiB\"\n2026/03/01 10:00:01.000;24.010,5 MiB\n2026/03/01 10:00:02.000;24,010.5\n", want: []string{"unnamed 01 10:00:00 24010/?", "unnamed 01 10:00:01 24010/?", "unnamed 01 10:00:02 24010/?"}},
		{name: "a header again, with other columns, too", text: "timestamp, uuid, memory.used [MiB]\n" + at + "GPU-a, 10 MiB\ntimestamp, uuid, memory.used [MiB]\n2026/03/01 10:00:01.000, GPU-a, 11 MiB\n" +
			"uuid, memory.used [MiB], memory.total [MiB], timestamp\nGPU-a, 12 MiB, 100 MiB, 2026/03/01 10:00:02.000\n", want: []string{"GPU-a 01 10:00:00 10/?", "GPU-a 01 10:00:01 11/?", "GPU-a 01 10:00:02 12/100"}},
		{
			name: "of processes, one of which ends and one begins, and a pid that was gone is another process", text: "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n" + at + "GPU-a, 20, /usr/bin/python3, 200 MiB\n" + at + "GPU-b, 30, a, 300 MiB\n" + at + "GPU-a, 10, ./server, 100 MiB\n" +
				"2026/03/01 10:00:01.000, GPU-a, 20, /usr/bin/python3, 202 MiB\n2026/03/01 10:00:02.000, GPU-a, 20, /usr/bin/python3, 204 MiB\n2026/03/01 10:00:02.001, GPU-a, 10, C:\\Program Files\\App\\app.exe, 110 MiB\n",
			want: []string{"GPU-a 01 10:00:00 ?/? [server:10.0=100 python3:20.0=200]", "GPU-a 01 10:00:01 ?/? [python3:20.0=202]", "GPU-a 01 10:00:02 ?/? [app.exe:10.2=110 python3:20.0=204]", "GPU-b 01 10:00:00 ?/? [a:30.0=300]"},
		},
		{
			name: "lists that follow fast, and long ones whose stamps differ", text: "timestamp, pid, used_memory [MiB]\n" + at + "1, 1\n2026/03/01 10:00:00.010, 1, 2\n2026/03/01 10:00:00.050, 2, 2\n2026/03/01 10:00:00.100, 3, 3\n2026/03/01 10:00:00.151, 4, 4\n",
			want: []string{"unnamed 01 10:00:00 ?/? [:1.0=1]", "unnamed 01 10:00:00.01 ?/? [:1.0=2 :2.1=2 :3.1=3]", "unnamed 01 10:00:00.151 ?/? [:4.2=4]"},
		},
		{name: "commas in a name, unknown names and amounts", text: "timestamp, pid, process_name, used_memory [MiB]\n" + at + "1, /opt/chrome --type=gpu, --a,b, 12 MiB\n" + at + "2, [Not Found], [N/A]\n", want: []string{"unnamed 01 10:00:00 ?/? [chrome --type=gpu, --a, b:1.0=12 :2.0=?]"}},
		{
			name: "a process twice at one time, and a list from before", log: columns("timestamp,pid,used[MiB]"),
			text: "1772404200,10,100\n1772404200,10,50\n1772404200,20,7\n1772404201,10,N/A\n1772404201,10,101\n1772404200,20,8\n1772404201.02,20,9\n",
			want: []string{"unnamed 01 22:30:00 ?/? [:10.0=100 :20.0=7]", "unnamed 01 22:30:01 ?/? [:10.0=101 :20.0=9]"},
			left: "left out 1 line, line 2: pid 10 stands twice at one time, and the larger amount is used|left out 1 line, line 6: 1772404200 is not after 1772404201, its row before",
		},
		{
			name: "a GPU without any process", log: columns("timestamp,gpu,pid,process,used[MiB]"), text: "1772404200,0,7,/opt/python3,600\n1772404200,1,-,-,-\n1772404201,0,7,/opt/python3,610\n",
			want: []string{"index-0 01 22:30:00 ?/? [python3:7.0=600]", "index-0 01 22:30:01 ?/? [python3:7.0=610]", "index-1 01 22:30:00 ?/? []"},
		},
		{
			name: "a damaged row of a process leaves out its lists", text: "timestamp, pid, process_name, used_memory [MiB]\n" + at + "7, a, 5\n" + at + "8, b, 6\n2026/03/01 10:00:01.000, 7, pyth2026/03/01 10:00:01.000, 8, b, 6\n2026/03/01 10:00:01.000, 8, b, 6\n2026/03/01 10:00:02.000, 7, a, 5\n2026/03/01 10:00:02.000, 8, b, 6\n",
			want: []string{"unnamed 01 10:00:02 ?/? [a:7.0=5 b:8.0=6]"}, left: `left out 1 line, line 4: another row begins inside of it: "2026/`,
		},
		{
			name: "without a time", log: untimed, text: "host, index, memory.used [MiB], memory.total [MiB]\na, 0, 5 MiB, 8 MiB\nb, 0, 6 MiB, 8 MiB\na, 0, [N/A], 8 MiB\nb, 0, 7 MiB, 8 MiB\n",
			want: []string{"a:0 01 23:59:00 5/8", "b:0 01 23:59:00 6/8", "a:0 01 23:59:10 ?/8", "b:0 01 23:59:10 7/8"},
		},
		{
			name: "with units, and a header", log: columns("timestamp,gpu,used[MiB],total[GiB],-"), text: "when,card,a,b,c\n2026-03-01T22:30:00Z,1,5,2,x\n2026-03-01T22:30:01Z,1,N/A,2,x\nwhen,card,a,b,c\n2026-03-01T22:30:02Z,1,7.5,2,x\n",
			want: []string{"index-1 01 22:30:00 5/2048", "index-1 01 22:30:01 ?/2048", "index-1 01 22:30:02 7/2048"},
		},
		{
			name: "date and time, with names of GPUs", log: columns("date,time,gpu,free[MiB],total[MiB]"), text: "\"2026-03-01\";\"22:30:00\";\"n1;0\";\"1\";\"4\"\n2026-03-01;22:30:00;n1:1;2;4\n",
			want: []string{"n1;0 01 22:30:00 3/4", "n1:1 01 22:30:00 2/4"},
		},
		{
			name: "values with units, milliseconds, tabs", log: columns("timestamp,used"), text: "1772404200000\t10 MiB\n1772404201.5\t2GB\n1772404202\t[Not Supported]\n",
			want: []string{"unnamed 01 22:30:00 10/?", "unnamed 01 22:30:01.5 1907/?", "unnamed 01 22:30:02 ?/?"},
		},
		{name: "over midnight", log: columns("time,gpu,used[MiB]"), text: "23:59:59,0,100\n00:00:00,0,101\n", want: []string{"index-0 01 23:59:59 100/?", "index-0 02 00:00:00 101/?"}},
		{
			name: "half a day after the last row of a minute", log: columns("time,gpu,used[MiB]"), text: "12:30:00.000,0,1\n12:30:59.000,0,2\n00:30:30.000,0,3\n",
			want: []string{"index-0 01 12:30:00 1/?", "index-0 01 12:30:59 2/?", "index-0 02 00:30:30 3/?"},
		},
		{
			name: "a clock that is set back, a comment, and a cut line", log: columns("timestamp,gpu,used[MiB]"), text: "# a comment\n1772404200,0,100\n1772404200,1,-\n1772404199,0,110\n1772404201,,1\n1772404202,0,120\n1772404203,0,1",
			want: []string{"index-0 01 22:30:00 100/?", "index-1 01 22:30:00 ?/?", "index-0 01 22:30:02 120/?"},
			left: `1: is no part of the log: "# a comment"|4: 1772404199 of GPU "0" is not after 1772404200, its row before: the clock was set back|5: does not tell its GPU|7: the file ends inside it`,
		},
		{
			name: "an hour comes twice", log: in("Europe/Berlin", columns("timestamp,used[MiB]")), text: "2026-10-25 02:30:00,1\n2026-10-25 02:59:59,2\n2026-10-25 02:00:00,3\n2026-10-25 02:30:00,4\n2026-10-25 03:00:00,5\n",
			want: []string{"unnamed 25 00:30:00 1/?", "unnamed 25 00:59:59 2/?", "unnamed 25 01:00:00 3/?", "unnamed 25 01:30:00 4/?", "unnamed 25 02:00:00 5/?"},
		},
		{
			name: "half an hour does, in another zone", log: in("Australia/Lord_Howe", Log{}), text: "timestamp, memory.used [MiB]\n2026/04/05 01:30:00.000, 1\n2026/04/05 01:59:59.000, 2\n2026/04/05 01:30:00.000, 3\n2026/04/05 02:00:00.000, 4\n",
			want: []string{"unnamed 04 14:30:00 1/?", "unnamed 04 14:59:59 2/?", "unnamed 04 15:00:00 3/?", "unnamed 04 15:30:00 4/?"},
		},
		{
			name: "and of processes", log: in("Europe/Berlin", Log{}), text: "timestamp, pid, used_memory [MiB]\n2026/10/25 02:59:59.000, 1, 1\n2026/10/25 02:59:59.001, 2, 1\n2026/10/25 02:00:00.000, 1, 1\n2026/10/25 02:00:00.001, 2, 1\n",
			want: []string{"unnamed 25 00:59:59 ?/? [:1.0=1 :2.0=1]", "unnamed 25 01:00:00 ?/? [:1.0=1 :2.0=1]"},
		},
		{
			name: "the stamp tells its zone", log: in("Europe/Berlin", Log{}), text: "timestamp, memory.used [MiB]\n2026-10-25T02:30:00+02:00, 1\n2026-10-25T02:20:00+02:00, 2\n2026-10-25 02:20:00 +0100, 3\n",
			want: []string{"unnamed 25 00:30:00 1/?", "unnamed 25 01:20:00 3/?"}, left: "line 3: 2026-10-25T02:20:00+02:00 is not after 2026-10-25T02:30:00+02:00",
		},
		{
			name: "messages, also before the header", text: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n\ntimestamp, memory.used [MiB]\n" + at + "10 MiB\nUnable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n2026/03/01 10:00:05.000, 11 MiB\n",
			want: []string{"unnamed 01 10:00:00 10/?", "unnamed 01 10:00:05 11/?"}, left: `left out 2 lines, the first is line 1: is no part of the log: "NVIDIA-SMI has failed`,
		},
		{
			name: "lines of another program, and rows that are damaged", text: "Epoch 0: loss=2.30\ntimestamp, uuid, memory.used [MiB]\n" + at + "GPU-a, 10 MiB\nGPU-a: No devices were found\n2026/03/01 10:0\n2026/03/01 10:00:01.000, GPU-a, 11 apples\n" +
				"2026/03/01 10:00:01.000, GPU-a, 1timestamp, uuid, memory.used [MiB]\n2026/03/01 10:00:02.000, GPU-a, 12 MiB\n2026/03/01 10:00:03.000, GPU-a, 13 MiB\n2026/03/01 10:00:04.000, GPU-a, 14 MiB\n2026/03/01 10:00:05.000, GPU-a, 15 MiB\n",
			want: []string{"GPU-a 01 10:00:00 10/?", "GPU-a 01 10:00:02 12/?", "GPU-a 01 10:00:03 13/?", "GPU-a 01 10:00:04 14/?", "GPU-a 01 10:00:05 15/?"},
			left: `left out 5 lines, the first is line 1: no header of nvidia-smi: "Epoch 0: loss=2.30"`,
		},
		{name: "cut inside a number", text: "timestamp, memory.free [MiB], memory.used [MiB]\n" + at + "9 MiB, 10 MiB\n2026/03/01 10:00:01.000, 11 MiB, 1", want: []string{"unnamed 01 10:00:00 10/?"}, left: `left out 1 line, line 3: the file ends inside it: "2026/03/01 10:00:01.000, 11 MiB, 1"`},
		{name: "cut behind a unit", text: "timestamp, memory.free [MiB], memory.used [MiB]\n" + at + "9 MiB, 10 MiB\n2026/03/01 10:00:01.000, 11 MiB", want: []string{"unnamed 01 10:00:00 10/?"}, left: `the file ends inside it: "2026/03/01 10:00:01.000, 11 MiB"`},
	}
}

// TestLogs reads each log as it is, compressed, as PowerShell writes it, and with a mark before UTF-8.
func TestLogs(t *testing.T) {
	for _, c := range logCases() {
		t.Run(c.name, func(t *testing.T) {
			for _, text := range []string{c.text, compress(t, c.text), wide(t, unicode.LittleEndian, c.text), compress(t, wide(t, unicode.BigEndian, c.text)), "\ufeff" + c.text} {
				got, left, err := readLog(strings.NewReader(text), &c.log)
				if err != nil || !slices.Equal(got, c.want) {
					t.Fatalf("%v\ngot  %q\nwant %q", err, got, c.want)
				}
				said := strings.Join(left, "\n")
				for part := range strings.SplitSeq(c.left, "|") {
					if !strings.Contains(said, part) || c.left == "" && said != "" {
						t.Fatalf("left out %q, want %q", left, c.left)
					}
				}
			}
		})
	}
}

// wide is a text as PowerShell writes it.
func wide(t *testing.T, order unicode.Endianness, text string) string {
	t.Helper()
	out, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(strings.ReplaceAll(text, "\n", "\r\n"))
	must(t, err)
	return out
}

// TestGPUs has logs that tell in different ways which GPU a row is of. Of those that tell no index none is made up.
func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		columns, row string
		index        int
		uuid         string
	}{
		{"uuid, index", "GPU-b, 0", 0, "GPU-b"},
		{"gpu_uuid", "GPU-b", -1, "GPU-b"},
		{"index", "4", 4, "index-4"},
		{"gpu", "4.0", 4, "index-4"}, // by pandas
		{"gpu", "node1:3", -1, "node1:3"},
		{"hostname, index", "n1, 3", 3, "n1:3"},
		{"uuid, index", "n1, 3", 3, "n1:3"},
		{"uuid, host, index", "GPU-b, n1, 3", 3, "GPU-b"},
		{"pci.bus_id", "00000000:3B:00.0", -1, "pci-00000000:3B:00.0"},
		{"uuid, index", "[N/A], 0", 0, "index-0"},
		{"name", "A100", -1, gpu.Unnamed},
	} {
		r, err := NewReader("log", strings.NewReader("timestamp, "+c.columns+", memory.used [MiB]\n"+at+c.row+", 5\n"), nil)
		must(t, err)
		if info, _, err := r.Next(); err != nil || info.Index != c.index || info.UUID != c.uuid {
			t.Errorf("%s: GPU %d %q, %v; want %d %q", c.columns, info.Index, info.UUID, err, c.index, c.uuid)
		}
	}
	// One that is lost is the one that it was.
	const lost = "timestamp, index, uuid, memory.used [MiB]\n" + at + "1, GPU-a, 5 MiB\n2026/03/01 10:00:01.000, 1, [GPU is lost], [GPU is lost]\n"
	if got, _, err := readLog(strings.NewReader(lost), nil); err != nil || !slices.Equal(got, []string{"GPU-a 01 10:00:00 5/?", "GPU-a 01 10:00:01 ?/?"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLogErrors pins the text of every error that a user can meet, for the replay and, where that goes on, for Reader.
func TestLogErrors(t *testing.T) {
	const head = "timestamp, uuid, memory.used [MiB], memory.total [MiB]\n"
	const good = "2026/03/01 10:00:00.000, GPU-a, 10 MiB, 100 MiB\n"
	const apps = "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]\n"
	const header = "no header line of nvidia-smi, and no recording of gpu_leak_exporter: leave noheader out of --format=csv,… when recording"
	const date = "as a time such as 2026-03-01 17:01:16, 2026-03-01T17:01:16Z or 1772384476"
	long := at + "GPU-a, " + strings.Repeat("ä", 100)
	for _, c := range []struct {
		name, text, want string
		log              Log
	}{
		{name: "empty", text: "", want: "log: is empty"},
		{name: "blank", text: "\n \n", want: "log: is empty"},
		{name: "no header", text: good, want: "log:1: " + header},
		{name: "another file", text: "hello\n", want: "log:1: " + header},
		{name: "an archive", text: compress(t, "PK\x03\x04\x14\x00\n"), want: "log: is compressed, and not by gzip: unpack it first"},
		{name: "of zstd", text: "\x28\xb5\x2f\xfd\x00", want: "log: is compressed, and not by gzip: unpack it first"},
		{name: "of bzip2", text: "BZh1\x00", want: "log: is compressed, and not by gzip: unpack it first"},
		{name: "of xz", text: "\xfd7zXZ\x00\x00\x04", want: "log: is compressed, and not by gzip: unpack it first"},
		{name: "JSON", text: "{\"a\":1}\n", want: "log:1: " + header},
		{name: "no timestamp", text: "uuid, memory.used [MiB]\nGPU-a, 10 MiB\n", want: "log:1: no timestamp column: give both --log.start and --log.interval, or record with nvidia-smi --query-gpu=timestamp,index,uuid,memory.used,memory.total --format=csv -l 1"},
		{name: "no memory", text: "timestamp, pid\n", want: "log:1: no column of used memory: record with nvidia-smi --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory --format=csv -l 1"},
		{name: "an unknown unit", text: "timestamp, memory.used [stone]\n", want: "log:1: no column of used memory: record with nvidia-smi --query-gpu"},
		{name: "only messages", text: "\nNo devices were found\n# a\n", want: `log: holds only messages of nvidia-smi and comments: left out 2 lines, the first is line 2: is no part of the log: "No devices were found"`},
		{name: "fruit", text: head + at + "GPU-a, 12 apples, 100 MiB\n" + good, want: `log:2: memory.used: cannot read "12 apples" as memory such as 1234 MiB: "2026/03/01 10:00:00.000, GPU-a, 12 apples, 100 MiB"`},
		{name: "negative", text: head + at + "GPU-a, -12, 100 MiB\n", want: `log:2: memory.used: cannot read "-12" as memory such as 1234 MiB`},
		{name: "a comma between thousands", text: head + at + "GPU-a, \"30,000 MiB\", 100 MiB\n", want: `log:2: memory.used: cannot read "30,000 MiB" as memory such as 1234 MiB, without a comma between thousands`},
		{name: "hexadecimal", text: head + at + "GPU-a, 0x10, 100 MiB\n", want: `log:2: memory.used: cannot read "0x10" as memory such as 1234 MiB`},
		{name: "all ones", text: head + at + "GPU-a, 17592186044415 MiB, 100 MiB\n", want: `log:2: memory.used: "17592186044415 MiB" is more memory than any GPU has: check the unit`},
		{name: "too few fields", text: head + at + "GPU-a, 12 MiB\n" + good, want: `log:2: has 3 fields, but the header has 4 columns: "2026/03/01 10:00:00.000, GPU-a, 12 MiB"`},
		{name: "a long line", text: head + long + ",\n", want: `log:2: memory.used: cannot read "` + strings.Repeat("ä", 60) + `…" as memory such as 1234 MiB: "2026/03/01 10:00:00.000, GPU-a, ` + strings.Repeat("ä", 44) + `…"`},
		{name: "a line below a row", text: head + good + "epoch 1\n", want: `log:3: has 1 fields, but the header has 4 columns: "epoch 1": remove or repair the line`},
		{name: "time", text: head + "yesterday, GPU-a, 12 MiB, 100 MiB\n", want: `log:2: cannot read "yesterday" ` + date},
		{name: "seconds of a program", text: head + "4.123456789, GPU-a, 12 MiB, 100 MiB\n", want: `log:2: cannot read "4.123456789" ` + date},
		{name: "the day or the month", text: head + "03/01/2026 10:00, GPU-a, 12 MiB, 100 MiB\n", want: `log:2: cannot read "03/01/2026 10:00" as a time: whether the day comes first or the month is not guessed. Write the year first, as sed -E 's#(..)[./](..)[./](....)#\3-\2-\1#' does`},
		{name: "a time before there were GPUs", text: head + "0001/03/01 10:00:01.000, GPU-a, 12 MiB, 100 MiB\n", want: `log:2: "0001/03/01 10:00:01.000" is not between 1971 and 2200`},
		{name: "seconds of 1970", text: head + "0000000005.5, GPU-a, 12 MiB, 100 MiB\n", want: `log:2: "0000000005.5" is not between 1971 and 2200`},
		{name: "seconds of no year", text: head + strings.Repeat("9", 300) + ", GPU-a, 12 MiB, 100 MiB\n", want: `…" is not between 1971 and 2200`},
		{name: "no date", log: Log{Columns: columns("time,used[MiB]").Columns}, text: "10:00:00,5\n", want: "log:1: tells the time of day and no date: give the day on which it begins, as --log.start=2026-03-01"},
		{name: "ends inside the header", text: "timestamp, memory.used", want: "log:1: the file ends inside this line: remove the line, or end it with a line break if it is whole"},
		{name: "the only row is cut", text: head + "2026/03/01 10:00", want: `log: holds no samples: let the recording run longer; left out 1 line, line 2: the file ends inside it: "2026/03/01 10:00"`},
		{name: "header only", text: head, want: "log: holds no samples: let the recording run longer"},
		{name: "header of another query", text: head + good + apps, want: `log:3: a header of other columns: split the file there: "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]"`},
		{name: "compressed and cut off", text: compress(t, head+good)[:40], want: "log:1: the compressed file is cut off: save its whole lines with zcat FILE | head -n -1 > NEW"},
		{name: "compressed badly", text: "\x1f\x8bxyz", want: "log: gzip: unexpected EOF"},
		{name: "pid", text: apps + at + "GPU-a, one, 1 MiB\n", want: `log:2: cannot read "one" as a process id: "2026/03/01 10:00:00.000, GPU-a, one, 1 MiB"`},
		{name: "a process twice", text: apps + at + "GPU-a, 1, 1 MiB\n" + at + "GPU-a, 1, 2 MiB\n", want: `log:3: pid 1 of GPU "GPU-a" stands twice at one time, and the larger amount is used: record which GPU each row is of`},
		{name: "too many processes", text: apps + strings.Repeat(at+"GPU-a, 1, 1 MiB\n", maxProcesses+1), want: "lists more than 65536 processes at one time: check the time stamps"},
		{name: "no unit", log: columns("timestamp,used"), text: "2026-03-01 10:00:00,5\n", want: "log:1: used: tells no unit: write it behind the column's name, as in --columns='timestamp,gpu,used[MiB]'"},
		{name: "fewer columns", log: columns("timestamp,used[B]"), text: "2026-03-01 10:00:00,5,6\n", want: "log:1: has 3 fields, but --columns names 2: name each one, those of no use -"},
		{name: "more used than there is", log: columns("timestamp,used[B],total[B]"), text: "2026-03-01 10:00:00,6,5\n", want: "log:1: more is in use than there is: check which column is which, and the units"},
		{name: "a header of other columns", log: columns("timestamp,used[B],total[B]"), text: "time,used,total\n2026-03-01 10:00:00,5,6\ntime,total,used\n", want: `log:3: a header of other columns: split the file there: "time,total,used"`},
		{name: "points between thousands", text: "timestamp;memory.used [MiB]\n2026/03/01 10:00:00.000;24.500\n", want: `log:2: memory.used: amounts such as "24.500" are less than a GPU has. If the point sets thousands apart, take it out: awk -F';' -v OFS=';' '{for (i = 2; i <= NF; i++) gsub(/[.]/, "", $i)} 1'. If it stands before decimals, add one: sed -E 's/([.][0-9]{3})/\10/g'`},
		{name: "or commas", text: "timestamp;memory.used [MiB]\n2026/03/01 10:00:00.000;24,500\n", want: `log:2: memory.used: amounts such as "24,500" are less`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.text)
			_, err := New(path, 1)
			if c.log.Columns != nil {
				_, _, err = readLog(strings.NewReader(c.text), &c.log)
			}
			if err == nil {
				t.Fatal("no error")
			}
			if got := strings.ReplaceAll(err.Error(), path, "log"); !strings.Contains(got, c.want) || !strings.HasPrefix(got, "log:") || strings.Contains(got, "\n") {
				t.Errorf("error %s\nwant  %s", got, c.want)
			}
		})
	}
}

func TestParseColumns(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `does not know "": choose of timestamp`,
		"timestamp,usage":         `does not know "usage": choose of timestamp, date, time, gpu`,
		"timestamp,used[miles]":   "used[miles] has no unit such as used[MiB]",
		"timestamp,used,mem_used": "two columns are used: call the one of no use -",
	} {
		if _, err := ParseColumns(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestTooMuchLeftOut has logs of which more is left out than read, or whose time goes back in a third. The exporter shows what
// there is of those whose time has not moved on.
func TestTooMuchLeftOut(t *testing.T) {
	row := func(second int) string { return fmt.Sprintf("2026/03/01 10:00:%02d.000, 10 MiB\n", second) }
	const times = "log: has too many rows that cannot be used: left out 2 lines, the first is line "
	for rows, want := range map[string]string{
		row(1) + row(1) + row(1):                     times + "3: ",
		row(9) + row(10) + row(11) + row(1) + row(2): times + "5: ",
		row(0) + "epoch 1\nepoch 2\n":                `log: has more lines that cannot be read than others: left out 2 lines, the first is line 3: has 1 fields, but the header has 2 columns: "epoch 1"`,
	} {
		log := "timestamp, memory.used [MiB]\n" + rows
		if _, _, err := readLog(strings.NewReader(log), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := New(write(t, log), 1); err != nil != strings.Contains(rows, "epoch") {
			t.Errorf("the replay: %v", err)
		}
	}
}

// TestTooManyGPUs has a column that names something else, of GPUs and of processes.
func TestTooManyGPUs(t *testing.T) {
	for _, c := range []string{"timestamp, uuid, memory.used [MiB]\n", "timestamp, uuid, pid, used_memory [MiB]\n"} {
		var b strings.Builder
		b.WriteString(c)
		for i := range maxGPUs + 1 {
			fmt.Fprintf(&b, "%sGPU-%d%s, 5\n", at, i, strings.Repeat(", 7", strings.Count(c, ",")-2))
		}
		if _, _, err := readLog(strings.NewReader(b.String()), nil); err == nil || err.Error() != "log:1026: more than 1024 GPUs: check that the columns are what their names say" {
			t.Error(err)
		}
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestReadFails(t *testing.T) {
	broken := errors.New("broken")
	if _, _, err := readLog(io.MultiReader(strings.NewReader("a"), failing{broken}), nil); !errors.Is(err, broken) {
		t.Error(err)
	}
}
