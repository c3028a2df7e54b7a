// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// The suite of faults. By default it takes a sample that is drawn by -faults.seed; make faults runs all,
// and writes the table to bin/FAULTS.md.
var (
	faultsAll  = flag.Bool("faults.all", false, "run all faults, not a sample of them")
	faultsSeed = flag.Uint64("faults.seed", 1, "what the sample is drawn by")
	faultsFile = flag.String("faults.file", "", "write the table to this file")
)

const (
	// faultTime is how long a fault lasts, longer than --nvml.timeout, and scrapeEvery how far apart scrapes are meanwhile.
	faultTime   = 1500 * time.Millisecond
	scrapeEvery = 50 * time.Millisecond
	// answeredWithin is how long a scrape may take to count as answered.
	answeredWithin = time.Second
	// sampledEvery is how far apart samples are.
	sampledEvery = 200 * time.Millisecond
	// tolerated is the share of the samples of GPUs that are well which may be lost in a fault, beside those that
	// the exporter can have lost for want of a core. It guards against a standstill only. That no sample
	// is lost to a fault is tested exactly, in simulated time, by TestSchedules of collector/nvml. The table has all that
	// were lost here.
	tolerated = 0.5
)

// faultKind is a row of the table.
type faultKind struct {
	Name              string
	faults            int
	scrapes, answered int
	failed            int           // scrapes that were not answered at all
	worst             time.Duration // of a scrape
	lost, taken       float64       // samples of GPUs that are well
	starved           float64       // samples that these GPUs can have lost for want of a core
	recovery          time.Duration // the worst
	leaks             int
}

// faultTable collects the rows of all tests.
type faultTable struct {
	mu   sync.Mutex
	rows []*faultKind
}

var faultRows faultTable

func init() { afterwards = faultRows.finish }

// add adds what was seen of one fault.
func (t *faultTable) add(seen *faultKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.rows, func(k *faultKind) bool { return k.Name == seen.Name })
	if i < 0 {
		t.rows = append(t.rows, seen)
		return
	}
	k := t.rows[i]
	k.faults += seen.faults
	k.scrapes += seen.scrapes
	k.answered += seen.answered
	k.failed += seen.failed
	k.worst = max(k.worst, seen.worst)
	k.lost += seen.lost
	k.taken += seen.taken
	k.recovery = max(k.recovery, seen.recovery)
	k.leaks += seen.leaks
}

// table is what was seen.
func (t *faultTable) table() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows []string
	for _, k := range t.rows {
		rows = append(rows, fmt.Sprintf("| %s | %d | %d of %d | %s | %.0f of %.0f | %s | %d |\n",
			k.Name, k.faults, k.answered, k.scrapes, k.worst.Round(time.Millisecond), k.lost, k.taken, k.recovery.Round(10*time.Millisecond), k.leaks))
	}
	slices.Sort(rows)
	return "| fault | faults | scrapes answered | worst scrape | samples lost by healthy GPUs | worst recovery | false leaks |\n" +
		"|---|---|---|---|---|---|---|\n" + strings.Join(rows, "")
}

// finish writes the table, after all tests.
func (t *faultTable) finish() error {
	if len(t.rows) == 0 {
		return nil
	}
	table := t.table()
	fmt.Printf("\n%s\n", table)
	if *faultsFile == "" {
		return nil
	}
	return os.WriteFile(*faultsFile, []byte(table), 0o644)
}

// watch scrapes for that long as a Prometheus does that keeps its connection, and notes what it sees. connected, if
// there is one, is called once that is there.
func (k *faultKind) watch(t *testing.T, p *harness.Process, during time.Duration, connected func()) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	k.watchBy(t, client, p.URL, during, connected)
}

// watchBy is watch by a client.
func (k *faultKind) watchBy(t *testing.T, client *http.Client, url string, during time.Duration, connected func()) {
	t.Helper()
	if connected != nil {
		if _, _, err := scrapeOnce(client, url+"/metrics"); err != nil {
			t.Fatal(err)
		}
		connected()
	}
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(scrapeEvery) {
		m, took, err := scrapeOnce(client, url+"/metrics")
		k.scrapes++
		k.worst = max(k.worst, took)
		if err != nil {
			t.Logf("%s: a scrape: %v after %s", k.Name, err, took)
			k.failed++
			continue
		}
		if took <= answeredWithin {
			k.answered++
		}
		for _, name := range []string{"gpu_leak_detected", "gpu_process_leak_detected", "gpu_workload_leak_detected"} {
			for _, s := range m.All(name, nil) { // none leaks
				if s.Value != 0 {
					k.leaks++
				}
			}
		}
	}
}

