// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/collector/workload"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

var must = testkit.Must

// equal checks that got is want, part by part. The format tells of what they are.
func equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	testkit.Equal(t, got, want, format, args...)
}

// scriptSource is a source whose every answer the test decides.
type scriptSource struct {
	mu      sync.Mutex
	devices []gpu.Device
	err     error
	hang    chan struct{} // Devices waits for it, if not nil
	blind   error         // of Watch
	events  chan gpu.Event
	calls   gpu.Calls
}

func (s *scriptSource) Devices(context.Context) ([]gpu.Device, error) {
	s.mu.Lock()
	devices, err, hang := s.devices, s.err, s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return devices, err
}

// hangs has Devices wait for release, or not any more if it is nil.
func (s *scriptSource) hangs(release chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = release
}

func (s *scriptSource) set(err error, devices ...gpu.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.devices = err, devices
}

func (s *scriptSource) Watch(ctx context.Context, report func(gpu.Event)) error {
	if s.blind != nil {
		return s.blind
	}
	s.mu.Lock()
	devices := s.devices
	s.mu.Unlock()
	for _, d := range devices {
		report(gpu.Event{Kind: gpu.Watched, UUID: d.Info().UUID})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-s.events:
			report(e)
		}
	}
}

func (s *scriptSource) Calls() *gpu.Calls { return &s.calls }
func (*scriptSource) Close() error        { return nil }

// scriptDevice samples once a second what the test's function says.
type scriptDevice struct {
	info   gpu.Info
	sample func(second int) (gpu.Sample, error)
	group  func(g gpu.Group, s *gpu.Status) error
	end    int // seconds after which the recording ends; 0 never
	second int
}

func (d *scriptDevice) Info() gpu.Info { return d.info }

func (d *scriptDevice) Wait(ctx context.Context) (int, error) {
	if d.end > 0 && d.second >= d.end {
		return 0, io.EOF
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(time.Second):
		d.second++
		return 0, nil
	}
}

func (d *scriptDevice) Read(context.Context) (gpu.Sample, error) {
	s, err := d.sample(d.second)
	if s.T == 0 {
		s.T = scriptStart + time.Duration(d.second)*time.Second
	}
	s.Time = time.Unix(0, int64(s.T))
	return s, err
}

func (d *scriptDevice) ReadGroup(_ context.Context, g gpu.Group, s *gpu.Status) error {
	if d.group == nil {
		return nil
	}
	return d.group(g, s)
}

const scriptStart = 1_770_000_000 * time.Second

func memoryOf(used uint64) gpu.Memory {
	return gpu.Memory{
		Total: gpu.Some(uint64(80 << 30)), Reserved: gpu.Some(uint64(1 << 30)),
		Used: gpu.Some(used), Free: gpu.Some(79<<30 - used),
	}
}

func flat(used uint64, processes ...gpu.Process) func(int) (gpu.Sample, error) {
	return func(int) (gpu.Sample, error) {
		return gpu.Sample{Memory: memoryOf(used), Processes: append([]gpu.Process(nil), processes...), ProcessesKnown: true, ProcessesComplete: true}, nil
	}
}

func newGPU(index int, sample func(int) (gpu.Sample, error)) *scriptDevice {
	return &scriptDevice{
		info:   gpu.Info{Index: index, UUID: fmt.Sprintf("GPU-%d", index), PCIBusID: fmt.Sprintf("00000000:%02X:00.0", index+0x3a)},
		sample: sample,
	}
}

func process(pid uint32, used uint64) gpu.Process {
	return gpu.Process{
		ID: gpu.ProcessID{PID: pid, Start: uint64(pid) * 100}, Type: gpu.Compute, Used: gpu.Some(used),
		Started: gpu.Some(scriptStart - time.Hour), SM: gpu.Some(0.5),
	}
}

// lines is a logger's output.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), part)
}

// says checks how often the log has a text.
func (l *lines) says(t *testing.T, want int, text string) {
	t.Helper()
	equal(t, l.count(text), want, "how often it is said: %s", text)
}

// run runs test beside a Sampler of that source, in a bubble whose clock is the test's.
func runSampler(t *testing.T, source *scriptSource, change func(*Config), test func(s *Sampler, out *lines)) {
	t.Helper()
	runHanging(t, source, change, test, func() {})
}

// runHanging is runSampler with something that hangs: release lets it go, once the Sampler has ended all the same.
func runHanging(t *testing.T, source *scriptSource, change func(*Config), test func(s *Sampler, out *lines), release func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out lines
		source.events = make(chan gpu.Event)
		cfg := Config{
			SlowInterval: 15 * time.Second, Timeout: 10 * time.Second, ProcessMax: 64, ProcessMinAge: 10 * time.Second,
			Groups: gpu.Groups, Detector: detector.DefaultConfig(), Logger: log.NewLogfmtLogger(&out),
			Incidents: incident.NewStore("", incident.Most, log.NewLogfmtLogger(&out)),
		}
		if change != nil {
			change(&cfg)
		}
		if h, err := readHistories(cfg.StateFile); err == nil { // the clock begins anew in each bubble: it goes on from there
			time.Sleep(time.Until(h.Saved))
		}
		s, err := New(source, cfg)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := inBackground(ctx, s.Run)
		test(s, &out)
		stopped := time.Now()
		cancel()
		<-done
		if took := time.Since(stopped); took > stopGrace {
			t.Errorf("took %s to end", took)
		}
		release()
		synctest.Wait()
	})
}

