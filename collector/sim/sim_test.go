// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simStart is the start of the scenarios in tests.
var simStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

var must, devicesOf, next = testkit.Must, testkit.Devices, testkit.Next

// simOf returns a scenario that never sleeps, and its devices.
func simOf(t *testing.T, name string, interval time.Duration) (*sim, []gpu.Device) {
	t.Helper()
	src, err := New(name, Options{Interval: interval, Speed: math.Inf(1), Start: simStart})
	devices := devicesOf(t, src, err)
	return src.(*sim), devices
}

// statusOf reads all groups of a device.
func statusOf(t *testing.T, d gpu.Device) *gpu.Status {
	t.Helper()
	st := new(gpu.Status)
	for _, g := range gpu.Groups {
		if err := d.ReadGroup(t.Context(), g, st); err != nil {
			t.Fatalf("%s: %v", g, err)
		}
	}
	return st
}

func TestNewSimErrors(t *testing.T) {
	for _, tc := range []struct {
		name, scenario, want string
		opt                  Options
	}{
		{"unknown", "nod", `unknown scenario "nod": choose one of node, healthy, faulty, crashloop`, Options{}},
		{"empty", "", `unknown scenario "": choose one of node, healthy, faulty, crashloop`, Options{}},
		{"speed", "node", "speed -2: must be above 0; 1 is real time, 60 a minute a second", Options{Speed: -2}},
	} {
		if _, err := New(tc.scenario, tc.opt); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error %v\nwant  %s", tc.name, err, tc.want)
		}
	}
}

// A scenario begins now and goes on in real time, if nothing else is said. The speed changes only how long it takes.
func TestSimSpeeds(t *testing.T) {
	var want []gpu.Sample
	for _, speed := range []float64{0, 1, 50, 1e6, math.Inf(1)} {
		synctest.Test(t, func(t *testing.T) {
			src, err := New("crashloop", Options{Speed: speed})
			d := devicesOf(t, src, err)[0]
			now := time.Now()
			var all []gpu.Sample
			for i := range 120 {
				s, at := next(t, d), time.Duration(i+1)*time.Second
				took := time.Duration(float64(at) / cmp.Or(speed, 1))
				if !s.Time.Equal(now.Add(at)) || time.Since(now) != took {
					t.Errorf("speed %g: sample at %v, read after %s, want %v after %s", speed, s.Time, time.Since(now), now.Add(at), took)
				}
				testkit.Equal(t, s.T, time.Duration(s.Time.UnixNano()), "T of %v", s.Time)
				all = append(all, s)
			}
			again, err := src.Devices(t.Context())
			if err != nil || again[0] != d {
				t.Errorf("other devices the second time: %v, %v", again, err)
			}
			if want == nil {
				want = all
			}
			testkit.Equal(t, all, want, "samples at speed %g", speed)
		})
	}
}

// TestScenarios holds every sample of every scenario to what a driver never
// breaks, in its first minutes and over ten days.
func TestScenarios(t *testing.T) {
	for _, name := range Scenarios() {
		for _, run := range []struct {
			name     string
			interval time.Duration
			samples  int
		}{{"first minutes", time.Second, 400}, {"days", 307 * time.Second, 3000}} {
			t.Run(name+"/"+run.name, func(t *testing.T) {
				t.Parallel()
				samples := run.samples
				if testing.Short() {
					samples /= 10
				}
				src, devices := simOf(t, name, run.interval)
				uuids, runs := map[string]bool{}, map[uint64]string{}
				for i, d := range devices {
					info := d.Info()
					if info.Index != i || uuids[info.UUID] || !strings.HasPrefix(info.UUID, "GPU-") {
						t.Errorf("device %d is %+v", i, info)
					}
					uuids[info.UUID] = true
					for k, p := range src.script.gpus[i].processes { // no two run the same
						if other, taken := runs[p.runs()]; taken {
							t.Errorf("process %d of GPU %d is named as %s", k, i, other)
						}
						runs[p.runs()] = fmt.Sprintf("process %d of GPU %d", k, i)
					}
					checkDevice(t, src.script.gpus[i], d.(*simDevice), samples)
				}
			})
		}
	}
}

