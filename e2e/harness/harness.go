// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package harness runs the real exporter and the real Prometheus for end-to-end
// tests. It knows the exporter by its flags and its web pages only.
//
// A package that uses it needs
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Deadlines. They are long because they only cost time when a test fails.
const (
	startDeadline = 10 * time.Minute
	stopDeadline  = 10 * time.Minute
)

var dir string // see Dir

// Dir returns the folder of what was built for this test binary, for more that
// its tests share. Main makes and removes it.
func Dir() string { return dir }

// Main runs the tests of a package and returns the exit code.
func Main(m *testing.M) int {
	var err error
	if dir, err = os.MkdirTemp("", "gpu-leak-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, "harness:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.Run()
}

// Processor names the kind of this machine's processor.
func Processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // where it is not there, the architecture has to do
	if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}

// Root returns the root of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

var buildExporter = sync.OnceValues(func() (string, error) { return build("gpu_leak_exporter") })

// Exporter returns the path of the exporter, built from the working tree once a
// test binary; with the race detector if the variable E2E_RACE is not empty.
func Exporter(t testing.TB) string {
	t.Helper()
	path, err := buildExporter()
	Must(t, err)
	return path
}

var buildTool = sync.OnceValues(func() (string, error) { return build("gpuleaktool") })

// Tool returns the path of gpuleaktool, built as Exporter builds.
func Tool(t testing.TB) string {
	t.Helper()
	path, err := buildTool()
	Must(t, err)
	return path
}

func build(name string) (string, error) {
	if dir == "" {
		return "", errors.New("harness: this package has no TestMain that calls harness.Main")
	}
	args := []string{"build", "-o", filepath.Join(dir, name)}
	if os.Getenv("E2E_RACE") != "" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/"+name)...)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return filepath.Join(dir, name), nil
}

// ExternalTool returns the path of a program that `make tools` builds, in the
// directory that the variable E2E_BIN names, or in bin/ of the repository.
func ExternalTool(t testing.TB, name string) string {
	t.Helper()
	bin := os.Getenv("E2E_BIN")
	if bin == "" {
		bin = filepath.Join(Root(), "bin")
	}
	path := filepath.Join(bin, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	return path
}

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the text of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	Must(t, err)
	return string(text)
}

// WriteFile makes a file and the folders above it.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// Run runs a program, which has to end well, and returns what it prints.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// Eventually calls cond until it returns nil. It fails the test with cond's last
// error after the deadline.
func Eventually(t testing.TB, deadline time.Duration, cond func() error) {
	t.Helper()
	Must(t, poll(deadline, nil, cond))
}

// poll calls cond until it returns nil, the deadline is over or stop is closed.
func poll(deadline time.Duration, stop <-chan struct{}, cond func() error) error {
	over := time.NewTimer(deadline)
	defer over.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := cond()
		if err == nil {
			return nil
		}
		select {
		case <-stop:
			return fmt.Errorf("the process has ended: %w", err)
		case <-over.C:
			return fmt.Errorf("not within %s: %w", deadline, err)
		case <-again.C:
		}
	}
}

// Process is a program that runs.
type Process struct {
	// URL is where it serves, without a slash at the end.
	URL string

	name   string
	cmd    *exec.Cmd
	output Output
	done   chan struct{} // closed once the process has ended
	err    error         // of Wait; valid once done is closed
}

// Start runs cmd and stops it at the end of the test at the latest. A process
// that ends by itself fails the test unless Wait was called for it.
func Start(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	// What the test leaves behind when it is killed must not live on.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		// Pdeathsig is that of the thread that starts the process, which has to
		// live as long as it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	Must(t, <-started)
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, p.Output())
		}
	})
	return p
}

// listens is a line that exporter-toolkit logs, which Prometheus uses too. Port 0 and the log are free of the race that choosing a free
// port beforehand has.
var listens = regexp.MustCompile(`Listening on.*address"?[=:]"?(127\.0\.0\.1:\d+)`)

// Listening waits until the log of the process tells the address on which it listens, and returns that.
func (p *Process) Listening(t testing.TB) (address string) {
	t.Helper()
	err := poll(startDeadline, p.done, func() error {
		m := listens.FindStringSubmatch(p.Output())
		if m == nil {
			return errors.New("no line of the log tells the address")
		}
		address = m[1]
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return address
}

// waitReady learns the URL of the process and waits until it is ready.
func (p *Process) waitReady(t testing.TB) {
	t.Helper()
	p.URL = "http://" + p.Listening(t)
	err := poll(startDeadline, p.done, func() error {
		_, err := Get(p.URL + "/-/ready")
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns what the process has written to stdout and stderr so far.
func (p *Process) Output() string { return p.output.String() }

// Stop sends SIGTERM and waits for the end, which has to be one with exit code
// 0. It does nothing if the process has been waited for or stopped before.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
	if code := p.Wait(t, stopDeadline); code != 0 {
		t.Errorf("%s ended with exit code %d after SIGTERM, want 0", p.name, code)
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Wait waits for the process to end by itself and returns its exit code; -1 if a
// signal ended it. Past the deadline it kills the process and fails the test.
func (p *Process) Wait(t testing.TB, deadline time.Duration) int {
	t.Helper()
	over := time.NewTimer(deadline)
	defer over.Stop()
	select {
	case <-p.done:
	case <-over.C:
		_ = p.cmd.Process.Kill() // fails only if it has just ended
		<-p.done
		t.Errorf("%s did not end within %s", p.name, deadline)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Output collects what a process writes while the test reads it.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

// String returns all so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Get returns the body at the URL, and an error unless the answer is 200.
func Get(url string) ([]byte, error) { return GetBy(http.DefaultClient, url) }

// GetBy is Get by a client.
func GetBy(client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %.200s", url, resp.Status, body)
	}
	return body, nil
}
