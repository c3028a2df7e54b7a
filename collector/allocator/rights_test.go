// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package allocator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

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