// inBackground runs f and returns what is closed when it has returned.
func inBackground(ctx context.Context, f func(context.Context)) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return done
}

// after lets the bubble's clock go on.
func after(d time.Duration) {
	time.Sleep(d) // the bubble's clock: no time passes outside
	synctest.Wait()
}

func TestHungCallCostsItsGPUAlone(t *testing.T) {
	var release chan struct{}
	hung := newGPU(0, func(second int) (gpu.Sample, error) {
		if second == 20 {
			<-release
		}
		return flat(1 << 30)(second)
	})
	fine := newGPU(1, func(second int) (gpu.Sample, error) { return flat(uint64(second) << 20)(second) })
	source := &scriptSource{devices: []gpu.Device{hung, fine}}
	runHanging(t, source, func(*Config) { release = make(chan struct{}) }, func(s *Sampler, out *lines) {
		after(29500 * time.Millisecond)
		if d := s.State().Devices; !d[0].Up || !d[1].Up {
			t.Errorf("9.5 s into a call of at most 10 s the GPU counts as down")
		}
		after(time.Second)
		before := s.State()
		if d := before.Devices[0]; d.Up || d.Memory.Used.OK || d.SampleTime != time.Unix(0, int64(scriptStart+19*time.Second)) {
			t.Errorf("10.5 s into a hung call: %+v", d)
		}
		after(15 * time.Second)
		a, b := before.Devices[1], s.State().Devices[1]
		if n := out.count("a call has not returned"); n != 1 || !b.Up || b.Memory.Used.V-a.Memory.Used.V != 15<<20 {
			t.Errorf("%d lines on the call; the other GPU went from %d to %d bytes in 15 s", n, a.Memory.Used.V, b.Memory.Used.V)
		}
	}, func() { close(release) })
}

func TestDriverThatComesLate(t *testing.T) {
	source := &scriptSource{err: &gpu.DriverError{Reason: "library_not_found", Err: errors.New("no such file")}}
	runSampler(t, source, nil, func(s *Sampler, out *lines) {
		if r := s.State().DriverReason; r != "starting" && r != "library_not_found" {
			t.Errorf("reason %q at the start", r)
		}
		after(time.Minute)
		if st := s.State(); st.DriverReason != "library_not_found" || len(st.Devices) != 0 {
			t.Errorf("without a driver: %+v", st)
		}
		out.says(t, 1, "no GPU can be read")
		source.set(nil, newGPU(0, flat(1<<30)))
		after(3 * time.Second)
		if st := s.State(); st.DriverReason != "" || len(st.Devices) != 1 || !st.Devices[0].Up {
			t.Errorf("three seconds after the driver came: %+v", st)
		}
		out.says(t, 1, "can be read again")
	})
}

// The driver is asked for its GPUs every slow interval, also where one of them keeps the answer back for most of it. One that keeps
// it back for longer hangs.
func TestSlowListOfDevices(t *testing.T) {
	var release chan struct{}
	source := &scriptSource{devices: []gpu.Device{newGPU(0, flat(1<<30))}}
	runSampler(t, source, func(*Config) {
		release = make(chan struct{})
		source.hang = release
	}, func(s *Sampler, _ *lines) {
		after(10 * time.Second)
		source.hangs(nil)
		source.set(nil, newGPU(0, flat(1<<30)), newGPU(1, flat(1<<30)))
		close(release)
		after(6500 * time.Millisecond)
		equal(t, len(s.State().Devices), 2, "GPUs a second and a half after the second question was due")
		release = make(chan struct{})
		source.hangs(release)
		after(30 * time.Second)
		equal(t, s.State().DriverReason, reasonHangs, "reason while the driver does not return")
		close(release)
		source.hangs(nil)
		after(time.Second)
		equal(t, s.State().DriverReason, "", "reason after it returned")
	})
}

