// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package record

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/backtest"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// programArgs is the variable with the arguments of the program where a test runs that in
// another process, for what the system does to a whole one.
const programArgs = "GPULEAKTOOL_ARGS"

func TestMain(m *testing.M) {
	if args := os.Getenv(programArgs); args != "" {
		os.Exit(command.Run(command.UntilSignal(), strings.Fields(args), os.Stdout, os.Stderr, Add))
	}
	goleak.VerifyTestMain(m)
}

// call runs the tool and returns its exit code and what it wrote to stderr.
func call(ctx context.Context, t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := command.Run(ctx, args, &out, &errs, Add)
	if out.Len() > 0 {
		t.Errorf("stdout %q", out.String())
	}
	return code, errs.String()
}

// samples reads a recording: how many samples of each GPU it holds. It checks
// that they are an interval apart, and returns the last status of GPU 0.
func samples(t *testing.T, path string, interval time.Duration) (counts []int, status gpu.Status) {
	t.Helper()
	src, err := replay.New(path, math.Inf(1))
	testkit.Must(t, err)
	defer src.Close()
	devices, err := src.Devices(t.Context())
	testkit.Must(t, err)
	for _, d := range devices {
		n, last := 0, time.Duration(0)
		for {
			if _, err := d.Wait(t.Context()); errors.Is(err, io.EOF) {
				break
			}
			s, err := d.Read(t.Context())
			testkit.Must(t, err)
			if n > 0 && s.T-last != interval {
				t.Fatalf("GPU %d: samples are %s apart", d.Info().Index, s.T-last)
			}
			n, last = n+1, s.T
			if d.Info().Index == 0 {
				testkit.Must(t, d.ReadGroup(t.Context(), gpu.GroupPower, &status))
			}
		}
		counts = append(counts, n)
	}
	return counts, status
}

// TestRecord records simulated GPUs, and then that recording, to its end.
func TestRecord(t *testing.T) {
	for _, name := range []string{"plain", "compressed.gz"} {
		path := filepath.Join(t.TempDir(), name)
		code, stderr := call(t.Context(), t, "record", "--output="+path, "--source=sim:healthy", "--source.speed=inf", "--interval=2s", "--duration=5m")
		if code != command.OK || !strings.Contains(stderr, "samples 750, GPUs 5") {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		counts, status := samples(t, path, 2*time.Second)
		for i, n := range counts {
			testkit.Equal(t, n, 150, "%s: samples of GPU %d", name, i)
		}
		if len(counts) != 5 || !status.Power.Watts.OK {
			t.Errorf("%s: %d GPUs, power %v", name, len(counts), status.Power)
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.HasPrefix(text, []byte{0x1f, 0x8b}) != strings.HasSuffix(name, ".gz") {
			t.Errorf("%s: begins with %x, %v", name, text[:2], err)
		}
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		again := filepath.Join(t.TempDir(), "again.gz")
		if code, stderr := call(t.Context(), t, "record", "--output="+again, "--source=replay:"+path, "--source.speed=inf"); code != command.OK {
			t.Fatal(stderr)
		}
		copied, _ := samples(t, again, 2*time.Second)
		testkit.Equal(t, copied, counts, "%s: samples that were recorded again", name)
	}
}

// TestFaultyGPUs ends though a GPU hangs, one is lost and one fails now and then.
func TestFaultyGPUs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	code, stderr := call(t.Context(), t, "record", "--output="+path, "--source=sim:faulty", "--source.speed=inf", "--duration=5m", "--nvml.timeout=1s")
	if code != command.OK {
		t.Fatal(stderr)
	}
	for _, want := range []string{"GPU 2 cannot be read, will try again", "a GPU is left out from where its driver has not answered"} {
		testkit.Equal(t, strings.Count(stderr, want), 1, "how often it says %q in\n%s", want, stderr)
	}
}

// process returns the program in a process of its own, after some lines of shell. It is
// killed just before the time of the test is over: one left behind would write on and on.
func process(t *testing.T, shell, args string) *exec.Cmd {
	t.Helper()
	ctx := t.Context()
	if over, ok := t.Deadline(); ok {
		limited, cancel := context.WithDeadline(ctx, over.Add(-10*time.Second))
		t.Cleanup(cancel)
		ctx = limited
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", shell+`; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), programArgs+"="+args)
	return cmd
}

// awaitSize waits until a file has more than so many bytes.
func awaitSize(t *testing.T, path string, size int64) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for range 6000 {
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			return
		}
		<-poll.C
	}
	t.Fatalf("%s does not grow", path)
}