// samples returns how many samples of these GPUs were lost, and by when they were read.
func (m *machine) samples(t *testing.T, s harness.Metrics, gpus []int) (lost, at float64) {
	t.Helper()
	for _, i := range gpus {
		n, err1 := s.Value("gpu_samples_missed_total", m.id(i))
		v, err2 := s.Value("gpu_sample_timestamp_seconds", m.id(i))
		harness.Must(t, errors.Join(err1, err2))
		lost, at = lost+n, at+v
	}
	return lost, at
}

// followed are GPUs that are well, and what they had lost at a moment.
type followed struct {
	m        *machine
	p        *harness.Process
	gpus     []int
	lost, at float64
	waited   time.Duration
}

// follow begins to follow GPUs that are well, from a scrape on.
func (m *machine) follow(t *testing.T, p *harness.Process, s harness.Metrics, gpus []int) followed {
	t.Helper()
	lost, at := m.samples(t, s, gpus)
	return followed{m, p, gpus, lost, at, waitedForACore(t, p)}
}

// note adds what they have lost until another scrape.
func (w followed) note(t *testing.T, s harness.Metrics, k *faultKind) {
	t.Helper()
	lost, at := w.m.samples(t, s, w.gpus)
	k.lost += lost - w.lost
	k.taken += (at - w.at) / sampledEvery.Seconds() // as many samples as intervals have passed
	k.starved += float64(len(w.gpus)) * (waitedForACore(t, w.p) - w.waited).Seconds() / sampledEvery.Seconds()
}

// waitedForACore returns for how long the threads of a process could have run, and had no core. Meanwhile one of
// them may have held up the samples of all GPUs.
func waitedForACore(t *testing.T, p *harness.Process) (sum time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID()))
	if err != nil || len(threads) == 0 {
		t.Fatalf("this kernel does not tell how long threads wait: %v", err)
	}
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(b), &ran, &waited); err != nil {
			t.Fatal(err)
		}
		sum += waited
	}
	return sum
}

// settled waits until the driver answers, all GPUs are up and each has a sample more: what a call that hung has cost is
// counted after the sample that it was part of, so with the next one at the latest.
func (m *machine) settled(t *testing.T, p *harness.Process) harness.Metrics {
	t.Helper()
	first := eventually(t, p, m.driverUp)
	return eventually(t, p, func(s harness.Metrics) error {
		if err := m.driverUp(s); err != nil {
			return err
		}
		for i := range m.GPUs {
			_, before := m.samples(t, first, []int{i})
			if _, now := m.samples(t, s, []int{i}); now <= before {
				return fmt.Errorf("no new sample of GPU %d", i)
			}
		}
		return nil
	})
}

// suffer puts the machine through faults, and returns what is seen. others are the GPUs that are well.
func (m *machine) suffer(t *testing.T, p *harness.Process, name string, others []int, faults ...fakenvml.Fault) *faultKind {
	t.Helper()
	k := &faultKind{Name: name, faults: len(faults)}
	healthy := m.follow(t, p, m.settled(t, p), others)
	m.fault(t, faults...)
	k.watch(t, p, faultTime, nil)
	m.fault(t)
	cleared := time.Now()
	after := eventually(t, p, m.driverUp)
	k.recovery = time.Since(cleared)
	healthy.note(t, after, k)
	return k
}

// judge fails the test if something was seen that must not be.
func (k *faultKind) judge(t *testing.T, what string) {
	t.Helper()
	if k.failed > 0 {
		t.Errorf("%s: %d of %d scrapes were not answered", what, k.failed, k.scrapes)
	}
	if k.leaks > 0 {
		t.Errorf("%s: %d false leaks", what, k.leaks)
	}
	if k.lost-k.starved > tolerated*k.taken {
		t.Errorf("%s: GPUs that are well lost %g samples of %.0f, at most %.0f of them for want of a core", what, k.lost, k.taken, k.starved)
	}
}

// errorCodes are all that NVML may answer.
var errorCodes = []fakenvml.Code{
	"UNINITIALIZED", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_PERMISSION", "ALREADY_INITIALIZED", "NOT_FOUND", "INSUFFICIENT_SIZE",
	"INSUFFICIENT_POWER", "DRIVER_NOT_LOADED", "TIMEOUT", "IRQ_ISSUE", "LIBRARY_NOT_FOUND", "FUNCTION_NOT_FOUND", "CORRUPTED_INFOROM",
	"GPU_IS_LOST", "RESET_REQUIRED", "OPERATING_SYSTEM", "LIB_RM_VERSION_MISMATCH", "IN_USE", "MEMORY", "NO_DATA",
	"VGPU_ECC_NOT_SUPPORTED", "INSUFFICIENT_RESOURCES", "FREQ_NOT_SUPPORTED", "ARGUMENT_VERSION_MISMATCH", "DEPRECATED", "NOT_READY",
	"GPU_NOT_FOUND", "INVALID_STATE", "RESET_TYPE_NOT_SUPPORTED", "UNKNOWN",
}

