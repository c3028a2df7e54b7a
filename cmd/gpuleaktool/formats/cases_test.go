// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"strings"
	"time"
)

// table560 is what a driver of 2024 prints; in place of each * is the memory in use.
const table560 = `Sun Mar  1 22:30:00 2026       
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 560.35.03              Driver Version: 560.35.03      CUDA Version: 12.6     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   34C    P0             120W /  700W |  1000MiB /  81559MiB |     97%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                    0 |
|ERR!   ERR! ERR!             N/A  /  N/A |              ERR!      |     ERR!     Default |
|                                         |                        |                 ERR! |
+-----------------------------------------+------------------------+----------------------+
                                                                                         
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A      4711      C   /opt/conda envs/bin/python3                   600MiB |
|    0   N/A  N/A      4720      G   ...rg/Xorg                                     20MiB |
+-----------------------------------------------------------------------------------------+
`

// table418 is what a driver of 2019 prints.
const table418 = `Sun Mar  1 22:30:10 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.87.00    Driver Version: 418.87.00    CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   45C    P0    65W / 300W |   2000MiB / 16130MiB |     35%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     21034      C   python                                      1900MiB |
+-----------------------------------------------------------------------------+
`

// tableMIG is a GPU in MIG mode.
const tableMIG = `Sun Mar  1 22:30:20 2026
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.104.12             Driver Version: 535.104.12   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
|=========================================+======================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:E3:00.0 Off |                   On |
| N/A   25C    P0              46W / 400W |    259MiB / 40960MiB |     N/A      Default |
|                                         |                      |              Enabled |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| MIG devices:                                                                          |
+------------------+--------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |
|                  |                                |        ECC|                       |
|==================+================================+===========+=======================|
|  0    2   0   0  |              37MiB / 19968MiB  | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB  |           |                       |
+------------------+--------------------------------+-----------+-----------------------+
|  0    2   1   1  |              37MiB / 19968MiB  | 14      0 |  3   0    2    0    0 |
+------------------+--------------------------------+-----------+-----------------------+
                                                                                         
+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|    0    2    0       4711      C   python                                      30MiB |
+---------------------------------------------------------------------------------------+
`

// before returns what stands before a part of a text.
func before(text, part string) string {
	text, _, _ = strings.Cut(text, part)
	return text
}

func tableCases() []readCase {
	later := strings.Replace(table560, "22:30:00", "22:30:01", 1)
	idle := strings.Replace(strings.Replace(table418, "|    0     21034      C   python                                      1900MiB |", "|  No running processes found                                                 |", 1), ":10", ":11", 1)
	first := "pci-00000000:18:00.0 01 22:30:00 1000/81559 [python3:4711.0=600 Xorg:4720.0=20]"
	return []readCase{
		{
			"of 2024, twice, with a program's lines between", Table,
			Options{},
			"nohup: ignoring input\n" + table560 + "epoch 3 loss 0.5\n" + crlf(later),
			[]string{
				first, "pci-00000000:2A:00.0 01 22:30:00 ?/? []",
				strings.Replace(first, ":00 1000", ":01 1000", 1), "pci-00000000:2A:00.0 01 22:30:01 ?/? []",
			},
			`left out 2 lines, the first is line 1: is no part of the log: "nohup: ignoring input"`,
		},
		{
			"of 2019, and without processes", Table,
			Options{},
			table418 + idle,
			[]string{"pci-00000000:00:1E.0 01 22:30:10 2000/16130 [python:21034.0=1900]", "pci-00000000:00:1E.0 01 22:30:11 2000/16130 []"},
			"",
		},
		{
			"MIG", Table,
			Options{},
			tableMIG,
			[]string{"pci-00000000:E3:00.0 01 22:30:20 259/40960 GI2:37/19968 [python:4711.0=30]"},
			"",
		},
		{
			"in a zone, with the date of a shell", Table,
			Options{Location: time.FixedZone("", 3600)},
			"Sun Mar  1 20:00:00 UTC 2026\n" + strings.Join(strings.SplitAfter(table418, "\n")[1:], "") + table418,
			[]string{"pci-00000000:00:1E.0 01 20:00:00 2000/16130 [python:21034.0=1900]", "pci-00000000:00:1E.0 01 21:30:10 2000/16130 [python:21034.0=1900]"},
			"",
		},
		{
			"cut off in the processes", Table,
			Options{},
			before(table418, "python"),
			[]string{"pci-00000000:00:1E.0 01 22:30:10 2000/16130"},
			"",
		},
		{
			"cut off in a GPU", Table,
			Options{},
			table418 + before(idle, "| N/A"),
			[]string{"pci-00000000:00:1E.0 01 22:30:10 2000/16130 [python:21034.0=1900]"},
			"the table ends before the memory of the GPU",
		},
	}
}