func TestLostGPULosesItsOwn(t *testing.T) {
	lost := newGPU(0, func(second int) (gpu.Sample, error) {
		if second > 400 && second < 500 {
			return gpu.Sample{}, fmt.Errorf("memory: %w", gpu.ErrLost)
		}
		return flat(1 << 30)(second)
	})
	source := &scriptSource{devices: []gpu.Device{lost, newGPU(1, flat(2<<30))}}
	runSampler(t, source, nil, func(s *Sampler, out *lines) {
		after(399 * time.Second)
		source.events <- gpu.Event{Time: time.Unix(7, 0), UUID: "GPU-0", XID: 79}
		source.events <- gpu.Event{Time: time.Unix(8, 0), PCIBusID: "00000000:3B:00.0", XID: 13}
		source.events <- gpu.Event{Time: time.Unix(9, 0), PCIBusID: "00000000:99:00.0", XID: 13}
		after(20 * time.Second)
		d := s.State().Devices
		if d[0].Up || d[0].Memory.Used.OK || d[0].Judgement.T != 0 || !d[1].Up {
			t.Errorf("GPU 0 %+v, GPU 1 up: %t", d[0], d[1].Up)
		}
		if x := xidOf(d[0], 79); x.Count != 1 || x.Last != time.Unix(7, 0) {
			t.Errorf("XID 79 of the lost GPU: %+v", x)
		}
		if x := xidOf(d[1], 13); x.Count != 1 || xidOf(d[1], 79) != (XIDState{Code: 79}) {
			t.Errorf("XID 13 of the other GPU: %+v", x)
		}
		out.says(t, 1, "cannot be read")
		after(100 * time.Second)
		d = s.State().Devices
		if !d[0].Up || d[0].Judgement.Resets[detector.ReasonDeviceReset] != 1 || d[0].Judgement.Device.Windows[0].N > 60 {
			t.Errorf("after its return: %+v", d[0].Judgement)
		}
	})
}

// A driver that was unloaded has taken what GPUs held with it; one that is only busy has not.
func TestDriverReloadStartsAnew(t *testing.T) {
	for reason, resets := range map[string]uint64{"driver_not_loaded": 1, "uninitialized": 1, reasonInUse: 0, reasonHangs: 0} {
		d := newGPU(0, func(second int) (gpu.Sample, error) {
			if second >= 100 && second < 110 {
				return gpu.Sample{}, fmt.Errorf("memory: %w", &gpu.DriverError{Reason: reason, Err: errors.New("no answer")})
			}
			return flat(1 << 30)(second)
		})
		runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
			after(150500 * time.Millisecond)
			j := s.State().Devices[0].Judgement
			if n := j.Resets[detector.ReasonDeviceReset]; n != resets || (j.Device.Windows[0].N > 60) == (resets > 0) {
				t.Errorf("%s: %d resets, %d samples", reason, n, j.Device.Windows[0].N)
			}
		})
	}
}

// The timeout is that of one reading: a status that takes long, each part of it
// less than that, neither puts a GPU down nor holds its sample back.
func TestSlowStatusIsNoHang(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		time.Sleep(500 * time.Millisecond) // of the bubble
		return flat(1 << 30)(second)
	})
	var ended atomic.Bool
	d.group = func(g gpu.Group, s *gpu.Status) error {
		if !ended.Load() {
			time.Sleep(9 * time.Second) // of the bubble
		}
		if g == gpu.GroupPower {
			s.Power.Watts = gpu.Some(100.0)
		}
		return nil
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(1600 * time.Millisecond)
		if d := s.State().Devices; len(d) != 1 || d[0].SampleTime.IsZero() {
			t.Fatal("the first sample waits for the status")
		}
		for range 300 {
			after(time.Second)
			if d := s.State().Devices[0]; !d.Up {
				t.Fatal("down, though no reading takes 10 s")
			}
		}
		got := s.State().Devices[0]
		if got.Status.Power.Watts != gpu.Some(100.0) || got.Judgement.Device.Windows[0].N < 10 || got.Memory.Used.V != 1<<30 {
			t.Errorf("with its status: %+v", got)
		}
		ended.Store(true)
		after(10 * time.Second)
	})
}

// A GPU is left out until something is known of it.
func TestGPUBeforeItsFirstSample(t *testing.T) {
	release := map[int]chan struct{}{}
	slow := func(index int) *scriptDevice {
		return newGPU(index, func(second int) (gpu.Sample, error) {
			<-release[index]
			return flat(1 << 30)(second)
		})
	}
	failing := newGPU(2, func(int) (gpu.Sample, error) { return gpu.Sample{}, errors.New("unknown") })
	source := &scriptSource{}
	runSampler(t, source, nil, func(s *Sampler, _ *lines) {
		release[0], release[1] = make(chan struct{}), make(chan struct{})
		after(time.Second)
		source.set(nil, slow(0), slow(1), failing)
		after(14500 * time.Millisecond) // they are found after 15 s in all
		if st := s.State(); len(st.Devices) != 0 || st.Awaited != 3 {
			t.Errorf("before the first reading: %d GPUs, %d awaited", len(st.Devices), st.Awaited)
		}
		after(3 * time.Second)
		close(release[0])
		after(time.Second)
		if d := s.State().Devices; len(d) != 2 || !d[0].Up || d[1].Up || d[1].Info.Index != 2 {
			t.Errorf("with one that was read and one that failed: %+v", d)
		}
		after(10 * time.Second)
		if st := s.State(); len(st.Devices) != 3 || st.Devices[1].Up || st.Awaited != 0 {
			t.Errorf("with one that hangs: %+v", st)
		}
		close(release[1])
		after(time.Second)
		if d := s.State().Devices[1]; !d.Up {
			t.Errorf("after it has returned: %+v", d)
		}
	})
}

