// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package allocator

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// program runs a command that prints one line and ends when its input does. It returns the
// line, and has the program end with the test.
func program(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() {
		defer cancel()
		_ = in.Close() // it may have ended
		_, _ = io.Copy(io.Discard, out)
		if err := c.Wait(); err != nil {
			t.Errorf("%s %v: %v", name, args, err)
		}
		if stderr.Len() > 0 {
			t.Errorf("it wrote\n%s", &stderr)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return strings.TrimSpace(line)
}

// interpreter returns where Python is, and the probe.
func interpreter(t *testing.T) (python, probe string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	must(t, err)
	if probe, err = filepath.Abs("../../probe"); err != nil {
		t.Fatal(err)
	}
	return python, probe
}

func python(t *testing.T, scenario string) string {
	t.Helper()
	path, probe := interpreter(t)
	return program(t, path, "testdata/program.py", probe, scenario)
}

// idFrom returns the process whose number a program has printed.
func idFrom(t *testing.T, line string) gpu.ProcessID {
	t.Helper()
	pid, err := strconv.Atoi(line)
	must(t, err)
	return idOf(t, pid)
}

// lookAt looks once at a process.
func lookAt(t *testing.T, id gpu.ProcessID) []Record {
	t.Helper()
	c := newClock(t)
	c.Of(id)
	c.at(0)
	must(t, c.Problem())
	return c.Of(id)
}

// told looks at a process until there are records.
func told(t *testing.T, line string) []Record {
	t.Helper()
	id, c := idFrom(t, line), newClock(t)
	find(t, c, id)
	return c.Of(id)
}

// TestProbe runs programs with the probe, and reads their pages.
func TestProbe(t *testing.T) {
	usual := func(ordinal, ooms uint64) Record {
		return Record{Allocator: gpu.Allocator{
			Framework: "torch", Version: "2.9.0+cu130", Backend: "native", Allocated: gpu.Some((2 + ordinal) * gib), Reserved: gpu.Some((5 + ordinal) * gib),
			Active: gpu.Some((3 + ordinal) * gib), InactiveSplit: gpu.Some(uint64(gib)), Retries: gpu.Some(uint64(6)), OOMs: gpu.Some(ooms),
		}}
	}
	limited, unlimited := usual(0, 7), usual(1, 7)
	limited.Allocator.Limit = gpu.Some(uint64(20 * gib))
	nonsense := usual(0, 0)
	nonsense.Allocator.Allocated, nonsense.Allocator.OOMs = gpu.Opt[uint64]{}, gpu.Opt[uint64]{}
	for scenario, want := range map[string][]Record{
		"torch":       {usual(0, 7), usual(1, 7)},
		"limited":     {limited, unlimited},
		"loaded_late": {usual(0, 7)},
		"empty_cache": {usual(0, 7)},
		"slow_import": {usual(0, 7)},
		"plugged":     {{Allocator: gpu.Allocator{Framework: "torch", Version: "2.9.0+cu130", Backend: "native"}}},
		"nonsense":    {nonsense},
		"frameworks": {
			{Allocator: gpu.Allocator{Framework: "tensorflow", Version: "2.20.0", Allocated: gpu.Some(uint64(gib))}},
			{Allocator: gpu.Allocator{Framework: "jax", Version: "0.8.0", Allocated: gpu.Some(uint64(3 * gib)), Reserved: gpu.Some(uint64(4 * gib))}},
		},
		"cupy": {
			{Allocator: gpu.Allocator{Framework: "cupy", Version: "14.0", Allocated: gpu.Some(uint64(gib)), Reserved: gpu.Some(uint64(2 * gib))}},
		},
		"fork":         {usual(0, 7)},
		"fork_imports": {usual(0, 7)},
		"fork_storm":   {usual(0, 7)},
		"all_closed":   {usual(0, 7)},
	} {
		t.Run(scenario, func(t *testing.T) {
			equal(t, told(t, python(t, scenario)), want, "records")
		})
	}
}

// TestProbeTellsNothing runs programs of which there is nothing to tell: they go on as if
// there were no probe.
func TestProbeTellsNothing(t *testing.T) {
	for _, scenario := range []string{
		"no_framework", "no_gpu", "off", "half_imported", "fork_without_gpu", "fork_of_user", "exec", "no_memory", "unshare",
		"interpreter", "looked_for", "lazy", "requests", "fork_of_users_child", "fork_of_new_user", "fork_of_jax", "ends_in_child",
	} {
		t.Run(scenario, func(t *testing.T) {
			said, pid, _ := strings.Cut(python(t, scenario), " ")
			if said != "none" {
				t.Fatal(said)
			}
			if pid == "" {
				return
			}
			equal(t, lookAt(t, idFrom(t, pid)), nil, "records")
		})
	}
}

// TestProbeWithFailures has system calls fail in the program: it goes on, and has its page once they work.
func TestProbeWithFailures(t *testing.T) {
	equal(t, len(told(t, python(t, "failing"))), 1, "records")
	equal(t, python(t, "memory_limit"), "none", "with a limit of memory")
}

// TestProbeAsksTheDriver has the driver's library name the devices, as of a GPU in MIG mode: each of them is told
// apart.
func TestProbeAsksTheDriver(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, "testdata/libcuda.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("LIBCUDA", library)
	got := told(t, python(t, "driver"))
	if len(got) != 2 || got[0].UUID != "01010101-0101-0101-0101-010101010101" || got[1].UUID != "02020202-0202-0202-0202-020202020202" {
		t.Fatalf("%+v", got)
	}
	s := gpu.Sample{
		Processes: []gpu.Process{{Instance: gpu.Some(uint32(7))}, {Instance: gpu.Some(uint32(8))}},
		Instances: []gpu.Instance{{ID: 7, Devices: []gpu.MIGDevice{{UUID: "MIG-02020202-0202-0202-0202-020202020202"}}}, {ID: 8}},
	}
	Attribute(func(gpu.ProcessID) []Record { return got }, "GPU-a", &s)
	if a := s.Processes[0].Allocator; a == nil || a.Allocated != got[1].Allocator.Allocated || s.Processes[1].Allocator != nil {
		t.Errorf("%+v, %+v", a, s.Processes[1].Allocator)
	}
}

// TestProbeEnds has programs end while the probe asks.
func TestProbeEnds(t *testing.T) {
	for range 20 {
		python(t, "ends")
	}
}

// TestProbeInNamespaces runs a program with pid and mount namespaces of its own, as
// in a container: it is found by the number that it has here.
func TestProbeInNamespaces(t *testing.T) {
	python, probe := interpreter(t)
	must(t, exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").Run())
	if said := program(t, "unshare", "--pid", "--fork", "--mount-proc", python, "testdata/program.py", probe, "torch"); said != "1" {
		t.Fatalf("it is process %s of its namespace", said)
	}
	for _, pid := range childrenOf(t, os.Getpid()) {
		for _, inside := range childrenOf(t, pid) {
			if got := lookAt(t, idOf(t, inside)); len(got) == 2 {
				return
			}
		}
	}
	t.Error("no process has the page")
}

func childrenOf(t *testing.T, pid int) (list []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	must(t, err)
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for field := range strings.FieldsSeq(string(b)) {
			child, err := strconv.Atoi(field)
			must(t, err)
			list = append(list, child)
		}
	}
	return list
}

// TestRefusal has a program that is refused memory: the probe tells it, and waits.
func TestRefusal(t *testing.T) {
	c := newClock(t) // first: what it has read stays read until the program has ended
	id := idFrom(t, python(t, "refused"))
	find(t, c, id)
	on := func(uuid string) *Refusal {
		return c.RefusedOn(uuid, &gpu.Sample{}, &gpu.Process{ID: id})
	}
	for n := 2; on("GPU-0b2f") == nil; n++ {
		if time.Since(c.began) > hang {
			t.Fatal("it tells no refusal")
		}
		c.at(2)
		time.Sleep(10 * time.Millisecond) // it is another process
	}
	got := *on("GPU-0b2f")
	if age := time.Since(time.Unix(got.Time, 0)); age < 0 || age > hang {
		t.Errorf("it is %s old", age)
	}
	got.Time = 0
	want := Refusal{UUID: "0b2f", Asked: 2 << 30, Lines: []gpu.Line{{Bytes: 2 << 30, Line: "app/serve.py:41 handle"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if r := on("GPU-other"); r != nil {
		t.Errorf("another GPU has %+v", r)
	}
}

// askAs is the process to ask for, PID/START, in a test that runs itself as another user.
const askAs = "GPU_LEAK_ASK"

// TestRights reads a page of another user with each of the rights that the README of the probe
// names. It runs itself as that user: see TestAskAs.
func TestRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("only root can become other users")
	}
	const reader, writer = 65_533, 65_534
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // the users must get in
		must(t, os.Chmod(d, 0o755))
	}
	self := filepath.Join(dir, "self")
	binary, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(self, binary, 0o755))
	id := runExample(t, filepath.Join(dir, "example"), &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: writer, Gid: writer}})
	find(t, newClock(t), id)
	for name, tc := range map[string]struct {
		uid  uint32
		caps []uintptr
		want string
	}{
		"another user":                   {reader, nil, "denied"},
		"a debugger":                     {reader, []uintptr{unix.CAP_SYS_PTRACE}, "denied"},
		"who may read all":               {reader, []uintptr{unix.CAP_DAC_READ_SEARCH}, "denied"},
		"a debugger who may read all":    {reader, []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}, "read"},
		"the program's own user":         {writer, nil, "read"},
		"root, as the process that asks": {0, nil, "read"},
	} {
		ask := exec.Command(self, "-test.run=^TestAskAs$", "-test.v")
		ask.Env = []string{fmt.Sprintf("%s=%d/%d", askAs, id.PID, id.Start)}
		ask.Dir = dir
		ask.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tc.uid, Gid: tc.uid}, AmbientCaps: tc.caps}
		out, err := ask.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "answer: "+tc.want) {
			t.Errorf("%s: %v, want %s\n%s", name, err, tc.want, out)
		}
	}
}

// TestAskAs is the part of TestRights that has the rights.
func TestAskAs(t *testing.T) {
	of := os.Getenv(askAs)
	if of == "" {
		return // it is a part of TestRights
	}
	var id gpu.ProcessID
	_, err := fmt.Sscanf(of, "%d/%d", &id.PID, &id.Start)
	must(t, err)
	c := newClock(t)
	c.Of(id)
	c.at(0)
	switch records, problem := c.Of(id), c.Problem(); {
	case len(records) == 1 && problem == nil:
		t.Log("answer: read")
	case len(records) == 0 && problem != nil:
		t.Log("answer: denied")
	default:
		t.Fatalf("%+v, %v", records, problem)
	}
}