// checkDevice reads a device for a while.
func checkDevice(t *testing.T, g *simGPU, d *simDevice, samples int) {
	t.Helper()
	g.faults.hangAfter, g.faults.lostAfter, g.faults.failEvery, g.faults.failGroup = 0, 0, 0, ""
	last := map[gpu.ProcessID]gpu.Process{}
	var before gpu.Sample
	var status gpu.Status
	for i := range samples {
		s := next(t, d)
		if i > 0 && (s.T-before.T != d.interval || s.Step != 0) {
			t.Fatalf("T went on by %v, want %v", s.T-before.T, d.interval)
		}
		before = s
		checkMemory(t, g, &s)
		last = checkProcesses(t, &s, last)
		if i%20 == 0 {
			now := *statusOf(t, d)
			checkStatus(t, &s, &status, &now)
			status = now
		}
		if t.Failed() {
			t.Fatalf("GPU %d at %v", d.Info().Index, s.Time)
		}
	}
}

// checkMemory checks that the parts of the memory add up, on the GPU and inside
// its instances.
func checkMemory(t *testing.T, g *simGPU, s *gpu.Sample) {
	t.Helper()
	inside := map[uint32]uint64{}
	var all uint64
	for _, p := range s.Processes {
		used := p.Used.V
		if !p.Used.OK {
			if s.ProcessesComplete {
				t.Errorf("complete with %+v", p)
			}
		}
		testkit.Equal(t, used%(2*mib), 0, "process %v uses %d bytes: the rest of 2 MiB", p.ID, used)
		inside[p.Instance.V] += used
		all += used
	}
	addUp := func(what string, m gpu.Memory, held uint64) {
		if m.Used.V+m.Free.V+m.Reserved.V != m.Total.V || m.Used.V > m.Total.V || m.Used.V%(2*mib) != 0 {
			t.Errorf("%s: %+v does not add up", what, m)
		}
		if held > m.Used.V {
			t.Errorf("%s: processes hold %d of %d used bytes", what, held, m.Used.V)
		}
	}
	addUp("GPU", s.Memory, all)
	testkit.Equal(t, s.Memory.Reserved.OK, (g.model != &simGTX), "reserved %+v", s.Memory.Reserved)
	var total uint64
	for i, in := range s.Instances {
		addUp(in.Profile, in.Memory, inside[in.ID])
		total += in.Memory.Total.V
		if i > 0 && in.ID <= s.Instances[i-1].ID {
			t.Errorf("instances are out of order: %+v", s.Instances)
		}
		if len(in.Devices) != 1 || !strings.HasPrefix(in.Devices[0].UUID, "MIG-") {
			t.Errorf("instance %+v", in)
		}
		delete(inside, in.ID)
	}
	if total > s.Memory.Total.V {
		t.Errorf("instances have %d of %d bytes", total, s.Memory.Total.V)
	}
	if len(s.Instances) > 0 && len(inside) > 0 {
		t.Errorf("processes on instances that are not there: %v", inside)
	}
	if s.MIGEnabled.OK != g.model.mig || s.MIGEnabled.V != (len(s.Instances) > 0) {
		t.Errorf("MIG %+v with %d instances", s.MIGEnabled, len(s.Instances))
	}
}

// checkProcesses checks the processes of a sample against those of the sample
// before, and returns them by identity.
func checkProcesses(t *testing.T, s *gpu.Sample, last map[gpu.ProcessID]gpu.Process) map[gpu.ProcessID]gpu.Process {
	t.Helper()
	now := map[gpu.ProcessID]gpu.Process{}
	pids := map[uint32]bool{}
	for i, p := range s.Processes {
		if i > 0 && gpu.CompareProcesses(s.Processes[i-1], p) >= 0 {
			t.Errorf("processes are out of order: %v before %v", s.Processes[i-1].ID, p.ID)
		}
		if pids[p.ID.PID] {
			t.Errorf("pid %d stands twice", p.ID.PID)
		}
		pids[p.ID.PID] = true
		now[p.ID] = p
		if !p.Started.OK || p.Started.V > s.T || gpu.TicksToTime(0, p.ID.Start) != p.Started.V {
			t.Errorf("%v started at %v, sampled at %v", p.ID, p.Started.V, s.T)
		}
		if p.Owner == nil || p.Owner.Process == "" || p.Owner.User == "" || p.Owner.Runs == 0 {
			t.Errorf("owner %+v", p.Owner)
		}
		for _, r := range []gpu.Opt[float64]{p.SM, p.MemoryController, p.Encoder, p.Decoder} {
			if !(r.V >= 0 && r.V <= 1) {
				t.Errorf("ratio %v of %v", r, p.ID)
			}
		}
		if old, ok := last[p.ID]; ok {
			if p.CPU.V < old.CPU.V || p.CPU.V-old.CPU.V > 8*time.Hour {
				t.Errorf("processor time went from %v to %v", old.CPU.V, p.CPU.V)
			}
			if p.Owner != old.Owner || p.Started != old.Started {
				t.Errorf("%v changed its owner or its start", p.ID)
			}
		}
	}
	return now
}

