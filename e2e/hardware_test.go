// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// suitePatience is how long the hardware suite may take before the test says that
// it hangs.
const suitePatience = 10 * time.Minute

// bench is a machine for the hardware suite: the bundle unpacked, a fake driver, and
// a Python that finds the stub of PyTorch.
type bench struct {
	dir, library, python string
	env                  []string
}

// hardwareReport is report.json.
type hardwareReport struct {
	Problems, Skipped, Notes []string
	Tables                   []struct {
		Title  string
		Header []string
		Rows   [][]any
	}
}

// newBench unpacks the bundle that `make hardware-bundle` makes where there is no Go.
func newBench(t *testing.T, missing ...string) *bench {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("%v: make e2e-packages installs it", err)
	}
	library, err := fakenvml.Build(harness.Dir(), missing...)
	harness.Must(t, err)
	b := &bench{dir: t.TempDir(), library: library, python: python}
	// An exporter of another user has to reach the library and its script.
	for _, dir := range []string{harness.Dir(), filepath.Dir(b.dir), b.dir} {
		harness.Must(t, os.Chmod(dir, 0o755))
	}
	bundle, err := hardwareBundle()
	harness.Must(t, err)
	harness.Run(t, exec.Command("tar", "xzf", bundle, "-C", b.dir))

	node := fakenvml.NewNode(1)
	node.GPUs[0].Processes = nil
	node.GPUs[0].Memory.AddProcesses, node.GPUs[0].Memory.Used = true, fakenvml.Constant(4*mib)
	script := filepath.Join(b.dir, "script")
	harness.Must(t, node.Write(script))
	stub := filepath.Join(harness.Root(), "e2e", "hardware", "stub")
	path := strings.Join([]string{filepath.Join(stub, "bin"), filepath.Dir(python), "/usr/bin", "/bin"}, ":")
	// Nothing of it may go through the proxy of the machine: there is none at this address.
	b.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PATH=") }),
		"http_proxy=http://127.0.0.1:1", "PATH="+path, "PYTHONPATH="+stub, "PYTHONDONTWRITEBYTECODE=1", fakenvml.EnvState+"="+script)
	b.background(t, filepath.Join(stub, "fakedriver.py"))
	return b
}

// hardwareBundle makes the bundle as a user does, once for all tests.
var hardwareBundle = sync.OnceValues(func() (string, error) {
	bundle := filepath.Join(harness.Dir(), "hardware.tar.gz")
	out, err := exec.Command("make", "-C", harness.Root(), "hardware-bundle", "HARDWARE_BUNDLE="+bundle).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make hardware-bundle: %w\n%s", err, out)
	}
	return bundle, nil
})

// background runs a Python program until the end of the test.
func (b *bench) background(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command(b.python, script)
	cmd.Env = b.env
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs for ever
		_ = cmd.Wait()
	})
}

// suite runs the suite and returns its report, if there is one, its exit status and
// what it printed. A minute of it stands for an hour, or the test would take ten.
func (b *bench) suite(t *testing.T, env []string, args ...string) (*hardwareReport, int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suitePatience)
	defer cancel()
	out := filepath.Join(b.dir, "report")
	args = append([]string{
		filepath.Join(b.dir, "gpu_leak_exporter-hardware", "run.py"), "--out=" + out, "--archive",
		"--pace=60", "--lead=13", "--seconds=45", "--contexts=1,2",
	}, args...)
	cmd := exec.CommandContext(ctx, b.python, args...)
	cmd.Env, cmd.Dir = append(slices.Clone(b.env), env...), b.dir
	printed, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("the suite did not end within %s:\n%s", suitePatience, printed)
	}
	if err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("the suite: %v\n%s", err, printed)
	}
	text, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		return nil, cmd.ProcessState.ExitCode(), string(printed)
	}
	var r hardwareReport
	harness.Must(t, json.Unmarshal(text, &r))
	return &r, cmd.ProcessState.ExitCode(), string(printed)
}

// rows returns the rows of the tables whose title begins so, by their first cell.
func (r *hardwareReport) rows(title string) map[string][]any {
	found := map[string][]any{}
	for _, table := range r.Tables {
		if strings.HasPrefix(table.Title, title) {
			for _, row := range table.Rows {
				found[fmt.Sprint(row[0])] = row
			}
		}
	}
	return found
}

