// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// A schedule of an hour takes two seconds, and with the race detector ten times as long: make test runs some minutes
// without it, and make ci-nightly hours.
var (
	schedules = flag.Int("schedules", 2, "how many schedules of faults TestSchedules tries")
	length    = flag.Duration("schedules.time", 5*time.Minute, "how long a schedule lasts, of simulated time")
	only      = flag.String("schedules.kinds", "", "the kinds of trouble, divided by commas; all if empty")
	firstSeed = flag.Uint64("schedules.seed", 1, "what the first schedule is drawn by; the next ones by the numbers that follow")
)

const (
	// simInterval is that of the samples, simSlow the one at which the driver is asked for its GPUs, and simTimeout
	// how long a call may take.
	simInterval = time.Second
	simSlow     = 15 * time.Second
	simTimeout  = 10 * time.Second
	simState    = 30 * time.Second
	// recoverySample and recoveryInit are how soon after its last fault a GPU must be up: within two samples, and
	// within the time between two questions for the GPUs where it has to be found again.
	recoverySample = 2 * simInterval
	recoveryInit   = simSlow + 2*simInterval
	// sick are the GPUs that faults of one GPU may meet; the others are well.
	sickFirst, sickLast = 1, 2

	// leaking is the GPU whose process leaks, from then on and by so many bytes a second.
	leaking   = 3
	leakAfter = 10 * time.Minute
	leakRate  = 3 << 20
)

// planted is a trouble that nothing is to be forgiven for.
const planted = "planted"

// trouble is one entry of a schedule.
type trouble struct {
	at, lasts time.Duration
	kind      string
	gpu       int // -1: all
	call      string
	code      nvml.Return
	n         int // which lie, how late in ms, or how far the clock is set in s
}

// identity are the calls by which GPUs are found: after a fault of them a GPU may have to be found again.
var identity = []string{entry, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "nvmlDeviceGetCount_v2", "nvmlDeviceGetName", "*"}

// finds reports whether a GPU may have to be found again after it.
func (x trouble) finds() bool {
	return slices.Contains(identity, x.call) || x.kind == "reload" || x.kind == "swap" ||
		slices.Contains([]outcome{lost, down}, classify(x.code, nil))
}

// initialises reports whether the library may have to be initialised again after it.
func (x trouble) initialises() bool {
	return x.call == entry || x.kind == "reload" || x.kind == "swap" || classify(x.code, nil) == down
}