// checkStatus checks that what counts does not go back, and that gauges are
// those of a GPU.
func checkStatus(t *testing.T, s *gpu.Sample, old, now *gpu.Status) {
	t.Helper()
	for _, v := range []struct {
		name     string
		old, now float64
	}{
		{"energy", old.Power.Joules.V, now.Power.Joules.V},
		{"received", float64(old.PCIe.ReceivedBytes.V), float64(now.PCIe.ReceivedBytes.V)},
		{"replays", float64(old.PCIe.Replays.V), float64(now.PCIe.Replays.V)},
	} {
		if v.now < v.old {
			t.Errorf("%s went from %v to %v", v.name, v.old, v.now)
		}
	}
	u := now.Utilization
	if len(s.Instances) > 0 && u != (gpu.Utilization{}) {
		t.Errorf("utilisation %+v of a GPU in MIG mode", u)
	}
	if !(u.GPU.V >= 0 && u.GPU.V <= 1) {
		t.Errorf("utilisation %+v", u)
	}
	if w := now.Power.Watts.V; !(w > 5 && w <= now.Power.Limits[0].V) {
		t.Errorf("power %v W of %v", w, now.Power.Limits)
	}
	if c := now.Thermal.Temperatures[0].V; !(c > 20 && c < 95) {
		t.Errorf("%v °C", c)
	}
	if b := now.BAR1; b.Used.V > b.Total.V {
		t.Errorf("BAR1 %+v", b)
	}
}

// TestSimDies checks the figures that the scenario of a crash loop promises.
func TestSimDies(t *testing.T) {
	_, devices := simOf(t, "crashloop", time.Second)
	d := devices[0].(*simDevice)
	used := func(at time.Duration) uint64 {
		d.at = at - time.Second
		s := next(t, d)
		if len(s.Processes) == 0 {
			return 0
		}
		return s.Processes[0].Used.V
	}
	base := used(30 * time.Second)
	testkit.Equal(t, used(time.Minute), base, "memory after a minute")
	testkit.Equal(t, float64(used(11*time.Minute)-base)/10, 600*mib, "leaks bytes a minute")
	first := next(t, d)
	full := used(17*time.Minute - time.Second)
	if free := uint64(simT4.capacity()) - simBaseline - full; free > 10*mib {
		t.Errorf("%d bytes are free a second before the end", free)
	}
	if used(17*time.Minute) != 0 || used(18*time.Minute-time.Second) != 0 {
		t.Error("lives on without memory")
	}
	testkit.Equal(t, used(18*time.Minute+30*time.Second), base, "memory after it started again")
	second := next(t, d)
	if a, b := first.Processes[0], second.Processes[0]; a.ID == b.ID || a.Owner.ContainerID == b.Owner.ContainerID || a.Owner.Pod != b.Owner.Pod || a.Owner.Runs != b.Owner.Runs {
		t.Errorf("first run %+v %+v, second run %+v %+v", a.ID, a.Owner, b.ID, b.Owner)
	}
}

func TestSimFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const speed = 60
		src, err := New("faulty", Options{Speed: speed, Start: simStart})
		devices := devicesOf(t, src, err)
		var events []gpu.Event
		begin := time.Now()
		report := func(e gpu.Event) {
			events = append(events, e)
			if late := time.Since(begin) - e.Time.Sub(simStart)/speed; e.Kind == gpu.XIDError && late.Abs() > time.Millisecond {
				t.Errorf("%+v is reported %s late", e, late)
			}
		}
		watched := make(chan error)
		go func() { watched <- src.Watch(t.Context(), report) }()

		hung, lost := devices[1], devices[2]
		for range 119 {
			next(t, hung)
		}
		got := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := hung.Wait(ctx)
			if err == nil {
				_, err = hung.Read(ctx)
			}
			got <- err
		}()
		time.Sleep(2 * time.Second)
		cancel() // a driver does not care
		time.Sleep(time.Hour)
		if flight := src.Calls().Snapshot().InFlight; len(flight) != 1 || flight[0].UUID != hung.Info().UUID || flight[0].Call != "sim_read" {
			t.Errorf("calls under way: %+v", flight)
		}
		for range 179 {
			next(t, lost)
		}
		_, err = lost.Wait(t.Context())
		must(t, err)
		if _, err := lost.Read(t.Context()); !errors.Is(err, gpu.ErrLost) {
			t.Errorf("lost GPU: %v", err)
		}
		if err := lost.ReadGroup(t.Context(), gpu.GroupPower, new(gpu.Status)); !errors.Is(err, gpu.ErrLost) {
			t.Errorf("lost GPU: %v", err)
		}
		src.Close()
		if err := <-got; !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("hung read: %v", err)
		}
		if err := <-watched; err != nil {
			t.Errorf("Watch: %v", err)
		}
		want := []gpu.Event{
			{Kind: gpu.XIDError, Time: simStart.Add(90 * time.Second), UUID: devices[3].Info().UUID, PCIBusID: devices[3].Info().PCIBusID, XID: 94},
			{Kind: gpu.XIDError, Time: simStart.Add(91 * time.Second), UUID: devices[3].Info().UUID, PCIBusID: devices[3].Info().PCIBusID, XID: 63},
			{Kind: gpu.XIDError, Time: simStart.Add(3 * time.Minute), UUID: lost.Info().UUID, PCIBusID: lost.Info().PCIBusID, XID: 79},
		}
		for i, d := range devices {
			if e := events[i]; e.Kind != gpu.Watched || e.UUID != d.Info().UUID {
				t.Errorf("event %d: %+v, want that GPU %d is watched", i, e, i)
			}
		}
		testkit.Equal(t, events[len(devices):], want, "events")
		if _, err := src.Devices(t.Context()); !errors.Is(err, gpu.ErrClosed) {
			t.Errorf("Devices after Close: %v", err)
		}
	})
}

// TestSimFaultyStatus checks what the faults look like.
func TestSimFaultyStatus(t *testing.T) {
	_, devices := simOf(t, "faulty", time.Second)
	for _, d := range devices {
		d.(*simDevice).at = 100 * time.Second
	}
	ecc := statusOf(t, devices[3]).ECC
	if !ecc.RemapPending.V || ecc.Errors[1].Count != 1 || ecc.RecoveryAction.V != 1 {
		t.Errorf("ECC %+v", ecc)
	}
	thermal := statusOf(t, devices[4]).Thermal
	if e := thermal.ClockEvents[3]; e.Reason != "sw_thermal_slowdown" || !e.Active.V || e.Seconds.V != 40 {
		t.Errorf("clock event %+v", e)
	}
	if s := next(t, devices[5]); s.ProcessesComplete {
		t.Error("complete although the memory of a process is unknown")
	}
	old := statusOf(t, devices[6])
	if old.ECC.Enabled.OK || old.Utilization.GPU.OK || old.Power.Joules.OK || next(t, devices[6]).Memory.Reserved.OK {
		t.Errorf("consumer card %+v", old)
	}
	if err := devices[7].ReadGroup(t.Context(), gpu.GroupPCIe, new(gpu.Status)); err == nil {
		t.Error("PCIe of the last GPU does not fail")
	}
	failed := 0
	for range 80 {
		_, err := devices[7].Wait(t.Context())
		must(t, err)
		if _, err := devices[7].Read(t.Context()); err != nil {
			failed++
		}
	}
	testkit.Equal(t, failed, 2, "of 80 readings failed")
	var sum uint64
	for _, e := range devices[7].(*simDevice).src.Calls().Snapshot().Errors {
		sum += e.Count
	}
	testkit.Equal(t, sum, 3, "errors counted")
}