// What walks through procfs does so at the slow interval, driver or not, and keeps nothing else waiting.
func TestWalkThroughProcFS(t *testing.T) {
	var walks atomic.Int32
	var hang chan struct{}
	w := &owners{holders: func() ([]DeviceHolder, error) {
		walks.Add(1)
		if hang != nil {
			<-hang
		}
		return nil, nil
	}}
	source := &scriptSource{err: &gpu.DriverError{Reason: "driver_not_loaded"}}
	runSampler(t, source, func(c *Config) { c.Owners = w }, func(*Sampler, *lines) {
		after(2*time.Minute - time.Second)
		equal(t, walks.Load(), 8, "walks in 2 min without a driver")
	})
	runHanging(t, source, func(c *Config) { c.Owners, hang = w, make(chan struct{}) }, func(s *Sampler, _ *lines) {
		after(20 * time.Second)
		source.set(nil, newGPU(0, flat(1<<30)))
		after(3 * time.Second)
		if st := s.State(); len(st.Devices) != 1 || !st.Devices[0].Up {
			t.Errorf("while procfs hangs: %+v", st)
		}
	}, func() { close(hang) })
}

// Where events cannot be watched, that there were none is not known.
func TestUnwatchedXIDsAreAbsent(t *testing.T) {
	for _, err := range []error{gpu.ErrNoEvents, errors.New("not supported")} {
		source := &scriptSource{devices: []gpu.Device{newGPU(0, flat(1<<30))}, blind: err}
		runSampler(t, source, nil, func(s *Sampler, out *lines) {
			for range 600 { // over a second try to watch
				after(100 * time.Millisecond)
				for _, d := range s.State().Devices {
					if len(d.XIDs) != 0 {
						t.Fatalf("%v: XIDs %+v", err, d.XIDs)
					}
				}
			}
			want := 1
			if errors.Is(err, gpu.ErrNoEvents) {
				want = 0
			}
			out.says(t, want, "cannot be watched")
		})
	}
}

// Each GPU has its zeros while it is watched itself; what was counted stays.
func TestXIDsOfAMixedFleet(t *testing.T) {
	source := &scriptSource{devices: []gpu.Device{newGPU(0, flat(1<<30)), newGPU(1, flat(1<<30))}}
	runSampler(t, source, nil, func(s *Sampler, _ *lines) {
		after(time.Second)
		codes := func() [2]int {
			synctest.Wait()
			d := s.State().Devices
			return [2]int{len(d[0].XIDs), len(d[1].XIDs)}
		}
		all := len(noXIDs)
		equal(t, codes(), [2]int{all, all}, "both are watched")
		source.events <- gpu.Event{UUID: "GPU-1", XID: 48}
		source.events <- gpu.Event{Kind: gpu.Unwatched, UUID: "GPU-1"}
		equal(t, codes(), [2]int{all, 1}, "the second is not, after an error")
		source.events <- gpu.Event{Kind: gpu.Watched, UUID: "GPU-1"}
		equal(t, codes(), [2]int{all, all}, "both again")
	})
}

func xidOf(d *DeviceState, code uint64) XIDState {
	for _, x := range d.XIDs {
		if x.Code == code {
			return x
		}
	}
	return XIDState{}
}

// A GPU that comes back, as the same device or as another one, is read again, with nothing of its old history, and its counters
// go on. One that stays away is shown as down for a day.
func TestGPUsThatComeAndGo(t *testing.T) {
	a, b, again := newGPU(0, flat(1<<30)), newGPU(1, flat(1<<30)), newGPU(0, flat(3<<30))
	b.end = 300 // the day after that would be 90,000 samples
	source := &scriptSource{devices: []gpu.Device{a, b}}
	runSampler(t, source, nil, func(s *Sampler, _ *lines) {
		after(20 * time.Second)
		for n, back := range []*scriptDevice{a, a, again} {
			before, kept := s.State().Devices[0].Judgement.Device.Windows[0].N, s.State().Devices[1].Judgement.Device.Windows[0].N
			source.set(nil, b)
			after(20 * time.Second)
			if d := s.State().Devices; len(d) != 2 || d[0].Up || !d[1].Up || d[0].SampleTime.IsZero() {
				t.Fatalf("while GPU 0 is gone: %+v", d)
			}
			source.set(nil, back, b)
			after(20 * time.Second)
			d := s.State().Devices
			if len(d) != 2 || !d[0].Up || !d[1].Up || d[0].Memory.Used.V != 1<<30 && back != again || d[1].Judgement.Device.Windows[0].N <= kept {
				t.Fatalf("after it came back: %+v", d)
			}
			if j := d[0].Judgement; j.Device.Windows[0].N > before || j.Resets[detector.ReasonDeviceReset] != uint64(n+1) {
				t.Errorf("%d samples after %d, resets %v", j.Device.Windows[0].N, before, j.Resets)
			}
		}
		source.set(nil, b)
		after(24 * time.Hour)
		equal(t, len(s.State().Devices), 2, "GPUs a day after one was taken out")
		after(time.Minute)
		equal(t, len(s.State().Devices), 1, "GPUs a day after one is seen to be gone")
	})
}

