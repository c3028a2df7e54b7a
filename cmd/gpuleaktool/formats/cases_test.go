// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"strings"
	"time"
)

func monitorCases() []readCase {
	dmon := `#Date       Time        gpu     fb   bar1   ccpm 
#YYYYMMDD   HH:MM:SS    Idx     MB     MB     MB 
 20260301   22:30:00      0    100      3      0 
 20260301   22:30:00      1      -      3      - 
#Date       Time        gpu     fb   bar1   ccpm 
#YYYYMMDD   HH:MM:SS    Idx     MB     MB     MB 
 20260301   22:30:01      0    110      3      0 
`
	pmon := `#Date       Time        gpu         pid   type     fb   ccpm    command 
#YYYYMMDD   HH:MM:SS    Idx           #    C/G     MB     MB    name 
 20260301   22:30:00      0       4711      C    600      0    python3        
 20260301   22:30:00      0       4712    C+G     20      -    chrome --type=g
 20260301   22:30:00      1          -      -      -      -    -              
 20260301   22:30:01      0       4711      C    610      0    python3        
 20260301   22:30:02      0       4712      C    620      0    python3        
`
	return []readCase{
		{"with date", Dmon, Options{}, dmon, []string{"index-0 01 22:30:00 100/?", "index-1 01 22:30:00 ?/?", "index-0 01 22:30:01 110/?"}, ""},
		{
			"over midnight", Dmon,
			Options{Start: start},
			"#Time        gpu     fb \n#HH:MM:SS    Idx     MB \n 23:59:59      0    100 \n 00:00:00      0    101 \n",
			[]string{"index-0 01 23:59:59 100/?", "index-0 02 00:00:00 101/?"},
			"",
		},
		{
			"without time", Dmon,
			Options{Start: start, Interval: 30 * time.Second},
			"# gpu     fb \n# Idx     MB \n    0    100 \n    1    200 \n    0    101 \n    1    201 \n# gpu     fb \n# Idx     MB \n    0    102 \n",
			[]string{"index-0 01 23:59:00 100/?", "index-1 01 23:59:00 200/?", "index-0 01 23:59:30 101/?", "index-1 01 23:59:30 201/?", "index-0 02 00:00:00 102/?"},
			"",
		},
		{
			"as CSV", Dmon,
			Options{Start: start, Interval: time.Second},
			"#gpu, fb, bar1\n#Idx, MB, MB\n0, 100, 3\n0, 101, 3\n",
			[]string{"index-0 01 23:59:00 100/?", "index-0 01 23:59:01 101/?"},
			"",
		},
		{
			"a clock that is set back, and a message", Dmon,
			Options{},
			strings.ReplaceAll(dmon, "22:30:01", "22:29:59") + "Unable to read\n 20260301   22:30:02      0    120      3      0 \n 20260301   22:30:03      0    1",
			[]string{"index-0 01 22:30:00 100/?", "index-1 01 22:30:00 ?/?", "index-0 01 22:30:02 120/?"},
			`is not after its row before|left out 1 line, line 8: is no part of the log: "Unable to read"|the file ends inside it`,
		},
		{
			"with date", Pmon, Options{}, pmon, []string{
				"index-0 01 22:30:00 ?/? [python3:4711.0=600 chrome --type=g:4712.0=20]", "index-0 01 22:30:01 ?/? [python3:4711.0=610]",
				"index-0 01 22:30:02 ?/? [python3:4712.2=620]", "index-1 01 22:30:00 ?/? []",
			}, "",
		},
		{
			"a row for C and one for G", Pmon,
			Options{},
			"#Date       Time        gpu         pid   type     fb    command \n" +
				" 20260301   22:30:00      0         10      C    100    a \n 20260301   22:30:00      0         10      G    100    a \n 20260301   22:30:00      0         20      C     50    b \n" +
				" 20260301   22:30:01      0         10      C    100    a \n 20260301   22:30:01      0         10      G    100    a \n 20260301   22:30:01      0         20      C     51    b \n",
			[]string{"index-0 01 22:30:00 ?/? [a:10.0=100 b:20.0=50]", "index-0 01 22:30:01 ?/? [a:10.0=100 b:20.0=51]"},
			"",
		},
		{
			"a row for C and one for G, without time", Pmon,
			Options{Start: start, Interval: time.Second},
			"# gpu         pid   type     fb    command \n 0 10 C 100 a\n 0 10 G 100 a\n 0 20 C 50 b\n 0 10 C 100 a\n 0 10 G 100 a\n 0 20 C+G 51 b\n 0 10 C+G 100 a\n 0 20 C+G 52 b\n",
			[]string{"index-0 01 23:59:00 ?/? [a:10.0=100 b:20.0=50]", "index-0 01 23:59:01 ?/? [a:10.0=100 b:20.0=51]", "index-0 01 23:59:02 ?/? [a:10.0=100 b:20.0=52]"},
			"",
		},
	}
}