// keptSamples returns how many samples an error says were kept in a file.
func keptSamples(t *testing.T, path, text string) int {
	t.Helper()
	_, rest, found := strings.Cut(text, ": what came before is kept in "+path+" (")
	_, number, _ := strings.Cut(rest, "): samples ")
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if !found || err != nil || n == 0 {
		t.Fatalf("no samples kept in %s: %s", path, text)
	}
	return n
}

// TestFullDisk ends a recording whose file cannot grow any more.
func TestFullDisk(t *testing.T) {
	for _, name := range []string{"plain", "compressed.gz"} {
		path := filepath.Join(t.TempDir(), name)
		cmd := process(t, "ulimit -f 100", "record --output="+path+" --source=sim:crashloop --source.speed=inf --duration=7d")
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != command.Wrong || !strings.Contains(string(text), "file too large") {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		kept := keptSamples(t, path, string(text))
		if counts, _ := samples(t, path, time.Second); len(counts) != 1 || counts[0] != kept {
			t.Errorf("%s: samples %v, want %d", name, counts, kept)
		}
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestHangup ends a recording as a session does that drops: nobody reads what it
// says any more, and the signal comes more than once. A GPU hangs, so that it
// takes a while to end.
func TestHangup(t *testing.T) {
	// Where nohup runs the tests the signal is ignored, and what they start inherits that.
	// What they take themselves is at its default in what they start.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	path := filepath.Join(t.TempDir(), "r")
	cmd := process(t, ":", "record --output="+path+" --source=sim:faulty --source.speed=1000")
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	cmd.Stderr = w
	testkit.Must(t, errors.Join(cmd.Start(), w.Close()))
	awaitSize(t, path+".partial", 1_200_000) // 3 minutes; it hangs after 2
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for over := false; !over; {
		_ = cmd.Process.Signal(syscall.SIGHUP) // it may have ended
		select {
		case err := <-ended:
			if over = true; err != nil {
				t.Error("the recording that was hung up on:", err)
			}
		case <-again.C:
		}
	}
	src, err := replay.New(path, 1)
	testkit.Must(t, err)
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// TestNohup lets a recording go on though the session drops.
func TestNohup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	cmd := process(t, "trap '' HUP", "record --output="+path+" --source=sim:crashloop --source.speed=1000 --duration=10m")
	testkit.Must(t, cmd.Start())
	awaitSize(t, path+".partial", 0)
	if err := errors.Join(cmd.Process.Signal(syscall.SIGHUP), cmd.Wait()); err != nil {
		t.Error(err)
	}
	if counts, _ := samples(t, path, time.Second); len(counts) != 1 || counts[0] != 600 {
		t.Errorf("samples %v", counts)
	}
}

// TestKilled reads what a recording has left that was killed.
func TestKilled(t *testing.T) {
	for _, name := range []string{"plain", "compressed.gz"} {
		path := filepath.Join(t.TempDir(), name)
		cmd := process(t, ":", "record --output="+path+" --source=sim:crashloop --source.speed=1000")
		testkit.Must(t, cmd.Start())
		awaitSize(t, path+".partial", 10_000)
		testkit.Must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		var stdout, stderr bytes.Buffer
		code := command.Run(t.Context(), []string{"backtest", "--output=json", path + ".partial"}, &stdout, &stderr, backtest.Add)
		if code == command.Wrong || stdout.Len() == 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d: %s%s", name, code, &stdout, &stderr)
		}
	}
}

// fakeSample returns a sample of a GPU at a second.
func fakeSample(gpuIndex, second int) (gpu.Info, gpu.Sample) {
	now := time.Date(2026, 3, 1, 0, 0, second, 0, time.UTC)
	return gpu.Info{Index: gpuIndex, UUID: "GPU-" + strconv.Itoa(gpuIndex)}, gpu.Sample{
		Time: now, T: time.Duration(now.UnixNano()),
		Memory: gpu.Memory{Used: gpu.Some(uint64(1 << 30)), Total: gpu.Some(uint64(1 << 34))},
	}
}

// TestMembers reads a compressed recording while it is written: nothing older
// than a minute is missing, also where the GPUs are at different times.
func TestMembers(t *testing.T) {
	const behind = 5000 // seconds
	path := filepath.Join(t.TempDir(), "r.gz")
	file, err := createRecording(path)
	testkit.Must(t, err)
	for second := range 600 {
		for i, s := range []int{second + behind, second} {
			info, sample := fakeSample(i, s)
			testkit.Must(t, file.write(info, sample, nil))
		}
		if second < 60 {
			continue
		}
		if counts, members := packedSamples(t, path+".partial"); counts < 2*(second-60) || members > 1+second/60 {
			t.Fatalf("second %d: %d samples in %d members", second, counts, members)
		}
	}
	if done, err := file.complete(); err != nil || done.samples != 1200 || done.failed != nil {
		t.Errorf("%+v, %v", done, err)
	}
	counts, _ := packedSamples(t, path)
	testkit.Equal(t, counts, 1200, "samples")
}

// packedSamples counts the samples and the members of a compressed recording. Only
// one that is being written may end inside a member.
func packedSamples(t *testing.T, path string) (counts, members int) {
	t.Helper()
	packed := testkit.Read(t, path)
	z, err := gzip.NewReader(strings.NewReader(packed))
	testkit.Must(t, err)
	text, err := io.ReadAll(z)
	if err != nil && !(strings.HasSuffix(path, ".partial") && errors.Is(err, io.ErrUnexpectedEOF)) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte(`"sample"`)), strings.Count(packed, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
}

// limitedFile is a disk that gets full.
type limitedFile struct {
	w    io.Writer
	room int
}

func (l *limitedFile) Write(b []byte) (int, error) {
	fits := b[:min(l.room, len(b))]
	n, err := l.w.Write(fits)
	l.room -= n
	if len(fits) < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestFailedRecording checks what is kept where and what is said of it.
func TestFailedRecording(t *testing.T) {
	const ends = ": no sample is whole, so there is no recording"
	for _, c := range []struct {
		name, path string
		room       int // bytes on the disk
		source     error
		blocked    bool   // the name cannot be given
		want       string // PATH stands for the file
		samples    int    // in PATH
		partial    int    // in PATH.partial
	}{
		{"the source", "r", 1e6, io.ErrNoProgress, false, io.ErrNoProgress.Error() + ": what came before is kept in PATH (27.4 KiB): samples 200", 200, 0},
		{"the source, compressed", "r.gz", 1e6, io.ErrNoProgress, false, io.ErrNoProgress.Error() + ": what came before is kept in PATH (", 200, 0},
		{"the disk", "r", 20_000, nil, false, "recording: no space left on device: what came before is kept in PATH (", 142, 0},
		{"the disk, compressed", "r.gz", 1400, nil, false, "recording: no space left on device: what came before is kept in PATH (", 122, 0},
		{"at the first sample", "r", 60, nil, false, "recording: no space left on device" + ends, 0, 0},
		{"before a member is whole", "r.gz", 60, nil, false, "recording: no space left on device" + ends, 0, 0},
		{"the name", "r", 1e6, nil, true, "completing PATH: rename PATH.partial PATH: file exists: what was recorded is left in PATH.partial", 0, 200},
		{"the disk and the name", "r.gz", 1400, nil, true, "recording: no space left on device; completing PATH: rename PATH.partial PATH: file exists: what was recorded is left in PATH.partial", 0, 122},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.path)
			file, err := createRecording(path)
			testkit.Must(t, err)
			file.out.w = &limitedFile{w: file.file, room: c.room}
			for second := range 200 {
				// Later ones come from loops that have not yet heard of the end.
				_ = file.write(fakeRow(second))
			}
			if c.blocked {
				testkit.Must(t, os.Mkdir(path, 0o700))
			}
			err = (&recorder{output: path, file: file, stderr: t.Output()}).finish(c.source)
			if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), path, "PATH"), c.want) {
				t.Errorf("error %v\nwant  %s", err, c.want)
			}
			for path, want := range map[string]int{path: c.samples, path + ".partial": c.partial} {
				if info, err := os.Stat(path); want == 0 && (err == nil && !info.IsDir()) {
					t.Errorf("%s is there", path)
				}
				if want == 0 {
					continue
				}
				counts, _ := samples(t, path, time.Second)
				testkit.Equal(t, counts, []int{want}, "samples of %s", path)
			}
		})
	}
}