// What was read of a GPU before it went away is not shown while its first status is read.
func TestGPUThatComesBackHasNoOldStatus(t *testing.T) {
	s, err := New(&scriptSource{}, Config{Detector: detector.DefaultConfig()})
	must(t, err)
	device := newGPU(0, flat(1<<30))
	before, again := newLoop(s, device, device.Info()), newLoop(s, device, device.Info())
	before.status.Power.Watts, before.readings = gpu.Some(300.0), []FamilyState{{Name: "power"}}
	again.goOn(before, true)
	if again.status.Power.Watts.OK || again.readings != nil {
		t.Errorf("%+v, %+v", again.status.Power, again.readings)
	}
}

// A GPU whose index changes is another device of the same UUID: its history goes
// on, and two goroutines never read it at once.
func TestGPUThatChangesItsIndex(t *testing.T) {
	var reading sync.Mutex
	var hang atomic.Pointer[chan struct{}] // of the bubble; a reading waits for it, if not nil
	sample := func(used uint64) func(int) (gpu.Sample, error) {
		return func(second int) (gpu.Sample, error) {
			if !reading.TryLock() {
				t.Error("two goroutines read one GPU")
				return gpu.Sample{}, errors.New("busy")
			}
			defer reading.Unlock()
			if c := hang.Load(); c != nil {
				<-*c
			}
			return flat(used, process(42, used/2))(second)
		}
	}
	a, b := newGPU(0, flat(1<<30)), newGPU(1, sample(2<<30))
	moved := newGPU(0, sample(2<<30))
	moved.info.UUID, moved.second = b.info.UUID, 105
	again := newGPU(1, sample(2<<30))
	again.second = 165
	source := &scriptSource{devices: []gpu.Device{a, b}}
	rules := &asking{cfg: func(labels map[string]string, c *detector.Config) { c.Mute = labels["gpu"] == "0" }}
	runSampler(t, source, func(c *Config) { c.Resolve = rules.resolve }, func(s *Sampler, out *lines) {
		after(100 * time.Second)
		before := s.State().Devices[1].Judgement
		source.set(nil, moved)
		after(20 * time.Second)
		d := s.State().Devices
		if len(d) != 2 || d[0].Info.UUID != "GPU-0" || d[0].Up || d[1].Info.Index != 0 || d[1].Info.UUID != "GPU-1" || !d[1].Up {
			t.Fatalf("after it moved: %+v", d)
		}
		now := d[1].Judgement
		if now.Device.Windows[0].N <= before.Device.Windows[0].N || now.Resets != before.Resets || len(d[1].Processes) != 1 || before.Device.Muted || !now.Device.Muted {
			t.Errorf("%d samples after %d, resets %v, %d processes, muted %v",
				now.Device.Windows[0].N, before.Device.Windows[0].N, now.Resets, len(d[1].Processes), now.Device.Muted)
		}
		release := make(chan struct{})
		hang.Store(&release)
		after(2 * time.Second)
		source.set(nil, a, again)
		after(30 * time.Second)
		if d := s.State().Devices; len(d) != 2 || d[1].Info.UUID != "GPU-1" || d[1].Info.Index != 0 || d[1].Up {
			t.Errorf("while the old loop is stuck: %+v", d)
		}
		hang.Store(nil)
		close(release)
		after(20 * time.Second)
		if d := s.State().Devices; len(d) != 2 || d[1].Info.Index != 1 || !d[1].Up || d[1].Judgement.Resets != before.Resets {
			t.Errorf("once it has ended: %+v", d)
		}
		out.says(t, 2, "has another index")
	})
}

