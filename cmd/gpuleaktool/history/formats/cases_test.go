// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"strings"
	"time"
)

func csvCases() []readCase {
	columns := func(text string) Options { return Options{Columns: strings.Split(text, ",")} }
	untimed := columns("index,memory.used,memory.total")
	untimed.Start, untimed.Interval = start, 10*time.Second
	return []readCase{
		{
			"without a time", untimed, "index, memory.used [MiB], memory.total [MiB]\n0, 5 MiB, 8 MiB\n1, 6 MiB, 8 MiB\n0, [N/A], 8 MiB\n1, 7 MiB, 8 MiB\n",
			[]string{"index-0 01 23:59:00 5/8", "index-1 01 23:59:00 6/8", "index-0 01 23:59:10 ?/8", "index-1 01 23:59:10 7/8"},
			"",
		},
		{
			"with units, and a header", columns("timestamp,gpu,used[MiB],total[GiB],-"), "when,card,a,b,c\n2026-03-01T22:30:00Z,1,5,2,x\n2026-03-01T22:30:01Z,1,N/A,2,x\n2026-03-01T22:30:02Z,1,7.5,2,x\n",
			[]string{"index-1 01 22:30:00 5/2048", "index-1 01 22:30:01 ?/2048", "index-1 01 22:30:02 7/2048"},
			"",
		},
		{
			"quoted, with names of GPUs", columns("date,time,gpu,used,free[MiB],total[MiB]"), "\"2026-03-01\";\"22:30:00\";\"n1;0\";;\"1\";\"4\"\n2026-03-01;22:30:00;n1:1;;2;4\n",
			[]string{"n1;0 01 22:30:00 3/4", "n1:1 01 22:30:00 2/4"},
			"",
		},
		{
			"values with units, milliseconds", columns("timestamp,used"), "1772404200000\t10 MiB\n1772404201.5\t2GB\n1772404202\t[Not Supported]\n",
			[]string{"unnamed 01 22:30:00 10/?", "unnamed 01 22:30:01 1907/?", "unnamed 01 22:30:02 ?/?"},
			"",
		},
		{
			"processes", columns("timestamp,gpu,pid,process,used[B]"), "1772404200,0,7,/bin/a,1048576\n1772404200,0,8,b,2097152\n1772404201,0,8,b,2097152\n",
			[]string{"index-0 01 22:30:00 ?/? [a:7.0=1 b:8.0=2]", "index-0 01 22:30:01 ?/? [b:8.0=2]"},
			"",
		},
		{
			"a process twice at one time", columns("timestamp,pid,used[MiB]"),
			"1772404200,10,100\n1772404200,10,50\n1772404200,20,7\n1772404201,10,N/A\n1772404201,10,101\n1772404201,20,8\n1772404201.02,20,9\n",
			[]string{"unnamed 01 22:30:00 ?/? [:10.0=100 :20.0=7]", "unnamed 01 22:30:01 ?/? [:10.0=101 :20.0=8]", "unnamed 01 22:30:01 ?/? [:20.0=9]"},
			`left out 1 line, line 2: pid 10 stands twice at one time, and the larger amount is used`,
		},
		{
			"over midnight",
			Options{Columns: []string{"time", "gpu", "used[MiB]"}, Start: start},
			"23:59:59,0,100\n00:00:00,0,101\n",
			[]string{"index-0 01 23:59:59 100/?", "index-0 02 00:00:00 101/?"},
			"",
		},
		{
			"a clock that is set back, and a comment",
			columns("timestamp,gpu,used[MiB]"),
			"1772404200,0,100\n1772404200,1,-\n1772404199,0,110\n# a comment\n1772404202,0,120\n1772404203,0,1",
			[]string{"index-0 01 22:30:00 100/?", "index-1 01 22:30:00 ?/?", "index-0 01 22:30:02 120/?"},
			`is not after 1772404200, its row before: rows come faster|left out 1 line, line 4: is no part of the log: "# a comment"|the file ends inside it`,
		},
		{
			"a process that is gone for a while, and a GPU without any",
			columns("timestamp,gpu,pid,process,used[MiB]"),
			"1772404200,0,4711,/opt/python3,600\n1772404200,0,4712,chrome,20\n1772404200,1,-,-,-\n1772404201,0,4711,/opt/python3,610\n1772404202,0,4712,chrome,620\n",
			[]string{"index-0 01 22:30:00 ?/? [python3:4711.0=600 chrome:4712.0=20]", "index-0 01 22:30:01 ?/? [python3:4711.0=610]", "index-0 01 22:30:02 ?/? [chrome:4712.2=620]", "index-1 01 22:30:00 ?/? []"},
			"",
		},
		{
			"lists that follow fast, stamps that are in no order in a list, and a list of an earlier time",
			columns("timestamp,pid,used[MiB]"),
			"1772404200.00,7,1\n1772404200.03,8,1\n1772404200.02,9,1\n1772404200.06,-,-\n1772404200.10,-,-\n1772404200.14,-,-\n1772404199,7,2\n1772404199,8,2\n1772404201,7,3\n",
			[]string{"unnamed 01 22:30:00 ?/? [:7.0=1 :8.0=1 :9.0=1]", "unnamed 01 22:30:00 ?/? []", "unnamed 01 22:30:00 ?/? []", "unnamed 01 22:30:01 ?/? [:7.3=3]"},
			"left out 1 line, line 7: 1772404199 is not after 1772404200.14, its row before",
		},
		{
			"a time that comes twice, a cut line",
			Options{Location: berlin(), Columns: []string{"timestamp", "used[MiB]"}},
			"2026-10-25 02:30:00,1\n2026-10-25 02:59:59,2\n2026-10-25 02:00:00,3\n2026-10-25 02:30:00,4\n2026-10-25 03:00:00,5\n2026-10-25 03:00:01,6",
			[]string{"unnamed 25 00:30:00 1/?", "unnamed 25 00:59:59 2/?", "unnamed 25 01:00:00 3/?", "unnamed 25 01:30:00 4/?", "unnamed 25 02:00:00 5/?"},
			"the file ends inside it",
		},
	}
}

// berlin is a zone whose clocks are set back.
func berlin() *time.Location {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return loc
}