// fakeRow returns what is written of a sample.
func fakeRow(second int) (gpu.Info, gpu.Sample, *gpu.Status) {
	info, sample := fakeSample(0, second)
	return info, sample, nil
}

// TestCutReplay keeps what was recorded from a file that is cut off meanwhile.
func TestCutReplay(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1"), filepath.Join(dir, "2.gz")
	if code, stderr := call(t.Context(), t, "record", "--output="+first, "--source=sim:crashloop", "--source.speed=inf", "--duration=10m"); code != command.OK {
		t.Fatal(stderr)
	}
	src, err := replay.New(first, math.Inf(1))
	testkit.Must(t, err)
	defer src.Close()
	info, err := os.Stat(first)
	testkit.Must(t, err)
	testkit.Must(t, os.Truncate(first, info.Size()-10))
	r := &recorder{output: second, stderr: t.Output()}
	r.file, err = createRecording(second)
	testkit.Must(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r.fail = cancel
	r.record(ctx, src)
	if err = r.finish(context.Cause(ctx)); err == nil || !strings.Contains(err.Error(), "the file ends inside this line") {
		t.Fatalf("error %v", err)
	}
	testkit.Equal(t, keptSamples(t, second, err.Error()), 599, "samples that are kept")
	counts, _ := samples(t, second, time.Second)
	testkit.Equal(t, counts, []int{599}, "samples")
}

func TestWrongCalls(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	half := filepath.Join(dir, "half")
	for _, path := range []string{there, half + ".partial"} {
		testkit.Write(t, path, "x")
	}
	for _, tt := range []struct{ args, want string }{
		{"record", "required flag(s) '--output' not provided; try gpuleaktool record --help"},
		{"record --output=x --duration=1", "--duration=1: is not a duration, such as 500ms, 90s, 1h30m or 1d"},
		{"record --output=x --interval=0s", "--interval=0s: 0s is not between 100ms and 1m"},
		{"record --output=x --source.speed=2", "--source.speed needs --source=sim:SCENARIO or --source=replay:FILE: a driver has no speed"},
		{"record --output=x --source=prometheus:http://a", "--source=prometheus:URL keeps its history itself: gpuleaktool backtest --prometheus.url=URL reads it"},
		{"record --output=x --source=sim:y", `--source=sim:y: unknown scenario "y": choose one of node, healthy, faulty, crashloop`},
		{"record --source=sim:crashloop --output=" + there, "--output=" + there + ": exists already: choose another name or remove it"},
		{"record --source=sim:crashloop --output=" + half, "--output=" + half + ": " + half + ".partial exists: another recording is under way or was cut off; backtest reads what it left"},
		{"record --source=sim:crashloop --duration=1s --output=", "--output: is empty: name the file to write"},
		{"record --source=sim:crashloop --output=/none/x", "--output=/none/x: open /none/x.partial: no such file or directory"},
	} {
		code, stderr := call(t.Context(), t, strings.Fields(tt.args)...)
		if want := command.Program + ": error: " + tt.want + "\n"; code != command.Wrong || stderr != want {
			t.Errorf("%q: exit code %d, stderr %q, want %q", tt.args, code, stderr, want)
		}
	}
}

// TestNothingRecorded leaves no file where no sample was taken.
func TestNothingRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stderr := call(ctx, t, "record", "--output="+path, "--source=sim:crashloop")
	if code != command.Wrong || stderr != "gpuleaktool: error: no sample was taken, so there is no recording\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