// A GPU that turns out to have memory of its own, or none, is another device of the same UUID: what was seen of the
// other memory is no history of this one. That its memory is coherent throws nothing away.
func TestGPUOfWhichTheDriverTellsMore(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now gpu.Info
		forgets     bool
		said        string
	}{
		"it has its own memory": {gpu.Info{CoherentMemory: true, UnifiedMemory: true}, gpu.Info{CoherentMemory: true}, true, "tells otherwise whose memory"},
		"it has none":           {gpu.Info{CoherentMemory: true}, gpu.Info{CoherentMemory: true, UnifiedMemory: true}, true, "no memory of its own"},
		"it is coherent":        {gpu.Info{}, gpu.Info{CoherentMemory: true}, false, "tells more of the GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newGPU(0, flat(1<<30)), newGPU(0, flat(2<<30))
			a.info.CoherentMemory, a.info.UnifiedMemory = tc.before.CoherentMemory, tc.before.UnifiedMemory
			b.info.CoherentMemory, b.info.UnifiedMemory = tc.now.CoherentMemory, tc.now.UnifiedMemory
			b.second = 105
			source := &scriptSource{devices: []gpu.Device{a}}
			runSampler(t, source, nil, func(s *Sampler, out *lines) {
				after(100 * time.Second)
				said := out.count(tc.said)
				source.set(nil, b)
				after(30 * time.Second)
				d := s.State().Devices
				if len(d) != 1 || !d[0].Up || d[0].Info != b.info {
					t.Fatalf("afterwards: %+v", d)
				}
				equal(t, d[0].Judgement.Device.Windows[0].N < 60, tc.forgets, "whether those of before are forgotten")
				out.says(t, said+1, tc.said)
				out.says(t, 0, "another index")
			})
		})
	}
}

func TestFailedGroupIsAbsentAndCounted(t *testing.T) {
	d := newGPU(0, flat(1<<30))
	d.group = func(g gpu.Group, s *gpu.Status) error {
		switch g {
		case gpu.GroupThermal:
			return errors.New("thermal: timeout")
		case gpu.GroupPower:
			s.Power.Watts = gpu.Some(float64(100 + d.second))
		}
		return nil
	}
	source := &scriptSource{devices: []gpu.Device{d}}
	runSampler(t, source, nil, func(s *Sampler, _ *lines) {
		after(16500 * time.Millisecond)
		st := s.State()
		for _, c := range st.Collectors {
			if c.Success == (c.Name == "thermal") {
				t.Errorf("collector %s: success %t", c.Name, c.Success)
			}
		}
		// Read with the first sample and again 15 s later, not each second.
		equal(t, st.Devices[0].Status.Power.Watts, gpu.Some(116.0), "power")
		after(10 * time.Second)
		equal(t, s.State().Devices[0].Status.Power.Watts, gpu.Some(116.0), "power before the slow reading is due")
	})
}

func TestPeakAndUnattributed(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		used := uint64(5 << 30)
		if second == 30 {
			used = 50 << 30
		}
		return flat(used, process(1, 2<<30), process(2, 1<<30))(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(80500 * time.Millisecond)
		got := s.State().Devices[0]
		if got.UsedPeak.V != 50<<30 || got.Unattributed != gpu.Some(uint64(2<<30)) {
			t.Errorf("peak %v, unattributed %v", got.UsedPeak, got.Unattributed)
		}
		after(15 * time.Second)
		equal(t, s.State().Devices[0].UsedPeak.V, 5<<30, "peak 65 s later")
	})
}

// owners answer what a test says, if it does: else each process is known at once, and in a pod. They may be asked from several
// goroutines.
type owners struct {
	owner      func(gpu.ProcessID) (*gpu.Owner, bool)
	await      func(gpu.ProcessID) (*gpu.Owner, bool) // owner, if nil
	holders    func() ([]DeviceHolder, error)
	allotments func() ([]workload.Allotment, error)
	jobs       func() (workload.Jobs, error)
	unseen     func() (workload.Unseen, error)
	ended      func() (code gpu.Opt[int32], known bool)
	secret     []byte
}

func ownerInPod(id gpu.ProcessID) *gpu.Owner {
	return &gpu.Owner{Process: fmt.Sprintf("p%d", id.PID), Pod: "pod", Namespace: "ns"}
}

func (o *owners) Owner(id gpu.ProcessID) (*gpu.Owner, bool) {
	if o.owner == nil {
		return ownerInPod(id), true
	}
	return o.owner(id)
}

func (o *owners) Await(_ context.Context, id gpu.ProcessID) (*gpu.Owner, bool) {
	if o.await == nil {
		return o.Owner(id)
	}
	return o.await(id)
}

// answer is what f says; nothing, if it is nil.
func answer[T any](f func() (T, error)) (nothing T, _ error) {
	if f == nil {
		return nothing, nil
	}
	return f()
}

func (o *owners) Holders(context.Context) ([]DeviceHolder, error) { return answer(o.holders) }
func (o *owners) Allotments(context.Context) ([]workload.Allotment, error) {
	return answer(o.allotments)
}
func (o *owners) Jobs() (workload.Jobs, error) { return answer(o.jobs) }

func (o *owners) Unseen() workload.Unseen {
	u, _ := answer(o.unseen)
	return u
}

func (o *owners) Ended(context.Context, string) (code gpu.Opt[int32], known bool) {
	if o.ended == nil {
		return code, true
	}
	return o.ended()
}
func (o *owners) NameWith(secret []byte) { o.secret = secret }
func (*owners) Run(context.Context)      {}
func (*owners) RuntimeProblem() error    { return nil }

