// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// patience is how long a test waits for what has to come. It only costs time when
// it does not come.
const patience = 10 * time.Minute

// machine is a host with GPUs that are not there: the model, the library that
// answers out of it, and a procfs and sysfs of its own. The model is the truth that
// the exporter is compared with.
type machine struct {
	*fakenvml.Node
	library, script, calls string
	procfs, sysfs          string
}

// hostUser is the user of the test on its machines.
const hostUser = "trainer"

// newMachine returns a machine with n GPUs, whose driver lacks these symbols.
func newMachine(t *testing.T, n int, missing ...string) *machine {
	t.Helper()
	library, err := fakenvml.Build(harness.Dir(), missing...)
	harness.Must(t, err)
	dir := t.TempDir()
	m := &machine{
		Node: fakenvml.NewNode(n), library: library,
		script: filepath.Join(dir, "script"), calls: filepath.Join(dir, "calls"),
		procfs: filepath.Join(dir, "proc"), sysfs: filepath.Join(dir, "sys"),
	}
	// The machine of the test may be a container. That it is the host, as far as
	// the exporter can see, makes the lists of processes complete.
	link(t, "pid:[4026531836]", filepath.Join(m.procfs, "self/ns/pid"))
	link(t, "/proc/stat", filepath.Join(m.procfs, "stat"))
	// The names of users are the host's.
	harness.WriteFile(t, filepath.Join(m.procfs, "1/root/etc/passwd"), fmt.Sprintf("%s:x:%d:%d::/:/bin/sh\n", hostUser, os.Getuid(), os.Getgid()))
	m.plug(t)
	return m
}

// link makes a symbolic link and the folders above it.
func link(t *testing.T, to, path string) {
	t.Helper()
	harness.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	harness.Must(t, os.Symlink(to, path))
}

// plug makes the PCI bus show the GPUs of the model.
func (m *machine) plug(t *testing.T) {
	t.Helper()
	dir := filepath.Join(m.sysfs, "bus/pci/devices")
	harness.Must(t, os.RemoveAll(dir))
	for i := range m.GPUs {
		function := strings.ToLower(strings.TrimPrefix(m.GPUs[i].BusID, "0000"))
		harness.WriteFile(t, filepath.Join(dir, function, "vendor"), "0x10de\n")
		harness.WriteFile(t, filepath.Join(dir, function, "class"), "0x030200\n")
	}
	// A network card is none of them.
	harness.WriteFile(t, filepath.Join(dir, "0000:00:03.0/vendor"), "0x8086\n")
	harness.WriteFile(t, filepath.Join(dir, "0000:00:03.0/class"), "0x020000\n")
}

// apply makes the driver see the model as it is now.
func (m *machine) apply(t *testing.T) {
	t.Helper()
	harness.Must(t, m.Write(m.script))
}

// fault makes the driver have these faults, and no others.
func (m *machine) fault(t *testing.T, faults ...fakenvml.Fault) {
	t.Helper()
	m.Faults = faults
	m.apply(t)
}

// options are those of an exporter on this machine that samples often. Of flags
// that are given twice the last one counts.
func (m *machine) options(args ...string) harness.Options {
	return harness.Options{
		Args: append([]string{
			"--nvml.library-path=" + m.library, "--path.procfs=" + m.procfs, "--path.sysfs=" + m.sysfs,
		}, withDefault(withDefault(withDefault(args, "--collector.process.min-age=", "0s"),
			"--sample.interval=", "200ms"), "--sample.slow-interval=", "200ms")...),
		Env: fakenvml.Env(m.script, m.calls),
	}
}

func withDefault(args []string, flag, value string) []string {
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, flag) }) {
		return args
	}
	return append(slices.Clone(args), flag+value)
}

// start runs the exporter over the model as it is now until it is ready. It has to be
// well behaved until it has ended, which is at the end of the test at the latest.
func (m *machine) start(t *testing.T, args ...string) *harness.Process {
	t.Helper()
	m.apply(t)
	started := *m // a later exporter logs its calls elsewhere
	t.Cleanup(func() { started.wellBehaved(t) })
	return harness.StartExporter(t, m.options(args...))
}

// read returns the calls of the exporter so far, none before its first Init.
func (m *machine) read(t *testing.T) fakenvml.Calls {
	t.Helper()
	c, err := fakenvml.ReadCalls(m.calls)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return c
}

// wellBehaved fails the test if the exporter called the library in a way that a
// real driver may not survive, or the script was wrong.
func (m *machine) wellBehaved(t *testing.T) {
	t.Helper()
	c := m.read(t)
	if c.Violations != 0 || c.Uninitialized != 0 {
		t.Errorf("%d violations (%s), %d calls without Init", c.Violations, c.Violation, c.Uninitialized)
	}
	equal(t, c.ScriptErrors, 0, "errors in the script, %s", c.ScriptError)
}

