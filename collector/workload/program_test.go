// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
)

func TestProgramName(t *testing.T) {
	const spawn = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"
	for _, c := range []struct{ exe, args, want string }{
		// The arguments are split at |.
		{"gmx", "gmx|mdrun", "gmx"},
		{"python3.11", "python|train.py", "train.py"},
		{"python3.11", "/usr/bin/python3|-u|/srv/app/train.py|--lr|1", "train.py"},
		{"python3.13t", "python3|-X|faulthandler|-Wignore|-W|error|train.py", "train.py"},
		{"python3.13t", "python3|-Xdev|-OOm|pkg.mod|x.py", "pkg.mod"},
		{"python3.10", "python3|-m|torch.distributed.run|--nproc-per-node=8|train.py", "torch.distributed.run"},
		{"python3.10", "python3|-mpkg.mod|x", "pkg.mod"},
		{"python3.10", "python3|-um|pkg.mod", "pkg.mod"},
		{"python3.10", "python3|-c|" + spawn + "|--multiprocessing-fork", "python3.10"},
		{"python3.10", "python3|-Bcprint(1)", "python3.10"},
		{"python3.10", "python3|--check-hash-based-pycs|always|x.py", "x.py"},
		{"python3.10", "python3|/opt/venv/bin/vllm|serve|facebook/opt-125m", "vllm"},
		{"python3.10", "python3|--|-odd.py", "-odd.py"},
		{"python3.10", "python3|--", "python3.10"},
		{"python3.10", "python3|-", "python3.10"},
		{"python3.10", "python3|.", "python3.10"},
		{"python3.10", "python3|-m", "python3.10"},
		{"python3.10", "python3|-W", "python3.10"},
		{"python3.10", "python3", "python3.10"},
		{"python3.10", "", "python3.10"},
		{"python3.10", "ray::train()", "python3.10"}, // it has retitled itself
		{"python3.10", "|||", "python3.10"},
		{"pypy3.9", "pypy3|a.py", "a.py"},
		{"python-launcher", "python-launcher|a.py", "python-launcher"},
		{"python3-config", "python3-config|a", "python3-config"},
		{"7z", "7z|a.py", "7z"},

		{"java", "java|-Xmx4g|-cp|a.jar:b.jar|-Dx=y|org.apache.spark.deploy.SparkSubmit|--class|x", "org.apache.spark.deploy.SparkSubmit"},
		{"java", "java|-XX:+UseG1GC|-jar|/opt/app/x.jar|start", "x.jar"},
		{"java", "java|-p|mods|-m|com.foo/com.foo.Main", "com.foo.Main"},
		{"java", "java|--module=com.foo/com.foo.Main", "com.foo.Main"},
		{"java", "java|@/etc/app.options|Main", "Main"},
		{"java", "java|@/etc/app.options", "java"},
		{"java", "java|-version", "java"},
		{"bash", "bash|/srv/run.sh", "bash"},
		{"julia", "julia|--project=.|-t|4|-O3|train.jl", "train.jl"},
		{"julia", "julia|--threads|4|train.jl", "train.jl"},
		{"R", "/usr/lib/R/bin/exec/R|--no-echo|--no-restore|--file=train.R|--args|8", "train.R"},
		{"R", "R|--no-save|--args|8", "R"},
	} {
		equal(t, programName(c.exe, "comm", split(c.args)), c.want, "%s running %s", c.exe, c.args)
	}
}

func split(args string) []string {
	return splitArguments([]byte(strings.ReplaceAll(args, "|", "\x00") + "\x00"))
}

// Without the right to see the executable.
func TestProgramNameOfItsOwn(t *testing.T) {
	for _, c := range []struct{ comm, args, want string }{
		{"gmx", "/sw/bin/gmx|mdrun", "gmx"},
		{"python3", "python3|train.py", "train.py"},
		{"pt_main_thread", "/opt/conda/bin/python|-u|train.py", "train.py"},
		{"pt_main_thread", "train: epoch 3", "pt_main_thread"},
		{"text-generation", "/usr/bin/text-generation-launcher|--port", "text-generation-launcher"},
		{"text-generation", "something-else", "text-generation"},
		{"gmx", "gmx-of-another-kind", "gmx"},
		{"kworker/0:1", "", "kworker/0:1"},
		{"", "", ""},
	} {
		equal(t, programName("", c.comm, split(c.args)), c.want, "%s with %s", c.comm, c.args)
	}
}

func FuzzProgramName(f *testing.F) {
	f.Add("/usr/bin/python3.11 (deleted)", "python3", []byte("python3\x00-um\x00pkg.mod\x00"))
	f.Add("/usr/bin/java", "java", []byte("java\x00-cp\x00a\x00--module=b/c\x00"))
	f.Add("", "pt_main_thread", []byte("-bash\x00-euo\x00pipefail\x00/\x00"))
	f.Add("/usr/lib/R/bin/exec/R", "R", []byte("R\x00--file=\x00"))
	f.Fuzz(func(t *testing.T, link, comm string, cmdline []byte) {
		args := splitArguments(cmdline)
		name := programName(executable(link), comm, args)
		if strings.Contains(name, "/") && name != comm {
			t.Errorf("a path as the name: %q", name)
		}
		if name == "" && (executable(link) != "" || comm != "") {
			t.Errorf("no name for %q, %q, %q", link, comm, cmdline)
		}
		checkLabel(t, label(name, maxLabel), maxLabel)
		checkLabel(t, label(strings.Join(args, " "), maxCommand), maxCommand)
	})
}