func dcgmiCases() []readCase {
	text := `#Entity   FBUSD                       TMPTR        FBTTL                       
ID                                    C                                        
GPU 0     100                         45           81559                       
GPU 1     N/A                         48           81559                       
GPU-I 0   5                           N/A          9728                        
GPU 0     110                         45           81559                       
`
	return []readCase{
		{
			"without time", DCGMI,
			Options{Start: start, Interval: time.Second},
			text,
			[]string{"index-0 01 23:59:00 100/81559", "index-1 01 23:59:00 ?/81559", "index-0 01 23:59:01 110/81559"},
			"left out 1 line, line 5: is of no whole GPU",
		},
		{
			"with the times of ts, and free memory", DCGMI,
			Options{},
			"2026-03-01 22:30:00 #Entity   FBFRE  FBTTL\n2026-03-01 22:30:00 ID\n2026-03-01 22:30:00     GPU 0     100    300\n2026-03-01 22:30:01 GPU 0     90    300\n",
			[]string{"index-0 01 22:30:00 200/300", "index-0 01 22:30:01 210/300"},
			"",
		},
	}
}

func csvCases() []readCase {
	columns := func(text string) Options { return Options{Columns: strings.Split(text, ",")} }
	untimed := columns("index,memory.used,memory.total")
	untimed.Start, untimed.Interval = start, 10*time.Second
	return []readCase{
		{
			"without a time", CSV, untimed, "index, memory.used [MiB], memory.total [MiB]\n0, 5 MiB, 8 MiB\n1, 6 MiB, 8 MiB\n0, [N/A], 8 MiB\n1, 7 MiB, 8 MiB\n",
			[]string{"index-0 01 23:59:00 5/8", "index-1 01 23:59:00 6/8", "index-0 01 23:59:10 ?/8", "index-1 01 23:59:10 7/8"},
			"",
		},
		{
			"with units, and a header", CSV, columns("timestamp,gpu,used[MiB],total[GiB],-"), "when,card,a,b,c\n2026-03-01T22:30:00Z,1,5,2,x\n2026-03-01T22:30:01Z,1,N/A,2,x\n2026-03-01T22:30:02Z,1,7.5,2,x\n",
			[]string{"index-1 01 22:30:00 5/2048", "index-1 01 22:30:01 ?/2048", "index-1 01 22:30:02 7/2048"},
			"",
		},
		{
			"quoted, with names of GPUs", CSV, columns("date,time,gpu,used,free[MiB],total[MiB]"), "\"2026-03-01\";\"22:30:00\";\"n1;0\";;\"1\";\"4\"\n2026-03-01;22:30:00;n1:1;;2;4\n",
			[]string{"n1;0 01 22:30:00 3/4", "n1:1 01 22:30:00 2/4"},
			"",
		},
		{
			"values with units, milliseconds", CSV, columns("timestamp,used"), "1772404200000\t10 MiB\n1772404201.5\t2GB\n1772404202\t[Not Supported]\n",
			[]string{"unnamed 01 22:30:00 10/?", "unnamed 01 22:30:01 1907/?", "unnamed 01 22:30:02 ?/?"},
			"",
		},
		{
			"processes", CSV, columns("timestamp,gpu,pid,process,used[B]"), "1772404200,0,7,/bin/a,1048576\n1772404200,0,8,b,2097152\n1772404201,0,8,b,2097152\n",
			[]string{"index-0 01 22:30:00 ?/? [a:7.0=1 b:8.0=2]", "index-0 01 22:30:01 ?/? [b:8.0=2]"},
			"",
		},
		{
			"a process twice at one time", CSV, columns("timestamp,pid,used[MiB]"),
			"1772404200,10,100\n1772404200,10,50\n1772404200,20,7\n1772404201,10,N/A\n1772404201,10,101\n1772404201,20,8\n1772404201.02,20,9\n",
			[]string{"unnamed 01 22:30:00 ?/? [:10.0=100 :20.0=7]", "unnamed 01 22:30:01 ?/? [:10.0=101 :20.0=8]", "unnamed 01 22:30:01 ?/? [:20.0=9]"},
			`left out 1 line, line 2: pid 10 stands twice at one time, and the larger amount is used`,
		},
		{
			"a time that comes twice, a cut line", CSV,
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