func xmlDocument(stamp, gpu string) string {
	return `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>` + stamp + `</timestamp>
	<driver_version>535.129.03</driver_version>
	<attached_gpus>1</attached_gpus>
	<gpu id="00000000:18:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<uuid>GPU-1</uuid>
` + gpu + `
	</gpu>
</nvidia_smi_log>
`
}

func xmlCases() []readCase {
	memory := "<fb_memory_usage><total>1100 MiB</total><reserved>100 MiB</reserved><used>500 MiB</used><free>500 MiB</free></fb_memory_usage><bar1_memory_usage><total>7 MiB</total><used>6 MiB</used></bar1_memory_usage>"
	process := "<processes><process_info><gpu_instance_id>N/A</gpu_instance_id><pid>7</pid><type>C</type><process_name>/usr/bin/a &amp; b</process_name><used_memory>400 MiB</used_memory></process_info></processes>"
	two := xmlDocument("Sun Mar  1 22:30:00 2026", memory+process) + xmlDocument("Sun Mar  1 22:30:01 2026", memory+"<processes>\n</processes>")
	return []readCase{
		{"two documents", XML, Options{}, two, []string{"GPU-1 01 22:30:00 500/1000 [a & b:7.0=400]", "GPU-1 01 22:30:01 500/1000 []"}, ""},
		{"an hour east, with CRLF", XML, Options{Location: time.FixedZone("", 3600)}, crlf(two), []string{"GPU-1 01 21:30:00 500/1000 [a & b:7.0=400]", "GPU-1 01 21:30:01 500/1000 []"}, ""},
		{"cut off", XML, Options{}, two[:len(two)-40], []string{"GPU-1 01 22:30:00 500/1000 [a & b:7.0=400]"}, "the document ends before it is whole"},
		{
			"killed inside a document, and started again", XML,
			Options{},
			two[:len(two)/4] + strings.Replace(two, "<timestamp>Sun Mar  1 22:30:01", "<timestamp>Sun Mar  1 22:30:09", 1),
			[]string{"GPU-1 01 22:30:00 500/1000 [a & b:7.0=400]", "GPU-1 01 22:30:09 500/1000 []"},
			"left out 1 line, line|the document ends before it is whole",
		},
		{
			"another program writes into a document", XML,
			Options{},
			strings.Replace(two, "<timestamp>Sun Mar  1 22:30:01", "loss < 2 & falling\n<timestamp>Sun Mar  1 22:30:01", 1) + xmlDocument("Sun Mar  1 22:30:02 2026", memory),
			[]string{"GPU-1 01 22:30:00 500/1000 [a & b:7.0=400]", "GPU-1 01 22:30:02 500/1000"},
			"the rest of the document is of no use",
		},
		{
			"what is not there", XML,
			Options{},
			xmlDocument("Sun Mar  1 22:30:00 2026", "<fb_memory_usage><total>[N/A]</total><used>ERR!</used></fb_memory_usage><processes>N/A</processes>"),
			[]string{"GPU-1 01 22:30:00 ?/?"},
			"",
		},
		{
			"MIG", XML,
			Options{},
			xmlDocument("Sun Mar  1 22:30:00 2026", memory+"<mig_devices><mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id><fb_memory_usage><total>50 MiB</total><used>40 MiB</used></fb_memory_usage></mig_device></mig_devices>"),
			[]string{"GPU-1 01 22:30:00 500/1000 GI2:40/50"},
			"",
		},
	}
}

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