// latePods are owners of whose processes the pod is known after so many questions. asked returns how many there were.
func latePods(late map[uint32]int) (o *owners, asked func(pid uint32) int) {
	var mu sync.Mutex
	questions := map[uint32]int{}
	asked = func(pid uint32) int {
		mu.Lock()
		defer mu.Unlock()
		return questions[pid]
	}
	return &owners{owner: func(id gpu.ProcessID) (*gpu.Owner, bool) {
		mu.Lock()
		defer mu.Unlock()
		if questions[id.PID]++; questions[id.PID] <= late[id.PID] {
			return &gpu.Owner{Process: fmt.Sprintf("p%d", id.PID)}, false
		}
		return ownerInPod(id), true
	}}, asked
}

// The detector sees a process for the first time with its owner: then it compares it with earlier ones of its pod.
func TestOwnersAreKnownAtFirst(t *testing.T) {
	d := newGPU(0, flat(5<<30, process(1, 1<<30)))
	o := &owners{
		owner: func(gpu.ProcessID) (*gpu.Owner, bool) { return unknownOwner, false },
		await: func(id gpu.ProcessID) (*gpu.Owner, bool) { return ownerInPod(id), true },
	}
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners, c.ProcessMinAge = o, 0 }, func(s *Sampler, _ *lines) {
		for len(s.State().Devices) == 0 { // until the first sample
			after(10 * time.Millisecond)
		}
		if p := s.State().Devices[0].Processes; len(p) != 1 || p[0].Owner.Pod != "pod" {
			t.Errorf("processes of the first sample: %+v", p)
		}
	})
}

func TestOwnersAreLatched(t *testing.T) {
	young := process(4, 1)
	young.Started = gpu.Some(scriptStart + time.Second)
	unresolved := process(5, 1)
	unresolved.ID.Start = 0
	d := newGPU(0, flat(5<<30, process(1, 1), process(2, 1), process(3, 1), young, unresolved))
	o, asked := latePods(map[uint32]int{2: 20, 3: 1 << 30})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.Owners = o }, func(s *Sampler, _ *lines) {
		shown := func() string {
			var all []string
			for _, p := range s.State().Devices[0].Processes {
				all = append(all, fmt.Sprintf("%d=%s/%s", p.ID.PID, p.Owner.Process, p.Owner.Pod))
			}
			return strings.Join(all, " ")
		}
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{2500 * time.Millisecond, "1=p1/pod 5=/"},
			{5 * time.Second, "1=p1/pod 2=p2/ 3=p3/ 5=/"},
			{12 * time.Second, "1=p1/pod 2=p2/ 3=p3/ 4=p4/pod 5=/"},
			{25 * time.Second, "1=p1/pod 2=p2/pod 3=p3/ 4=p4/pod 5=/"},
		} {
			after(step.at - time.Since(bubbleStart))
			equal(t, shown(), step.want, "after %s", step.at)
		}
		equal(t, asked(1), 1, "questions for an owner that was known at once")
		equal(t, s.State().Unresolved, 1, "unresolved")
		w := s.State().Devices[0].Workloads
		if len(w) != 1 || w[0].Pod != "pod" || w[0].Namespace != "ns" || w[0].Used != 3 {
			t.Errorf("workloads %+v", w)
		}
	})
}

// A recording tells the pod a moment later than the process. Its first series have it, and it changes no more.
func TestOwnersOfARecording(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		p := process(1, 1<<30)
		p.Owner = &gpu.Owner{Process: "p"}
		if second > 1 {
			p.Owner = &gpu.Owner{Process: "p", Pod: "pod"}
		}
		if second > 60 {
			p.Owner = &gpu.Owner{Process: "q", Pod: "another"}
		}
		return flat(5<<30, p)(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		for range 2 {
			after(time.Minute)
			ps := s.State().Devices[0].Processes
			if len(ps) != 1 || ps[0].Owner.Process != "p" || ps[0].Owner.Pod != "pod" {
				t.Errorf("processes %+v", ps)
			}
		}
	})
}

// bubbleStart is when the clock of every bubble begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// leaked is the memory of a process that holds still for 10 minutes and leaks a MiB a second from then on.
func leaked(second int) uint64 { return 2<<30 + uint64(max(0, second-600))<<20 }

func TestCapKeepsLeakersAndIncumbents(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		ps := []gpu.Process{
			process(1, 10<<30), process(2, 8<<30), process(3, leaked(second)),
			process(4, 8<<30+uint64(second%2)<<20), // takes turns with 2 in size
		}
		if second > 2000 {
			ps = append(ps, process(5, 20<<30))
		}
		return flat(60<<30, ps...)(second)
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, func(c *Config) { c.ProcessMax = 2 }, func(s *Sampler, _ *lines) {
		pids := func() (all []uint32) {
			for _, p := range s.State().Devices[0].Processes {
				all = append(all, p.ID.PID)
			}
			return all
		}
		after(30 * time.Second)
		if got := fmt.Sprint(pids()); got != "[1 2]" && got != "[1 4]" {
			t.Errorf("the largest two are %s", got)
		}
		first := fmt.Sprint(pids())
		for range 30 {
			after(time.Second)
			if got := fmt.Sprint(pids()); got != first {
				t.Fatalf("series move from %s to %s", first, got)
			}
		}
		after(1500 * time.Second)
		equal(t, fmt.Sprint(pids()), "[1 3]", "with a leaking one")
		after(500 * time.Second)
		dev := s.State().Devices[0]
		if got := fmt.Sprint(pids()); got != "[3 5]" || dev.OtherProcesses != 3 || dev.ProcessCount != 5 || dev.OtherUsed < 26<<30 {
			t.Errorf("with a larger one: %s, %d others with %d bytes", got, dev.OtherProcesses, dev.OtherUsed)
		}
	})
}