// drawSchedule returns the troubles of a schedule, ordered by their beginning.
func drawSchedule(seed uint64) (list []trouble) {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it can be drawn again
	var codes []nvml.Return
	for code := range returnNames {
		if code != nvml.SUCCESS {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	calls := slices.DeleteFunc(slices.Clone(offered), func(call string) bool { return call == "nvmlShutdown" })
	kinds := []string{"error", "error", "error", "error", "hang", "hang", "late", "late", "lie", "lost", "list", "clock", "reload", "swap", "kill", "stop", "disk"}
	for at := 30 * time.Second; at < *length-2*time.Minute; at += time.Duration(r.IntN(24_000)) * time.Millisecond {
		x := trouble{at: at, kind: kinds[r.IntN(len(kinds))], gpu: sickFirst + r.IntN(sickLast-sickFirst+1)}
		x.lasts = time.Duration(1+r.IntN(10_000)) * time.Millisecond
		if r.IntN(5) == 0 {
			x.lasts *= 6
		}
		x.call = calls[r.IntN(len(calls))]
		switch x.kind {
		case "error":
			x.code = codes[r.IntN(len(codes))]
		case "late":
			x.n = 1 + r.IntN(3000)
		case "lie":
			x.call, x.n = "nvmlDeviceGetMemoryInfo_v2", 1+r.IntN(4)
		case "lost":
			x.call, x.code = "nvmlDevice*", nvml.ERROR_GPU_IS_LOST
		case "clock":
			x.n = []int{5, 3600, 86400, -5, -3600, -86400}[r.IntN(6)]
		}
		switch {
		case slices.Contains([]string{"clock", "reload", "swap", "kill", "stop", "disk"}, x.kind):
			x.gpu = -1
			if x.kind != "clock" {
				x.call = ""
			}
		case r.IntN(6) == 0 || !strings.HasPrefix(x.call, "nvmlDevice") || x.call == "nvmlDeviceGetCount_v2":
			x.gpu = -1
		}
		if x.kind == "clock" || x.kind == "list" {
			x.call = ""
		}
		// In every other schedule the GPUs that are well stay so, and the leak is there to be found.
		if seed%2 == 0 && x.concerns(leaking) {
			continue
		}
		if *only != "" && !slices.Contains(strings.Split(*only, ","), x.kind) {
			continue
		}
		if x.kind == "kill" || x.kind == "stop" || x.kind == "clock" {
			x.lasts = 0
		}
		list = append(list, x)
	}
	return list
}

// world is an exporter on a node, with what must hold of it.
type world struct {
	node      *simNode
	proc, dir string
	stepped   atomic.Int64    // how far the wall clock was set, a time.Duration
	steppedAt time.Time       // when that was, last
	listless  [4]atomic.Int32 // how many faults keep a GPU's list of processes back
	sampler   *sampler.Sampler
	library   *simLibrary
	gather    *prometheus.Registry
	end       func()
	// now are the troubles that are there, by their number.
	now    map[int]trouble
	faults map[int]*simFault
	gpus   [4]gpuRecord
	// leakKept is since when the leak is found without a break, and the state file can be written.
	leakKept time.Time
	seen     summary
}

// gpuRecord is what is to be held against a GPU.
type gpuRecord struct {
	calm   time.Time // since when nothing concerns it; zero while something does
	finds  bool      // it may have to be found again since
	init   bool      // the library may have to be initialised again since
	up     bool      // it was up since
	missed uint64
}

// summary is what a schedule has shown.
type summary struct {
	troubles, samples, scrapes int
	recovery                   time.Duration
	leakFound                  bool
}

// wall is how far the wall clock was set.
func (w *world) wall() time.Duration { return time.Duration(w.stepped.Load()) }

// simDevice adds to a GPU what the simulated library cannot tell: processes, and a wall clock that is set.
type simDevice struct {
	gpu.Device
	world   *world
	index   int
	stepped time.Duration
}

func (d *simDevice) Read(ctx context.Context) (gpu.Sample, error) {
	s, err := d.Device.Read(ctx)
	if err != nil {
		return s, err
	}
	stepped := d.world.wall()
	s.Step, d.stepped = stepped-d.stepped, stepped
	s.Time = s.Time.Add(d.stepped)
	pid := uint32(100 + d.index)
	used := gpu.Some(d.world.node.gpu(d.index).used() - 1<<30)
	complete := d.world.listless[d.index].Load() == 0
	if !complete {
		used = gpu.Opt[uint64]{}
	}
	s.Processes = []gpu.Process{{
		ID: gpu.ProcessID{PID: pid, Start: uint64(pid)}, Type: gpu.Compute, Used: used, SM: gpu.Some(0.5), Started: gpu.Some(simBegan - time.Hour),
	}}
	s.ProcessesKnown, s.ProcessesComplete = true, complete
	return s, nil
}

// simBegan is when the clock of every bubble begins.
const simBegan = 946684800 * time.Second

// gpu returns the GPU of that number, wherever it stands in the driver's list.
func (n *simNode) gpu(i int) *simGPU {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.IndexFunc(n.gpus, func(g *simGPU) bool { return g.uuid == simUUID(i) })
	return n.gpus[at]
}

func simUUID(i int) string { return fmt.Sprintf("GPU-%d", i) }

// simSource hands out the devices of a source as simDevices.
type simSource struct {
	*Source
	world   *world
	devices map[gpu.Device]*simDevice
}

func (s *simSource) Devices(ctx context.Context) ([]gpu.Device, error) {
	list, err := s.Source.Devices(ctx)
	for i, d := range list {
		if s.devices[d] == nil {
			index := int(d.Info().UUID[len("GPU-")] - '0')
			s.devices[d] = &simDevice{Device: d, world: s.world, index: index, stepped: s.world.wall()}
		}
		list[i] = s.devices[d]
	}
	return list, err
}

// newWorld has four GPUs: one whose memory is flat, one where it goes up and down, one that is nearly empty,
// and one whose process leaks.
func newWorld(dir string) *world {
	w := &world{dir: dir, proc: filepath.Join(dir, "proc"), now: map[int]trouble{}, faults: map[int]*simFault{}}
	began := time.Now()
	since := func() time.Duration { return time.Since(began) }
	w.node = &simNode{loaded: 1, loads: 1, faults: map[*simFault]bool{}, gpus: []*simGPU{
		{uuid: simUUID(0), used: func() uint64 { return 20 << 30 }},
		{uuid: simUUID(1), used: func() uint64 { return 10<<30 + uint64(since()%(5*time.Minute)/time.Second)*(8<<20) }},
		{uuid: simUUID(2), used: func() uint64 { return 2 << 30 }},
		{uuid: simUUID(leaking), used: func() uint64 { return 5<<30 + uint64(max(0, since()-leakAfter)/time.Second)*leakRate }},
	}}
	for i := range w.gpus {
		w.gpus[i] = gpuRecord{calm: began, finds: true}
	}
	return w
}

func (w *world) stateFile() string { return filepath.Join(w.dir, "state", "state") }

// start starts an exporter.
func (w *world) start() error {
	source, l, err := newSimSource(w.node, Config{Interval: simInterval, Timeout: simTimeout, ProcFS: w.proc, SysFS: w.proc, KernelLog: w.proc})
	if err != nil {
		return err
	}
	s, err := sampler.New(&simSource{source, w, map[gpu.Device]*simDevice{}}, sampler.Config{
		SlowInterval: simSlow, Timeout: simTimeout, ProcessMax: 64, Groups: []gpu.Group{gpu.GroupUtilization, gpu.GroupPower},
		Detector: detector.DefaultConfig(), ProcFS: w.proc, StateFile: w.stateFile(), StateInterval: simState,
	})
	if err != nil {
		return err
	}
	c, err := collector.New(s.State, collector.Options{})
	if err != nil {
		return err
	}
	w.sampler, w.library, w.gather = s, l, prometheus.NewRegistry()
	if err := w.gather.Register(c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	w.end = func() {
		cancel()
		<-done
		_ = source.Close() // it may say that a call hangs
	}
	return nil
}

// restart ends the exporter and starts another one. One that is killed leaves the state file as it is.
func (w *world) restart(kill bool) error {
	before, err := os.ReadFile(w.stateFile())
	w.end()
	if kill && err == nil {
		err = os.WriteFile(w.stateFile(), before, 0o600)
	}
	if err != nil || time.Since(w.leakKept) < 2*simState {
		w.leakKept = time.Time{} // there is nothing to go on from
	}
	for i := range w.gpus {
		w.gpus[i].finds, w.gpus[i].up, w.gpus[i].missed = true, false, 0
		if !w.gpus[i].calm.IsZero() {
			w.gpus[i].calm = time.Now()
		}
	}
	return w.start()
}

// begin has a trouble begin.
func (w *world) begin(i int, x trouble) error {
	w.seen.troubles++
	switch x.kind {
	case "kill", "stop":
		return w.restart(x.kind == "kill")
	case "clock":
		w.stepped.Add(int64(time.Duration(x.n) * time.Second))
		w.steppedAt = time.Now()
	case "disk":
		_ = os.Rename(filepath.Dir(w.stateFile()), filepath.Join(w.dir, "gone")) // it is gone if two overlap
	case "list":
		for g := range w.gpus {
			if x.gpu < 0 || x.gpu == g {
				w.listless[g].Add(1)
			}
		}
	case "reload", "swap":
		w.node.unload()
	default:
		f := &simFault{call: x.call, code: x.code, hang: x.kind == "hang"}
		if x.gpu >= 0 {
			f.uuid = simUUID(x.gpu)
		}
		switch x.kind {
		case "late":
			f.late = time.Duration(x.n) * time.Millisecond
		case "lie":
			f.lie = x.n
		}
		w.faults[i] = f
		w.node.begin(f)
	}
	return nil
}

// over ends a trouble.
func (w *world) over(i int, x trouble) {
	switch x.kind {
	case "disk":
		_ = os.Rename(filepath.Join(w.dir, "gone"), filepath.Dir(w.stateFile()))
	case "list":
		for g := range w.gpus {
			if x.gpu < 0 || x.gpu == g {
				w.listless[g].Add(-1)
			}
		}
	case "reload", "swap":
		for _, o := range w.now {
			if o.kind == "reload" || o.kind == "swap" {
				return // it is still away
			}
		}
		w.node.load(x.kind == "swap")
	default:
		if f := w.faults[i]; f != nil {
			w.node.end(f)
			delete(w.faults, i)
		}
	}
}

// concerns reports whether a trouble may keep a GPU from being read.
func (x trouble) concerns(i int) bool {
	return !slices.Contains([]string{"clock", "disk", "list", "kill", "stop", planted}, x.kind) && (x.gpu < 0 || x.gpu == i)
}

// note brings the records up to what is there now.
func (w *world) note() {
	hangs := false
	for _, x := range w.now {
		hangs = hangs || x.kind == "hang" || x.kind == "late"
	}
	for i := range w.gpus {
		g, concerned := &w.gpus[i], false
		for _, x := range w.now {
			if x.concerns(i) {
				concerned, g.finds, g.init = true, g.finds || x.finds(), g.init || x.initialises()
			}
			if i == leaking && (x.kind == "disk" || (x.concerns(i) && x.finds())) {
				w.leakKept = time.Time{}
			}
		}
		switch {
		case concerned:
			g.calm, g.up = time.Time{}, false
		case g.init && hangs: // the library cannot be initialised while a call is inside
			g.calm = time.Time{}
		case g.calm.IsZero():
			g.calm = time.Now()
		}
	}
}

// wrong says what does not hold now; "" if all does.
func (w *world) wrong() string {
	w.library.mu.Lock()
	broken := w.library.broken
	w.library.mu.Unlock()
	if broken != "" {
		return broken
	}
	state := w.sampler.State()
	var there [4]bool
	for _, d := range state.Devices {
		i := int(d.Info.UUID[len("GPU-")] - '0')
		there[i] = true
		if v := w.gpuWrong(i, d); v != "" {
			return fmt.Sprintf("GPU %d: %s", i, v)
		}
	}
	for i, ok := range there {
		if !ok && w.due(i) {
			return fmt.Sprintf("GPU %d is not there, %s after its last trouble", i, time.Since(w.gpus[i].calm))
		}
	}
	return ""
}

// due reports whether a GPU must be up.
func (w *world) due(i int) bool {
	g := &w.gpus[i]
	limit := recoverySample
	if g.finds {
		limit = recoveryInit
	}
	return !g.calm.IsZero() && (g.up || time.Since(g.calm) > limit)
}

func (w *world) gpuWrong(i int, d *sampler.DeviceState) string {
	g := &w.gpus[i]
	up := d.Up && d.Memory.Used.OK
	due := w.due(i)
	sampled := d.SampleTime.Add(-w.wall())
	// A sample from before the clock was set says nothing here.
	age := time.Since(sampled)
	if time.Since(w.steppedAt) < 2*simInterval {
		age = 0
	}
	switch {
	case due && !up:
		return fmt.Sprintf("down, %s after its last trouble", time.Since(g.calm))
	case g.up && up && d.Missed > g.missed:
		return fmt.Sprintf("%d samples were lost", d.Missed-g.missed)
	case g.up && age > 2*simInterval:
		return fmt.Sprintf("its last sample is of %s ago", age)
	}
	if !up {
		return ""
	}
	if !g.calm.IsZero() && !g.up && sampled.After(g.calm) {
		g.up, g.finds, g.init = true, false, false
		w.seen.recovery = max(w.seen.recovery, time.Since(g.calm))
	}
	g.missed = d.Missed
	w.seen.samples++
	return w.leakWrong(i, d)
}

// leakWrong says what is wrong with the verdicts on a GPU.
func (w *world) leakWrong(i int, d *sampler.DeviceState) string {
	said := d.Judgement.Device.Leak
	for p := range d.Processes {
		said = said || d.Processes[p].Verdict.Leak
	}
	switch {
	case i != leaking && said:
		return fmt.Sprintf("a false leak: %+v", d.Judgement.Device)
	case i == leaking && said && w.leakKept.IsZero() && w.gpus[i].up:
		w.leakKept, w.seen.leakFound = time.Now(), true
	case i == leaking && !said && !w.leakKept.IsZero():
		return "its leak is forgotten"
	}
	return ""
}

// scrape says what is wrong with a scrape.
func (w *world) scrape() string {
	began := time.Now()
	w.seen.scrapes++
	if _, err := w.gather.Gather(); err != nil {
		return fmt.Sprintf("a scrape: %v", err)
	}
	if took := time.Since(began); took != 0 {
		return fmt.Sprintf("a scrape took %s", took)
	}
	return ""
}

// step is a moment of a schedule: a trouble begins or is over.
type step struct {
	at    time.Duration
	i     int
	begin bool
}

func steps(list []trouble) (all []step) {
	for i, x := range list {
		all = append(all, step{x.at, i, true}, step{x.at + x.lasts, i, false})
	}
	slices.SortStableFunc(all, func(a, b step) int { return int(a.at - b.at) })
	return all
}

// live lets the troubles happen, and says what was wrong first.
func (w *world) live(list []trouble) string {
	began, next := time.Now(), steps(list)
	var last time.Duration
	if len(next) > 0 {
		last = next[len(next)-1].at
	}
	if err := w.start(); err != nil {
		return err.Error()
	}
	defer func() {
		for _, f := range w.faults {
			w.node.end(f)
		}
		w.end()
		time.Sleep(2 * eventWait) // a real process ends with its waits
	}()
	for at := simInterval / 2; at < min(*length, last+2*time.Minute); at += simInterval {
		for len(next) > 0 && next[0].at <= at {
			s := next[0]
			next = next[1:]
			time.Sleep(time.Until(began.Add(s.at)))
			if wrong := w.take(s, list[s.i]); wrong != "" {
				return fmt.Sprintf("at %s: %s", s.at, wrong)
			}
		}
		time.Sleep(time.Until(began.Add(at)))
		synctest.Wait()
		wrong := w.wrong()
		if wrong == "" && at%simSlow < simInterval {
			wrong = w.scrape()
		}
		if wrong != "" {
			return fmt.Sprintf("at %s: %s", at, wrong)
		}
	}
	return ""
}

// take has a trouble begin or end, and scrapes at once.
func (w *world) take(s step, x trouble) string {
	if s.begin {
		w.now[s.i] = x
		w.note()
		if err := w.begin(s.i, x); err != nil {
			return err.Error()
		}
	} else {
		w.note() // a call that hangs keeps the library until now
		delete(w.now, s.i)
		w.over(s.i, x)
		w.note()
	}
	return w.scrape()
}

// runSchedule lives through a schedule in a bubble of its own.
func runSchedule(t *testing.T, list []trouble) (wrong string, seen summary) {
	t.Helper()
	dir := t.TempDir()
	tree{t, filepath.Join(dir, "proc")}.write("sys/kernel/random/boot_id", "boot\n")
	must(t, os.Mkdir(filepath.Join(dir, "state"), 0o755))
	synctest.Test(t, func(*testing.T) {
		w := newWorld(dir)
		wrong = w.live(list)
		seen = w.seen
	})
	return wrong, seen
}

// TestSchedules lives through schedules of simulated time in which the driver, the clock, the state file and the exporter
// itself have troubles that are drawn at random, several of them at once. A schedule that fails is told: -schedules.seed
// draws it again, and -schedules.kinds leaves kinds of trouble out.
func TestSchedules(t *testing.T) {
	leaks := false
	for n := range *schedules {
		seed := *firstSeed + uint64(n)
		list := drawSchedule(seed)
		began := time.Now()
		wrong, seen := runSchedule(t, list)
		leaks = leaks || seen.leakFound
		t.Logf("seed %d: %d troubles, %d samples, %d scrapes, worst recovery %s, leak found: %t, %s", seed, seen.troubles, seen.samples, seen.scrapes, seen.recovery, seen.leakFound, time.Since(began).Round(time.Millisecond))
		if wrong != "" {
			t.Errorf("seed %d: %s", seed, wrong)
			for _, x := range list {
				t.Logf("%+v", x)
			}
		}
	}
	if !leaks && *schedules > 1 && *length >= time.Hour {
		t.Error("the leak was found in no schedule")
	}
}

// A trouble that the exporter cannot withstand is found.
func TestScheduleCanFail(t *testing.T) {
	wrong, _ := runSchedule(t, []trouble{{at: 2 * time.Minute, lasts: 5 * time.Second, kind: planted, gpu: 0, call: "nvmlDeviceGetMemoryInfo_v2", code: nvml.ERROR_UNKNOWN}})
	if wrong == "" {
		t.Error("nothing is wrong")
	}
}