// TestSimPIDs checks that pids stay in Linux's range and that none is handed out
// twice in a row of runs.
func TestSimPIDs(t *testing.T) {
	p := &simProcess{id: 64, script: &script{processes: 65}}
	seen := map[uint32]bool{}
	for run := range uint64(60000) {
		pid := p.pid(run)
		if pid < 300 || pid >= 1<<22 || seen[pid] {
			t.Fatalf("pid %d of run %d", pid, run)
		}
		seen[pid] = true
	}
	if pid := p.pid(math.MaxUint64 / 128); pid < 300 || pid >= 1<<22 {
		t.Errorf("pid %d of a late run", pid)
	}
}

func TestSimContext(t *testing.T) {
	src, devices := simOf(t, "crashloop", time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := devices[0].Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := devices[0].Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Read: %v", err)
	}
	if _, err := src.Devices(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Devices: %v", err)
	}
	must(t, src.Watch(ctx, func(gpu.Event) {}))
	src.Close()
	if _, err := devices[0].Wait(t.Context()); !errors.Is(err, gpu.ErrClosed) || errors.Is(err, io.EOF) {
		t.Errorf("Wait after Close: %v", err)
	}
	if _, err := devices[0].Read(t.Context()); !errors.Is(err, gpu.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
}

// churnScript is a server that leaks beside 64 workers that start and end all the time.
func churnScript() *script {
	b := &script{name: "churn"}
	const each = 300 * mib
	leak := leaker(pod("default", "router-0", "router", "router.py", "app"), 20*time.Minute, 2*gib, 40*mib, 30*gib)
	leak.start = -10 * time.Minute
	processes := []*simProcess{leak}
	for i := range 64 {
		life := 1500*time.Millisecond + time.Duration(i)*80*time.Millisecond
		processes = append(processes, &simProcess{
			owner: job(strconv.Itoa(60000+i), "render", "farm"), start: -time.Duration(i) * 70 * time.Millisecond,
			life: life, gap: 500 * time.Millisecond,
			shape: sum(flat(each), load(each, life)), sm: 0.01, cores: 0.9,
		})
	}
	b.add(&simA100, processes...)
	return b
}

// newDomain returns a detector with its defaults.
func newDomain(t *testing.T) *detector.Domain[gpu.ProcessID] {
	t.Helper()
	d, err := detector.NewDomain(func(detector.Subject[gpu.ProcessID]) detector.Config { return detector.DefaultConfig() })
	must(t, err)
	return d
}

// TestSimVerdicts lets the detector look at the scenarios: it finds each leak within
// 20 minutes of its beginning, steady ones within 13, and no other.
func TestSimVerdicts(t *testing.T) {
	for _, tt := range []struct {
		scenario string
		minutes  int
		// When the leak of a process begins and by when it must have been found, in
		// minutes.
		leaks map[string][2]int
	}{
		{"node", 40, map[string][2]int{"serve.py": {10, 23}, "gateway.py": {10, 30}, "detect.py": {10, 30}, "agent.py": {10, 23}, "python3.12 of carol": {12, 25}}},
		{"healthy", 240, nil},
		{"short-lived neighbours", 30, map[string][2]int{"router.py": {10, 23}}},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			var devices []gpu.Device
			if tt.scenario == "short-lived neighbours" {
				p, err := gpu.NewPace(math.Inf(1))
				must(t, err)
				devices = devicesOf(t, newSource(churnScript(), Options{Interval: 2 * time.Second, Start: simStart}, p), nil)
			} else {
				_, devices = simOf(t, tt.scenario, 2*time.Second)
			}
			found := map[string]bool{}
			for _, d := range devices {
				watch(t, d, tt.minutes*30, func(p *gpu.Process, at time.Duration) {
					name := p.Owner.Process
					if more := " of " + p.Owner.User; tt.leaks[name+more] != [2]int{} {
						name += more
					}
					span, ok := tt.leaks[name]
					if begins, by := time.Duration(span[0])*time.Minute, time.Duration(span[1])*time.Minute; !ok || at < begins || !found[name] && at > by {
						t.Fatalf("%s leaks at %v", name, at)
					}
					found[name] = true
				})
			}
			testkit.Equal(t, len(found), len(tt.leaks), "leaks in %v", found)
		})
	}
}

