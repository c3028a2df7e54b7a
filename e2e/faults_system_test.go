// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// allGPUs are those of a faultyMachine.
var allGPUs = []int{0, 1, 2, 3}

// through watches an exporter while something goes on around it, and until it is ready again. well are the GPUs that lose
// nothing by it.
func (m *machine) through(t *testing.T, p *harness.Process, name string, well []int, begin, end func(), ready func(harness.Metrics) error) {
	t.Helper()
	k := &faultKind{Name: name, faults: 1}
	healthy := m.follow(t, p, eventually(t, p, ready), well)
	begin()
	k.watch(t, p, 2*faultTime, nil)
	end()
	cleared := time.Now()
	after := eventually(t, p, ready)
	k.recovery = time.Since(cleared)
	healthy.note(t, after, k)
	k.judge(t, name)
	faultRows.add(k)
}

// TestFaultsOfTheLibrary has the library end the process. Another one serves at once, and goes on from the state file.
func TestFaultsOfTheLibrary(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakenvml.Fault{
		"driver: its library aborts": fakenvml.Abort("nvmlDeviceGetMemoryInfo_v2"), "driver: its library uses a wild pointer": fakenvml.Segv("nvmlDeviceGetMemoryInfo_v2"),
	} {
		m, first := faultyMachine(t)
		first.Stop(t)
		state := filepath.Join(t.TempDir(), "state")
		link(t, "/proc/sys/kernel/random/boot_id", filepath.Join(m.procfs, "sys/kernel/random/boot_id"))
		args := []string{"--detector.state-file=" + state, "--detector.state-interval=1s"}
		ready := func(s harness.Metrics) error {
			return errors.Join(m.allUp(s), want(s, 1, "gpu_leak_exporter_state_file_last_write_successful", nil))
		}
		k := &faultKind{Name: name}
		for range 5 {
			m.calls += "2" // one file a process
			p := m.start(t, args...)
			eventually(t, p, ready)
			k.faults++
			m.Faults = []fakenvml.Fault{fault}
			m.apply(t)
			if code := p.Wait(t, patience); code == 0 {
				t.Errorf("%s: the process ended with 0", name)
			}
			m.Faults = nil
			m.apply(t)
			m.calls += "2"
			restarted := time.Now()
			p = m.start(t, args...)
			eventually(t, p, m.allUp)
			k.recovery = max(k.recovery, time.Since(restarted))
			k.watch(t, p, faultTime/3, nil)
			if !strings.Contains(p.Output(), "going on from the state file") {
				t.Errorf("%s: the histories are lost", name)
			}
			p.Stop(t)
		}
		k.judge(t, name)
		faultRows.add(k)
	}
}

// TestFaultsOfTheStandstill has the exporter stand still, as in a suspend or where its control group is frozen.
func TestFaultsOfTheStandstill(t *testing.T) {
	t.Parallel()
	m, p := faultyMachine(t)
	signal := func(s syscall.Signal) {
		if err := p.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	k := &faultKind{Name: "host: the exporter stands still for 3 s", faults: 1}
	eventually(t, p, m.allUp)
	signal(syscall.SIGSTOP)
	time.Sleep(2 * faultTime)
	signal(syscall.SIGCONT)
	resumed := time.Now()
	eventually(t, p, m.allUp)
	k.recovery = time.Since(resumed)
	k.watch(t, p, faultTime, nil)
	k.judge(t, k.Name)
	faultRows.add(k)
	p.Stop(t)
	noStack(t, p.Output())
}

// TestFaultsOfTheSockets has the container runtime and the kubelet hang, flood and lie.
func TestFaultsOfTheSockets(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]func(net.Conn){
		"sockets: runtime and kubelet accept, and say nothing": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"sockets: runtime and kubelet flood": func(c net.Conn) {
			for _, err := c.Write(make([]byte, 1<<16)); err == nil; _, err = c.Write(make([]byte, 1<<16)) {
			}
		},
		"sockets: runtime and kubelet hang up": func(c net.Conn) { _ = c.Close() },
	} {
		m, first := faultyMachine(t)
		first.Stop(t)
		m.calls += "2"
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); talk(c) }()
			}
		}()
		p := m.start(t, "--collector.workload.cri-socket="+socket, "--collector.workload.pod-resources-socket="+socket, "--nvml.timeout=1s")
		m.through(t, p, name, allGPUs, func() {}, func() {}, m.allUp)
		endsPromptly(t, p)
		_ = l.Close()
		noStack(t, p.Output())
	}
}

// TestFaultsOfAKubelet has a kubelet allot a hundred thousand devices that are not there, to pods with long names.
func TestFaultsOfAKubelet(t *testing.T) {
	t.Parallel()
	k, socket := startKubelet(t)
	m, first := faultyMachine(t)
	first.Stop(t)
	m.calls += "2"
	p := m.start(t, "--collector.workload.pod-resources-socket="+socket)
	m.through(t, p, "sockets: a kubelet allots 100,000 devices that are not there", allGPUs, func() {
		for i := range 1000 {
			var ids []string
			for n := range 100 {
				ids = append(ids, fmt.Sprintf("GPU-nobody-%d-%d", i, n))
			}
			k.allot(container{strings.Repeat("n", 1000), "pod-" + strconv.Itoa(i), "c"}, ids...)
		}
	}, k.free, m.allUp)
	p.Stop(t)
	noStack(t, p.Output())
}