// id are the labels of the GPU at that position.
func (m *machine) id(gpu int) map[string]string {
	return map[string]string{"gpu": strconv.Itoa(gpu), "uuid": m.GPUs[gpu].UUID}
}

// with returns labels and more of them, name after name and value.
func with(labels map[string]string, more ...string) map[string]string {
	all := maps.Clone(labels)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// eventually scrapes until cond returns nil, and returns that scrape.
func eventually(t *testing.T, p *harness.Process, cond func(harness.Metrics) error) harness.Metrics {
	t.Helper()
	var m harness.Metrics
	harness.Eventually(t, patience, func() error {
		var err error
		if m, err = p.TryScrape(); err != nil {
			return err
		}
		return cond(m)
	})
	return m
}

// want returns an error unless there is one series of that name and labels, and it
// has the value.
func want(m harness.Metrics, v float64, name string, labels map[string]string) error {
	got, err := m.Value(name, labels)
	if err == nil && got != v {
		err = fmt.Errorf("%s%v is %g, want %g", name, labels, got, v)
	}
	return err
}

// wantAll is want for several series, by name.
func wantAll(m harness.Metrics, labels map[string]string, values map[string]float64) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		errs = append(errs, want(m, values[name], name, labels))
	}
	return errors.Join(errs...)
}

// gone returns an error if there is a series of that name and labels.
func gone(m harness.Metrics, name string, labels map[string]string) error {
	if found := m.All(name, labels); len(found) > 0 {
		return fmt.Errorf("%s%v is there, %g", name, found[0].Labels, found[0].Value)
	}
	return nil
}

// up returns an error unless each GPU has gpu_up of its value in states.
func (m *machine) up(s harness.Metrics, states ...float64) error {
	var errs []error
	for i, state := range states {
		errs = append(errs, want(s, state, "gpu_up", m.id(i)))
	}
	return errors.Join(errs...)
}

// onlyDown returns an error if a GPU that cannot be read has a series that only
// one that can has, or lacks gpu_up 0 or gpu_info.
func onlyDown(s harness.Metrics, id map[string]string) error {
	errs := []error{want(s, 0, "gpu_up", id), want(s, 1, "gpu_info", id)}
	for _, series := range s {
		kept := slices.Contains([]string{"gpu_up", "gpu_info", "gpu_sample_timestamp_seconds", "gpu_samples_missed_total"}, series.Name)
		if series.Has(id) && !kept && !strings.HasPrefix(series.Name, "gpu_xid_") && !strings.HasPrefix(series.Name, "gpu_nvml_") {
			errs = append(errs, fmt.Errorf("%s%v of a GPU that cannot be read", series.Name, series.Labels))
		}
	}
	return errors.Join(errs...)
}

// childVariable makes this test binary a process that does nothing.
const childVariable = "E2E_CHILD"

func init() {
	if os.Getenv(childVariable) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test
		os.Exit(0)
	}
}

// child starts a process that lives until the test ends, lets the machine's procfs
// show it and returns its pid.
func (m *machine) child(t *testing.T) uint32 {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // how it ended does not matter
	})
	pid := cmd.Process.Pid
	link(t, fmt.Sprintf("/proc/%d", pid), filepath.Join(m.procfs, strconv.Itoa(pid)))
	return uint32(pid)
}

// childIn is child for a process that procfs shows in a control group.
func (m *machine) childIn(t *testing.T, group string) uint32 {
	t.Helper()
	pid := m.child(t)
	shown := filepath.Join(m.procfs, strconv.FormatUint(uint64(pid), 10))
	harness.Must(t, os.Remove(shown))
	for _, name := range []string{"stat", "status", "comm", "cmdline", "exe"} {
		link(t, fmt.Sprintf("/proc/%d/%s", pid, name), filepath.Join(shown, name))
	}
	harness.WriteFile(t, filepath.Join(shown, "cgroup"), "0::"+group+"\n")
	return pid
}

// startTicks returns when a process started, as field 22 of proc_pid_stat(5) has it.
func startTicks(t *testing.T, pid uint32) uint64 {
	t.Helper()
	text := harness.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	v, err := strconv.ParseUint(fields[22-3], 10, 64)
	harness.Must(t, err)
	return v
}

// procNumber returns the number that a line of a file in procfs has after its name, with or without a colon.
func procNumber(t *testing.T, file, name string) int {
	t.Helper()
	for line := range strings.Lines(harness.ReadFile(t, filepath.Join("/proc", file))) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.TrimSuffix(fields[0], ":") == name {
			n, err := strconv.Atoi(fields[1])
			harness.Must(t, err)
			return n
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

// peakMemory returns the most memory that a process had resident, in bytes.
func peakMemory(t *testing.T, p *harness.Process) int {
	t.Helper()
	return procNumber(t, fmt.Sprintf("%d/status", p.PID()), "VmHWM") << 10
}