// TestHardwareSuite runs the suite from the bundle, in a folder without Go, over a
// driver and programs with which nothing is wrong.
func TestHardwareSuite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, status, printed := b.suite(t, nil, "--library="+b.library, "--only=values,leaks,cost,faults", "--xid",
		"--programs=leak_hook,cudamalloc,leak_jax,cupy,graphs,training,models")
	if r == nil || status != 0 || len(r.Problems) > 0 {
		t.Fatalf("exit status %d, want 0:\n%s", status, printed)
	}
	const foundAfter = 5 // the column
	leaks := r.rows("Leaks")
	for _, name := range []string{"leak_hook", "leak_cudamalloc", "leak_jax", "leak_cupy", "leak_graphs"} {
		if row := leaks[name]; row == nil || row[foundAfter] == nil {
			t.Errorf("%s: %v, want a leak that was found", name, row)
		}
	}
	equal(t, len(r.rows("Healthy")), 2, "healthy programs")
	for title, least := range map[string]int{
		"Values at idle": 50, "Values under load": 5, "Latency": 20, "Cost": 2, "Faults": 4, "The exporter itself": 4,
	} {
		if n := len(r.rows(title)); n < least {
			t.Errorf("table %q has %d rows, want %d or more", title, n, least)
		}
	}
	if !slices.ContainsFunc(r.Notes, func(s string) bool { return strings.Contains(s, "samples of the utilisation of 8 processes") }) {
		t.Errorf("nothing says how many samples of utilisation are kept: %q", r.Notes)
	}
	if row := r.rows("Faults")["a kernel writes to a wrong address"]; row == nil || !strings.Contains(fmt.Sprint(row[1]), "[('31', 1.0)]") {
		t.Errorf("%v, want that XID 31 was reported", row)
	}
	for _, name := range []string{
		"report.md", "shift-a.rec.gz", "shift-a.truth.json", "exporter.prom", "predict-a.html", "metrics-a.prom", "verdicts-a.json", "backtest-a.html",
		"live-a.jsonl", "exporter.log", "programs/leak_hook.truth.jsonl",
	} {
		if info, err := os.Stat(filepath.Join(b.dir, "report", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file that is not empty", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "report.tar.gz")); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile(filepath.Join(b.dir, "report", "predict-a.html"))
	if err != nil || !strings.Contains(string(page), "leak_cudamalloc.py") {
		t.Errorf("predict-a.html does not name the program that leaks: %v", err)
	}
}

// TestHardwareRecords judges what was recorded on real GPUs once more: every leak is
// told after it began, and no healthy program is called one.
func TestHardwareRecords(t *testing.T) {
	t.Parallel()
	records, err := filepath.Glob(filepath.Join(harness.Root(), "e2e", "hardware", "records", "*"))
	if err != nil || len(records) == 0 {
		t.Fatalf("there are no records: %v", err)
	}
	for _, record := range records {
		t.Run(filepath.Base(record), func(t *testing.T) {
			b := newBench(t)
			r, status, printed := b.suite(t, nil, "--again="+record, "--pace=30")
			if r == nil || status != 0 || len(r.Problems)+len(r.Skipped) > 0 {
				t.Fatalf("exit status %d, want 0:\n%s", status, printed)
			}
			const foundAfter = 5 // the column
			leaks, healthy := r.rows("Leaks"), r.rows("Healthy")
			if len(leaks) != 10 || len(healthy) != 7 {
				t.Errorf("%d leaks and %d healthy programs, want 10 and 7", len(leaks), len(healthy))
			}
			for name, row := range leaks {
				if after, ok := row[foundAfter].(float64); !ok || after <= 0 {
					t.Errorf("%s was told after %v", name, row[foundAfter])
				}
			}
			if filepath.Base(record) == "h100" {
				checkLives(t, r.rows("What was said of the lives"))
			}
		})
	}
}

// checkLives wants the third life, which leaks, to be called a leak before it meets the end of memory, and the
// others to be called none. The second is no page either. The first is one: it fills most of a GPU, and nobody
// knows yet that it stops there.
func checkLives(t *testing.T, lives map[string][]any) {
	t.Helper()
	const leak, page = 2, 3 // the columns
	if len(lives) != 3 {
		t.Fatalf("%d lives were judged, want 3", len(lives))
	}
	if first, second := lives["1"], lives["2"]; first[leak] != nil || second[leak] != nil || second[page] != nil {
		t.Errorf("of the healthy lives is said %v and %v", first, second)
	}
	if before, ok := lives["3"][leak].(float64); !ok || before <= 0 {
		t.Errorf("of the life that leaks is said %v", lives["3"])
	}
}

// TestHardwareSuiteFinds has three things wrong: a value of nvidia-smi that the
// exporter does not have, a call that the driver lacks, and a leak that the driver
// does not show. Each is a problem in the report, and there is no other.
func TestHardwareSuiteFinds(t *testing.T) {
	t.Parallel()
	b := newBench(t, "nvmlDeviceGetPerformanceState")
	r, status, printed := b.suite(t, []string{"STUB_SMI_WRONG=gpu_temp", "STUB_HIDDEN_LEAK=leak_hook"},
		"--library="+b.library, "--programs=hook,cache,pool", "--only=values,leaks")
	if r == nil || status != 1 {
		t.Fatalf("exit status %d, want 1:\n%s", status, printed)
	}
	wrong := map[string]int{`gpu_temperature_celsius{sensor="gpu"} is`: 0, "gpu_performance_state is absent": 0, "leak_hook leaked": 0}
	for _, problem := range r.Problems {
		known := false
		for part := range wrong {
			if strings.Contains(problem, part) {
				wrong[part]++
				known = true
			}
		}
		if !known {
			t.Errorf("unexpected problem: %s", problem)
		}
	}
	for part, n := range wrong {
		if n == 0 {
			t.Errorf("no problem says %q; there are:\n%s", part, strings.Join(r.Problems, "\n"))
		}
	}
	if !slices.ContainsFunc(r.Skipped, func(s string) bool { return strings.Contains(s, "not asked for") }) {
		t.Errorf("nothing says that the costs and the faults were left out: %q", r.Skipped)
	}
}

// TestHardwareSuiteProbe runs the part with the probe: what grows is told right. The
// stub tells no lines, which is a problem.
func TestHardwareSuiteProbe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, status, printed := b.suite(t, nil, "--library="+b.library, "--only=probe", "--programs=hook,cupy,library")
	if r == nil || status != 1 {
		t.Fatalf("exit status %d, want 1:\n%s", status, printed)
	}
	if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], "the lines of leak_hook: ") {
		t.Errorf("problems %q, want one, on the lines of leak_hook", r.Problems)
	}
	const most = 6 // the column
	grows := r.rows("What grows")
	for name, want := range map[string]string{"leak_hook": "allocated", "leak_cupy": "cache", "grows_library": "untracked"} {
		if row := grows[name]; row == nil || row[most] != want {
			t.Errorf("%s: %v, want that most of it is %s", name, row, want)
		}
	}
	equal(t, len(r.rows("The probe's numbers")), 3, "programs whose numbers were compared")
	equal(t, len(r.rows("Cost of the probe")), 3, "readings that were timed")
}

// TestHardwareSuiteCannotRun has no GPU, and calls that are wrong: one line says
// what, and the exit status is 2.
func TestHardwareSuiteCannotRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct{ arg, want string }{
		{"--library=" + filepath.Join(b.dir, "missing.so"), "sees no GPU 0"},
		{"--gpu=7", "sees no GPU 7"},
		{"--out=" + b.dir, "exists already"},
		{"--bin=" + b.dir, "--bin names their folder"},
		{"--again=" + filepath.Join(b.dir, "nothing"), "this is no report"},
		{"--only=leeks", "leeks is none of values, probe, leaks, cost, faults, bursts, lives"},
	} {
		args := []string{c.arg}
		if !strings.HasPrefix(c.arg, "--library") {
			args = append(args, "--library="+b.library)
		}
		_, status, printed := b.suite(t, nil, args...)
		if status != 2 || !strings.Contains(printed, c.want) {
			t.Errorf("%s: exit status %d, want 2 and %q:\n%s", c.arg, status, c.want, printed)
		}
		harness.Must(t, os.RemoveAll(filepath.Join(b.dir, "report")))
	}
}