// TestFaultsOfTheConfiguration has the rules be wrong, gone and huge when they are read again.
func TestFaultsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	m, first := faultyMachine(t)
	first.Stop(t)
	m.calls += "2"
	file := filepath.Join(t.TempDir(), "rules.yml")
	write(t, file, noRules)
	p := m.start(t, "--detector.config="+file)
	ready := func(s harness.Metrics) error { return errors.Join(m.allUp(s), reloaded(s, 1)) }
	for name, spoil := range map[string]func(){
		"configuration: the rules are wrong":  func() { write(t, file, badRules) },
		"configuration: the rules are gone":   func() { _ = os.Remove(file) },
		"configuration: the rules are 64 MiB": func() { write(t, file, "groups:\n"+strings.Repeat("- name: test\n", 5_000_000)) },
		"configuration: the rules are endless": func() {
			_ = os.Remove(file)
			_ = os.Symlink("/dev/zero", file)
		},
	} {
		m.through(t, p, name, allGPUs, func() {
			spoil()
			hangUp(t, p)
			eventually(t, p, func(s harness.Metrics) error { return reloaded(s, 0) })
		}, func() {
			_ = os.Remove(file)
			write(t, file, noRules)
			hangUp(t, p)
		}, ready)
	}
	p.Stop(t)
	noStack(t, p.Output())
}

// TestFaultsOfTheTool gives backtest what cannot be read. It says so in a line.
func TestFaultsOfTheTool(t *testing.T) {
	t.Parallel()
	lie := func(body string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for first := true; first || body == ""; first = false {
				text := body
				if text == "" {
					text = strings.Repeat(" ", 1<<16)
				}
				if _, err := io.WriteString(w, text); err != nil || r.Context().Err() != nil {
					return
				}
			}
		}))
	}
	dir := t.TempDir()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprintln(z, "timestamp, index, uuid, memory.used [MiB], memory.total [MiB]")
	for i := range 1000 {
		fmt.Fprintf(z, "2026/03/01 00:%02d:%02d.000, 0, GPU-a, %d MiB, 81920 MiB\n", i/60, i%60, i)
	}
	_ = z.Close()
	write(t, filepath.Join(dir, "cut.csv.gz"), zipped.String()[:zipped.Len()/2])
	write(t, filepath.Join(dir, "lie.csv"), "timestamp, index, uuid, memory.used [MiB], memory.total [MiB]\n2026/03/01 00:00:00.000, 0, GPU-a, 99999999999999999999 MiB, -3 MiB\n")
	endless, liar := lie(""), lie(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"NaN"]]}]}}`)
	defer endless.Close()
	defer liar.Close()
	prometheus := func(s *httptest.Server) []string {
		return []string{"--prometheus.url=" + s.URL, "--query=x_bytes", "--start=-1h"}
	}
	for name, args := range map[string][]string{
		"tool: an endless file":                 {"/dev/zero"},
		"tool: a file that is cut":              {filepath.Join(dir, "cut.csv.gz")},
		"tool: a file with impossible memory":   {filepath.Join(dir, "lie.csv")},
		"tool: an endless answer of Prometheus": prometheus(endless),
		"tool: a Prometheus that lies":          prometheus(liar),
	} {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, harness.Tool(t), append([]string{"backtest"}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		cancel()
		code, lines := cmd.ProcessState.ExitCode(), strings.Count(stderr.String(), "\n")
		resident := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
		t.Logf("%s: exit code %d (%v) after %s, %d MiB: %s", name, code, err, time.Since(began).Round(time.Millisecond), resident, stderr.String())
		most := int64(2048)
		if os.Getenv("E2E_RACE") != "" {
			most *= 4 // the race detector keeps several bytes for each
		}
		if code != 2 || lines != 1 || resident > most {
			t.Errorf("%s: exit code %d, %d MiB, %d lines: %s", name, code, resident, lines, stderr.String())
		}
		faultRows.add(&faultKind{Name: name, faults: 1, said: fmt.Sprintf("ends with %d and a line, %d MiB", code, resident)})
	}
}

var (
	scheduleLine = regexp.MustCompile(`(\d+) troubles, (\d+) samples, (\d+) scrapes, worst recovery ([0-9.a-z]+),`)
	hoursOf      = []struct{ name, kinds string }{
		{"simulated hours: all of these at random", ""},
		{"simulated hours: the clock is set by 5 s, an hour or a day, forward or back", "clock"},
		{"simulated hours: the exporter is killed, or stopped, with an active leak", "kill,stop"},
	}
)

// TestFaultsOfSimulatedHours puts the schedules of faults of collector/gpu/nvml into the table: the driver, the clock, the
// state file and the exporter's process have troubles, in the same code, in simulated time.
func TestFaultsOfSimulatedHours(t *testing.T) {
	schedules := 2
	if *faultsAll {
		schedules = 100
	}
	for _, h := range hoursOf {
		n := schedules
		if h.kinds != "" {
			n = (schedules + 1) / 2
		}
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-timeout=1h", "-run=^TestSchedules$", "./collector/gpu/nvml",
			fmt.Sprintf("-schedules=%d", n), "-schedules.time=1h", fmt.Sprintf("-schedules.seed=%d", *faultsSeed), "-schedules.kinds="+h.kinds)
		cmd.Dir = harness.Root()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		k := &faultKind{Name: h.name}
		for _, m := range scheduleLine.FindAllStringSubmatch(string(out), -1) {
			count := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
			k.faults += count(1)
			k.taken += float64(count(2))
			k.scrapes += count(3)
			took, _ := time.ParseDuration(m[4])
			k.recovery = max(k.recovery, took)
		}
		if k.answered = k.scrapes; k.scrapes == 0 {
			t.Errorf("no schedule:\n%s", out)
		}
		faultRows.add(k)
	}
}