func TestMIGInstancesAreJudgedApart(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		leaking, other := process(1, leaked(second)), process(2, 1<<30)
		leaking.Instance, other.Instance = gpu.Some(uint32(1)), gpu.Some(uint32(2))
		s, _ := flat(leaking.Used.V+other.Used.V, leaking, other)(second)
		s.MIGEnabled = gpu.Some(true)
		s.Instances = []gpu.Instance{{ID: 1, Profile: "1g.10gb", Memory: memoryOf(leaking.Used.V)}, {ID: 2, Profile: "1g.10gb", Memory: memoryOf(1 << 30)}}
		if second > 2000 {
			s.Instances = s.Instances[:1]
			s.Processes = s.Processes[:1]
		}
		return s, nil
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, out *lines) {
		after(1800 * time.Second)
		got := s.State().Devices[0]
		if len(got.Instances) != 2 || !got.Instances[0].Judgement.Device.Leak || got.Instances[1].Judgement.Device.Leak {
			t.Fatalf("instances %+v", got.Instances)
		}
		if v := got.Judgement.Device; v.Judged || v.Leak || !v.Windows[0].Slope.OK {
			t.Errorf("the GPU as a whole: %+v", v)
		}
		if !got.Processes[0].Verdict.Leak || got.Processes[1].Verdict.Leak || got.Judgement.Headroom.OK {
			t.Errorf("processes %+v, headroom of the GPU %v", got.Processes, got.Judgement.Headroom)
		}
		after(300 * time.Second)
		got = s.State().Devices[0]
		if len(got.Instances) != 1 || got.Judgement.Resets[detector.ReasonRepartition] != 1 || got.Instances[0].Judgement.Device.Leak {
			t.Errorf("after the layout changed: %+v", got)
		}
		out.says(t, 1, "MIG layout changed")
	})
}

func TestClockThatGoesBackStartsAnew(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		s, _ := flat(1 << 30)(second)
		if second > 100 {
			s.T = scriptStart + time.Duration(second-3600)*time.Second
		}
		return s, nil
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, out *lines) {
		after(200500 * time.Millisecond)
		j := s.State().Devices[0].Judgement
		if j.Resets[detector.ReasonClockStep] != 1 || j.Device.Windows[0].N != 100 || out.count("clock") != 1 {
			t.Errorf("%d resets, %d samples", j.Resets[detector.ReasonClockStep], j.Device.Windows[0].N)
		}
	})
}

// The clock is set forward by an hour, as it is when a node that starts has found the time: nothing is judged anew, and the
// moments shown are those of the new time.
func TestWallClockThatIsSet(t *testing.T) {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		p := process(1, leaked(second))
		s, _ := flat(p.Used.V, p)(second)
		if second == 1500 {
			s.Step = time.Hour
		}
		return s, nil
	})
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(1499500 * time.Millisecond)
		before := s.State().Devices[0].Processes[0]
		after(2 * time.Second)
		now := s.State().Devices[0].Processes[0]
		if !before.Verdict.Leak || !now.Verdict.Leak || now.Verdict.Windows[0].N < before.Verdict.Windows[0].N-20 {
			t.Errorf("before %+v, after %+v", before.Verdict, now.Verdict)
		}
		equal(t, now.Verdict.Since, before.Verdict.Since+time.Hour, "begin of the leak after the step")
		equal(t, now.Started.V, before.Started.V+time.Hour, "start of the process after the step")
	})
}

func TestEndOfARecordingKeepsItsState(t *testing.T) {
	d := newGPU(0, flat(1<<30))
	d.end = 50
	runSampler(t, &scriptSource{devices: []gpu.Device{d}}, nil, func(s *Sampler, _ *lines) {
		after(10 * time.Second)
		ended := func() bool {
			select {
			case <-s.shared.Load().loops[0].done:
				return true
			default:
				return false
			}
		}
		if ended() {
			t.Error("ended after 10 s of 50")
		}
		after(time.Hour)
		if st := s.State(); !ended() || !st.Devices[0].Up || st.Devices[0].Judgement.Device.Windows[0].N != 50 {
			t.Errorf("after the end: %+v", st.Devices[0])
		}
	})
}