// TestSimCrashLoop lets the detector look at a pod that leaks, dies and is started again:
// from its second death on the GPU leaks, and so does the pod while it has a process.
func TestSimCrashLoop(t *testing.T) {
	_, devices := simOf(t, "crashloop", 2*time.Second)
	d := newDomain(t)
	var frames finding.Frames
	deaths, lived := 0, true
	for range 130 * 30 {
		s := next(t, devices[0])
		if lives := len(s.Processes) > 0; lives != lived {
			lived = lives
			if !lives {
				deaths++
			}
		}
		frame, _ := frames.Device(devices[0].Info(), &s)
		must(t, d.Observe(frame))
		j := d.Judgement()
		if len(j.Members) > 0 && j.Members[0].Leak {
			t.Fatalf("the process leaks by itself after %v: no crash loop is needed to find it", s.Time.Sub(simStart))
		}
		found := len(j.Groups) == 1 && j.Groups[0].Leak && j.Groups[0].Group == "default/crashy-0"
		if want := deaths >= 2; j.Device.Leak != want || found != (want && lived) {
			t.Fatalf("after %v and %d deaths: the GPU leaks: %t, the pod: %t", s.Time.Sub(simStart), deaths, j.Device.Leak, found)
		}
	}
	if deaths < 4 {
		t.Errorf("died %d times", deaths)
	}
}

// watch feeds that many samples of a device, and of its instances, to the detector
// and calls leaks for each verdict on a process that leaks.
func watch(t *testing.T, d gpu.Device, samples int, leaks func(p *gpu.Process, at time.Duration)) {
	t.Helper()
	domains := map[uint32]*detector.Domain[gpu.ProcessID]{}
	const whole = math.MaxUint32 // no instance has that number
	var frames finding.Frames
	for range samples {
		s := next(t, d)
		observe := func(id uint32, frame *detector.Frame[gpu.ProcessID], index []int) {
			if domains[id] == nil {
				domains[id] = newDomain(t)
			}
			must(t, domains[id].Observe(frame))
			j := domains[id].Judgement()
			leaking := false
			for i := range j.Members {
				if j.Members[i].Leak {
					leaking = true
					leaks(&s.Processes[index[i]], s.Time.Sub(simStart))
				}
			}
			if j.Device.Leak && !leaking {
				t.Fatalf("%s leaks at %v, and none of its processes", d.Info().UUID, s.Time.Sub(simStart))
			}
		}
		if len(s.Instances) == 0 {
			frame, index := frames.Device(d.Info(), &s)
			observe(whole, frame, index)
		}
		for i := range s.Instances {
			in := &s.Instances[i]
			frame, index := frames.Part(d.Info(), &s, in.Memory, in.Profile, func(p *gpu.Process) bool { return p.Instance == gpu.Some(in.ID) })
			observe(in.ID, frame, index)
		}
	}
}

// TestSimNode lets the detector look at the GPU of the busy node on which a process
// is a zombie, and another one leaves memory behind when it ends.
func TestSimNode(t *testing.T) {
	src, devices := simOf(t, "node", time.Second)
	const gpu = 3
	zombie, leaves := src.script.gpus[gpu].processes[2], src.script.gpus[gpu].processes[3]
	d := newDomain(t)
	var frames finding.Frames
	for s := 1; s <= 900; s++ {
		sample := next(t, devices[gpu])
		frame, index := frames.Device(devices[gpu].Info(), &sample)
		must(t, d.Observe(frame))
		// Its first run ends after 2 minutes, and the next one begins after 12.
		j := d.Judgement()
		stays := s >= 180 && s <= 720
		if len(j.Unreleased) != 0 != stays {
			t.Fatalf("second %d: %+v stays", s, j.Unreleased)
		}
		if stays && (j.Unreleased[0].Key.PID != leaves.pid(0) || j.Unreleased[0].Used != float64(leaves.keeps)) {
			t.Fatalf("second %d: %+v stays", s, j.Unreleased)
		}
		for i := range j.Members {
			is := sample.Processes[index[i]].ID.PID == zombie.pid(0)
			if called := j.Members[i].Pattern == detector.PatternZombie; called != (is && s >= 601) {
				t.Fatalf("second %d: %s is %q", s, sample.Processes[index[i]].Owner.Process, j.Members[i].Pattern)
			}
		}
	}
}
