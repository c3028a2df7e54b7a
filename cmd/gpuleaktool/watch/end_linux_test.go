// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/procfs"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// toProcess chooses the process of onGPU.
var toProcess = strings.Repeat(down, 6)

// onGPU is a process as the exporter at that address tells of it.
func onGPU(t *testing.T, address, name string, pid int) (*keys, *verdicts.Process) {
	t.Helper()
	k := typing(t, address)
	p := &k.data.Devices[0].Processes[0]
	now, err := procfs.NewProc(pid)
	testkit.Must(t, err)
	stat, err := now.Stat()
	testkit.Must(t, err)
	p.Labels["process"], p.Labels["pid"], p.Start = name, strconv.Itoa(pid), stat.Starttime
	return k, p
}

// TestEnd has k end a process of the test, and only if it is that one, it is here, and its name was typed.
func TestEnd(t *testing.T) {
	const (
		asks = "k" + "app.py\r"
		sent = "SIGTERM was sent to app.py"
	)
	nothing := func(*keys, *verdicts.Process) {}
	for name, c := range map[string]struct {
		address, typed, answer string
		change                 func(*keys, *verdicts.Process)
	}{
		"its name":         {"http://localhost:9844", asks, sent, nothing},
		"in pieces":        {"http://[::1]:9844", "kappx\x7f.p\x1b[Ay\r", sent, nothing},
		"without exporter": {"", asks, sent, nothing},
		"another name":     {"http://127.0.0.1", "kapp\r", "Nothing was sent: that is not its name.", nothing},
		"no name typed":    {"", "k\r", "Nothing was sent: that is not its name.", nothing},
		"escape":           {"", "kapp.py\x1b\r", "No finding. ", nothing},
		"ctrl-C":           {"", "kapp.py\x03\r", "", nothing},
		"no name known":    {"", "k\r", "Nothing was sent: that is not its name.", func(_ *keys, p *verdicts.Process) { p.Labels["process"] = "" }},
		"a later process":  {"", "k", "Nothing can be sent: this machine has no such process now.", func(_ *keys, p *verdicts.Process) { p.Start-- }},
		"start not known":  {"", "k", "Nothing can be sent: this machine has no such process now.", func(_ *keys, p *verdicts.Process) { p.Start = 0 }},
		"no number":        {"", "k", "Nothing can be sent: ", func(_ *keys, p *verdicts.Process) { p.Labels["pid"] = "-1" }},
		"another machine":  {"http://node7:9844", "k", "It runs on another machine: node7.", nothing},
		"not real":         {"", "k", "These GPUs are simulated. There is no process to end.", func(k *keys, _ *verdicts.Process) { k.data.Note = "These GPUs are simulated." }},
		"reused meanwhile": {"", "k", "", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			child := exec.Command("sleep", "1000")
			testkit.Must(t, child.Start())
			k, p := onGPU(t, c.address, "app.py", child.Process.Pid)
			c.change(k, p)
			k.press(toProcess + c.typed)
			if name == "reused meanwhile" {
				k.asked.Start++
				k.press("app.py\r")
				c.answer = "Nothing was sent: this machine has no such process now."
			}
			if !strings.Contains(k.answer, c.answer) {
				t.Errorf("answer %q", k.answer)
			}
			want := syscall.SIGTERM
			if c.answer != sent {
				want = syscall.SIGKILL
				testkit.Must(t, child.Process.Kill())
			}
			var ended *exec.ExitError
			if err := child.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != want {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// TestEndOfAnother asks for the first process of the machine, which is root's. A thread gives up its rights if the test has those of root.
func TestEndOfAnother(t *testing.T) {
	answer := make(chan string)
	go func() {
		defer close(answer)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		const nobody = 65534
		if os.Geteuid() == 0 {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				answer <- errno.Error()
				return
			}
		}
		k, _ := onGPU(t, "", "init", 1)
		k.press(toProcess + "k")
		answer <- k.answer
	}()
	testkit.Equal(t, <-answer, "Nothing can be sent: it is another user's.", "answer")
}