// drawn is one fault of the driver.
type drawn struct {
	kind  string
	fault fakenvml.Fault
	one   bool // of one GPU
}

// draw returns the faults of the calls, all or a sample.
func draw(calls []string, uuid string) (all []drawn) {
	for _, call := range calls {
		for _, one := range []bool{true, false} {
			add := func(kind string, f fakenvml.Fault) {
				if one {
					all = append(all, drawn{"one GPU: a call " + kind, f.On(uuid), true})
				} else {
					all = append(all, drawn{"all GPUs: a call " + kind, f, false})
				}
			}
			add("hangs", fakenvml.Hang(call))
			add("takes 300 ms", fakenvml.Late(call, 300*time.Millisecond))
			for _, code := range errorCodes {
				add("answers an error", fakenvml.Fail(call, code))
			}
		}
	}
	r := rand.New(rand.NewPCG(*faultsSeed, 0)) //nolint:gosec // it can be drawn again
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if !*faultsAll {
		// The few hangs are worth more than the many errors.
		var some []drawn
		for _, kind := range []string{"hangs", "300 ms", "an error"} {
			n := 0
			for _, d := range all {
				if strings.HasSuffix(d.kind, kind) && n < 16 {
					some, n = append(some, d), n+1
				}
			}
		}
		return some
	}
	return all
}

// deviceCalls returns the calls about GPUs that the exporter makes.
func deviceCalls(t *testing.T) (names []string) {
	t.Helper()
	m := newMachine(t, 2)
	p := m.start(t, "--collector.nvlink")
	eventually(t, p, m.allUp)
	eventually(t, p, func(harness.Metrics) error {
		if m.read(t).Functions["nvmlDeviceGetPowerUsage"].Calls < 3 {
			return errors.New("not all calls were made")
		}
		return nil
	})
	for name := range m.read(t).Functions {
		if strings.HasPrefix(name, "nvmlDevice") || name == "nvmlEventSetWait_v2" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	p.Stop(t)
	return names
}

// faultyMachine has four GPUs with a process each, whose memory stays.
func faultyMachine(t *testing.T) (*machine, *harness.Process) {
	t.Helper()
	m := newMachine(t, 4)
	for i := range m.GPUs {
		m.GPUs[i].Processes = append(m.GPUs[i].Processes, fakenvml.Process{PID: uint32(1000 + i), Memory: fakenvml.Ramp{Base: gib}})
	}
	p := m.start(t, "--nvml.timeout=1s", "--collector.nvlink")
	eventually(t, p, m.allUp)
	return m, p
}

// TestFaultsOfTheDriver has each call hang, be late and answer all errors, of one GPU and of all.
func TestFaultsOfTheDriver(t *testing.T) {
	calls := deviceCalls(t)
	list := draw(calls, fakenvml.NewNode(4).GPUs[1].UUID)
	t.Logf("%d faults of %d calls", len(list), len(calls))
	exporters := 4
	if *faultsAll {
		exporters = 8
	}
	for e := range exporters {
		t.Run(strconv.Itoa(e), func(t *testing.T) {
			t.Parallel()
			m, p := faultyMachine(t)
			for i := e; i < len(list); i += exporters {
				d := list[i]
				var others []int
				if d.one {
					others = []int{0, 2, 3}
				}
				k := m.suffer(t, p, d.kind, others, d.fault)
				k.judge(t, d.fault.String())
				faultRows.add(k)
			}
		})
	}
}

// TestFaultsAtRandom has several faults of two GPUs at once.
func TestFaultsAtRandom(t *testing.T) {
	t.Parallel()
	calls := deviceCalls(t)
	rounds := 10
	if *faultsAll {
		rounds = 200
	}
	m, p := faultyMachine(t)
	for round := range rounds {
		r := rand.New(rand.NewPCG(*faultsSeed, uint64(round+1))) //nolint:gosec // it can be drawn again
		var faults []fakenvml.Fault
		for range 2 + r.IntN(6) {
			call, uuid := calls[r.IntN(len(calls))], m.GPUs[1+r.IntN(2)].UUID
			f := []fakenvml.Fault{
				fakenvml.Hang(call), fakenvml.Late(call, time.Duration(r.IntN(500))*time.Millisecond), fakenvml.Fail(call, errorCodes[r.IntN(len(errorCodes))]),
				fakenvml.Fail(call, fakenvml.Uninitialized),
			}[r.IntN(4)]
			if r.IntN(3) == 0 {
				f = f.Times(uint64(1 + r.IntN(5)))
			}
			faults = append(faults, f.On(uuid))
		}
		k := m.suffer(t, p, "two GPUs: several of these at once", []int{0, 3}, faults...)
		faultRows.add(k)
		k.judge(t, fmt.Sprintf("round %d, seed %d: %v", round, *faultsSeed, faults))
	}
}
