// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestWatch has the tool look at a node by itself, as in a first minute:
// who holds what is known, and nothing is judged yet.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 2)
	for i := range m.GPUs {
		m.GPUs[i].Processes, m.GPUs[i].ECC.Errors = nil, nil
	}
	m.GPUs[1].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(5 * gib)}}
	m.apply(t)
	cmd := exec.Command(harness.Tool(t), "watch", "--once", "--nvml.library-path="+m.library, "--path.procfs="+m.procfs, "--path.sysfs="+m.sysfs)
	cmd.Env = append(os.Environ(), fakenvml.Env(m.script, "")...)
	out, err := cmd.CombinedOutput()
	if code, is := errors.AsType[*exec.ExitError](err); !is || code.ExitCode() != 3 {
		t.Fatalf("%v, want exit status 3\n%s", err, out)
	}
	for _, want := range []string{"NOT KNOWN: Watching 2 GPUs. Not judged yet: 2.", "GPU 0", "GPU 1", "5.00 GiB"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// terminal opens a terminal of 100 columns and 60 lines: the end of who types and sees, and that of the program.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	harness.Must(t, err)
	t.Cleanup(func() { _ = person.Close() })
	raw, err := person.SyscallConn()
	harness.Must(t, err)
	var number int
	harness.Must(t, raw.Control(func(fd uintptr) {
		err = errors.Join(unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 60, Col: 100}))
		if err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	harness.Must(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	harness.Must(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// modeOf returns the mode of a terminal.
func modeOf(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	harness.Must(t, err)
	return *mode
}

// TestWatchKeys has somebody at a terminal choose rows and act on them. However that ends, the terminal gets its mode back.
func TestWatchKeys(t *testing.T) {
	t.Parallel()
	// Where nohup runs the tests, what they start ignores SIGHUP, too. What they take themselves is at its default in it.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	exporter := harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node"}})
	for name, end := range map[string]func(person *os.File, tool *exec.Cmd) error{
		"q":       func(person *os.File, _ *exec.Cmd) error { _, err := person.WriteString("q"); return err },
		"ctrl-C":  func(person *os.File, _ *exec.Cmd) error { _, err := person.WriteString("\x03"); return err },
		"SIGTERM": func(_ *os.File, tool *exec.Cmd) error { return tool.Process.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *os.File, tool *exec.Cmd) error { return tool.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			person, program := terminal(t)
			before := modeOf(t, program)
			var seen harness.Output
			go func() { _, _ = io.Copy(&seen, person) }() // until the end of the test
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tool := exec.CommandContext(ctx, harness.Tool(t), "watch", "--interval=1s", exporter.URL)
			tool.Stdin, tool.Stdout, tool.Stderr = program, program, program
			tool.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			harness.Must(t, tool.Start())
			for _, step := range [][2]string{
				{"", "PROCESS "}, // in the first second there is none
				{"\x1b[B", "> GPU "},
				{"\r", "No finding. "},
				{"o", exporter.URL + "/predict#GPU-"},
				{"k", "choose a process"},
				{strings.Repeat("\x1b[B", 40), "\x1b[7m> "},
				{"k", "There is no process to end."},
			} {
				_, err := person.WriteString(step[0])
				harness.Must(t, err)
				harness.Eventually(t, 20*time.Second, func() error {
					screens := strings.Split(seen.String(), "\x1b[H\x1b[2J")
					if last := screens[len(screens)-1]; !strings.Contains(last, step[1]) {
						return fmt.Errorf("after %q there is no %q on\n%s", step[0], step[1], last)
					}
					return nil
				})
			}
			harness.Must(t, end(person, tool))
			if err := tool.Wait(); err != nil {
				t.Error(err)
			}
			equal(t, modeOf(t, program), before, "the mode")
		})
	}
}
