// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// withState makes a sampler keep its histories in that file. It seldom writes them: that takes longer than all else in a test.
func withState(t *testing.T, file, boot string) func(*Config) {
	t.Helper()
	proc := t.TempDir()
	if boot != "" {
		testkit.Write(t, filepath.Join(proc, "sys/kernel/random/boot_id"), boot+"\n")
	}
	return func(c *Config) { c.StateFile, c.StateInterval, c.ProcFS = file, 5*time.Minute, proc }
}

// leakAt is a device of which a process leaks, one cannot be told from others of its number, and one computes nothing, from so many
// seconds of its life on.
func leakAt(from int) *scriptDevice {
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		p, unresolved, idle := process(1, leaked(second)), process(2, 1<<30), process(3, 1<<30)
		unresolved.ID.Start, idle.SM = 0, gpu.Some(0.0)
		return flat(p.Used.V+2<<30, p, unresolved, idle)(second)
	})
	d.second = from
	return d
}

func TestRestartGoesOnFromTheStateFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, file, "boot-a"), func(s *Sampler, _ *lines) {
		after(3300500 * time.Millisecond)
		if !s.State().Devices[0].Processes[0].Verdict.Leak {
			t.Fatal("no leak to remember")
		}
		if f := s.State().Devices[0].Findings; len(f) != 1 || !f[0].Leaking.OK || !f[0].OOM.OK || f[0].Who != finding.Of(s.State().Devices[0].Processes[0].Owner) {
			t.Errorf("findings: %+v", f)
		}
		if f := s.State().StateFile; f == nil || !f.Success || time.Since(f.Time) > 15*time.Second {
			t.Errorf("state file: %+v", f)
		}
	})
	for _, c := range []struct {
		boot    string
		known   bool // the process's history is there
		message string
	}{
		{"boot-a", true, "going on from the state file"},
		{"boot-b", false, "another boot"},
		{"", false, "another boot"}, // nothing tells which
	} {
		kept, err := os.ReadFile(file)
		must(t, err)
		second := filepath.Join(t.TempDir(), "state")
		must(t, os.WriteFile(second, kept, 0o600))
		runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(3360)}}, withState(t, second, c.boot), func(s *Sampler, out *lines) {
			after(5 * time.Second)
			d := s.State().Devices[0]
			if v := d.Processes[0].Verdict; v.Leak != c.known || (v.Windows[0].N > 500) != c.known {
				t.Errorf("%s: after the restart: %+v", c.boot, v)
			}
			if v := d.Processes[1].Verdict; v.Judged || v.Windows[0].N > 5 {
				t.Errorf("%s: a process without start ticks inherits: %+v", c.boot, v)
			}
			if idle := d.Processes[2].Idle; idle.V > 3300*time.Second != c.known || idle.V > 3400*time.Second {
				t.Errorf("%s: after the restart idle for %v", c.boot, idle)
			}
			if f := d.Findings; len(f) > 0 != c.known || c.known && (!f[0].LeakDue || f[0].Who != finding.Of(d.Processes[0].Owner)) {
				t.Errorf("%s: findings after the restart: %+v", c.boot, f)
			}
			equal(t, out.count(c.message), 1, "%s: how often the log says %q", c.boot, c.message)
		})
	}
}

// leakers is a GPU of which processes leak, each by as many KiB a second as it is told. Of what the state file knew, the
// first sample after a restart shows but the first process, and no page of a probe is found for ten seconds.
type leakers struct {
	rates []int
	mig   bool
	// pool is by how many KiB a second the pool of one more process fills.
	pool int
}

// at is the GPU from a second of its life on.
func (l leakers) at(from int) *scriptDevice {
	grown := func(second, rate int) uint64 { return 4<<30 + uint64(max(0, second-600)*rate)<<10 }
	d := newGPU(0, func(second int) (gpu.Sample, error) {
		used, all := uint64(1<<30), []gpu.Process(nil)
		add := func(p gpu.Process) {
			used += p.Used.V
			if l.mig {
				p.Instance = gpu.Some(uint32(1))
			}
			all = append(all, p)
		}
		for i, rate := range l.rates {
			add(process(uint32(i+1), grown(second, rate)))
		}
		if l.pool > 0 {
			p := process(99, grown(second, l.pool))
			if from == 0 || second > from+10 {
				p.Allocator = &gpu.Allocator{Allocated: gpu.Some(uint64(2 << 30)), Reserved: gpu.Some(p.Used.V - 1<<30)}
			}
			add(p)
		}
		s, err := flat(used, all...)(second)
		if l.mig {
			s.MIGEnabled, s.Instances = gpu.Some(true), []gpu.Instance{{ID: 1, Profile: "7g.80gb", Memory: memoryOf(used)}}
		}
		return s, err
	})
	d.second = from
	return d
}

// What the log says of a leak after a restart is what the series say once all is there: of its own leaks, and nothing else.
func TestForecastInTheLogAfterARestart(t *testing.T) {
	const saved = 1500
	said := regexp.MustCompile(`msg="GPU 0.* (?:leaks|in (\d+) h (\d+) min)`)
	for name, c := range map[string]struct {
		leakers
		pause int // how many seconds no exporter ran
	}{
		"one":                     {leakers{rates: []int{1024}}, 20},
		"one, after a long pause": {leakers{rates: []int{1024}}, 900},
		"three":                   {leakers{rates: []int{256, 1024, 2048}}, 20},
		"three, in MIG mode":      {leakers{rates: []int{256, 1024, 2048}, mig: true}, 20},
		"a pool beside it":        {leakers{rates: []int{512}, pool: 5120}, 900},
	} {
		config := withState(t, filepath.Join(t.TempDir(), "state"), "a")
		runSampler(t, &scriptSource{devices: []gpu.Device{c.at(0)}}, config, func(*Sampler, *lines) { after(saved * time.Second) })
		runSampler(t, &scriptSource{devices: []gpu.Device{c.at(saved + c.pause)}}, config, func(s *Sampler, out *lines) {
			after(20 * time.Second)
			d := s.State().Devices[0]
			exported := d.Judgement.Device.SecondsToOOM.V
			if c.mig {
				exported = d.Instances[0].Judgement.Device.SecondsToOOM.V
			}
			logged := said.FindAllStringSubmatch(out.b.String(), -1)
			if len(logged) != 1 {
				t.Fatalf("%s: said %d times: %s", name, len(logged), out.b.String())
			}
			hours, _ := strconv.Atoi(logged[0][1]) // of one that is more than a day ahead nothing is said
			minutes, _ := strconv.Atoi(logged[0][2])
			if v := float64(3600*hours + 60*minutes); math.Abs(v/exported-1) > 0.1 && (v > 0 || exported < 24*3600) {
				t.Errorf("%s: the series says %g s, the log %s", name, exported, logged[0][0])
			}
		})
	}
}

func TestStateFileThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, filepath.Join(dir, "state"), "a"), func(s *Sampler, out *lines) {
		after(5 * time.Minute)
		if f := s.State().StateFile; f == nil || f.Success || !f.Time.IsZero() {
			t.Errorf("state file: %+v", f)
		}
		out.says(t, 1, "would lose the histories")
		must(t, os.Mkdir(dir, 0o755))
		after(5 * time.Minute)
		if f := s.State().StateFile; !f.Success {
			t.Errorf("once the directory is there: %+v", f)
		}
	})
}

func TestWithoutDriverTheStateFileIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0"}}}
	must(t, h.write(file))
	before, err := os.ReadFile(file)
	must(t, err)
	source := &scriptSource{err: &gpu.DriverError{Reason: "driver_not_loaded"}}
	runSampler(t, source, withState(t, file, "a"), func(*Sampler, *lines) { after(5 * time.Minute) })
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, before) {
		t.Errorf("an exporter that saw no GPU replaced the histories: %v", err)
	}
}

// complains makes a sampler with a state file that cannot be used, which it says once.
func complains(t *testing.T, file string) (*Sampler, *lines) {
	t.Helper()
	var out lines
	cfg := Config{SlowInterval: 1, Timeout: 1, Detector: detector.DefaultConfig(), Logger: log.NewLogfmtLogger(&out)}
	withState(t, file, "a")(&cfg)
	s, err := New(&scriptSource{}, cfg)
	if err != nil || out.count("level=error") != 1 {
		t.Fatalf("%s: error %v, log %s", file, err, out.b.String())
	}
	return s, &out
}

// Whatever lies at the path, the exporter starts.
func TestPathThatIsNoStateFile(t *testing.T) {
	dir := t.TempDir()
	fifo, unreadable := filepath.Join(dir, "fifo"), filepath.Join(dir, "unreadable")
	must(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(unreadable, []byte("hello"), 0)))
	for _, path := range []string{dir, fifo, filepath.Join(unreadable, "file"), unreadable, "/dev/null", "/dev/zero"} {
		s, _ := complains(t, path)
		if path == fifo { // nothing tells what would be lost
			s.write()
			if is, err := os.Stat(path); err != nil || is.Mode().IsRegular() || s.State().StateFile == nil || s.State().StateFile.Success {
				t.Errorf("%s: %v, %v, written %+v", path, is, err, s.State().StateFile)
			}
		}
	}
}

// A file that cannot be used keeps no exporter from starting, and is not lost. What is damage is savefile's to test.
func TestStateFileThatIsNotOurs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	for says, write := range map[string]func() error{
		"not a state file of gpu_leak_exporter": func() error { return os.WriteFile(file, []byte("hello\n"), 0o600) },
		"unexpected end of JSON":                func() error { return stateFile.Write(file, []byte("{")) },
	} {
		must(t, errors.Join(write(), os.RemoveAll(file+".bad")))
		before, err := os.ReadFile(file)
		must(t, err)
		if _, out := complains(t, file); out.count(says) != 1 {
			t.Errorf("no %q in %s", says, out.b.String())
		}
		if kept, err := os.ReadFile(file + ".bad"); err != nil || !bytes.Equal(kept, before) {
			t.Errorf("%s: kept %q, %v", says, kept, err)
		}
	}
}

// A new life of a GPU that was repartitioned, or lost, before or while no exporter ran has nothing of the old one.
func TestHistoryThatEndedBeforeTheRestart(t *testing.T) {
	at := func(base int, s gpu.Sample) *scriptDevice {
		return newGPU(0, func(second int) (gpu.Sample, error) {
			c := s
			c.T = scriptStart + time.Duration(base+second)*time.Second
			return c, nil
		})
	}
	whole := gpu.Sample{Memory: memoryOf(60 << 30), ProcessesComplete: true}
	mig := gpu.Sample{
		Memory: memoryOf(1 << 30), ProcessesComplete: true, MIGEnabled: gpu.Some(true),
		Instances: []gpu.Instance{{ID: 1, Profile: "1g.10gb", Memory: memoryOf(1 << 30)}},
	}
	lost := at(0, whole)
	read := lost.sample
	lost.sample = func(second int) (gpu.Sample, error) {
		if second > 350 {
			return gpu.Sample{}, gpu.ErrLost
		}
		return read(second)
	}
	for name, c := range map[string]struct {
		before, then *scriptDevice
		repartitions uint64
		anew         bool
	}{
		"MIG switched on":   {at(0, whole), at(600, mig), 1, true},
		"MIG switched off":  {at(0, mig), at(600, whole), 1, true},
		"lost":              {lost, at(600, whole), 0, true},
		"the clock is back": {at(3600, whole), at(0, whole), 0, true},
		"as it was":         {at(0, whole), at(600, whole), 0, false},
		"MIG as it was":     {at(0, mig), at(600, mig), 0, false},
	} {
		config := withState(t, filepath.Join(t.TempDir(), "state"), "a")
		runSampler(t, &scriptSource{devices: []gpu.Device{c.before}}, config, func(*Sampler, *lines) { after(400 * time.Second) })
		runSampler(t, &scriptSource{devices: []gpu.Device{c.then}}, config, func(s *Sampler, _ *lines) {
			after(60 * time.Second)
			j := s.State().Devices[0].Judgement
			if n := j.Device.Windows[0].N; (n <= 60) != c.anew || j.Resets[detector.ReasonRepartition] != c.repartitions {
				t.Errorf("%s: %d samples, resets %v", name, n, j.Resets)
			}
		})
	}
}

// The histories of GPUs that an exporter has not read yet outlive it, too, for a day after they were made.
func TestHistoriesOfGPUsThatWereNotRead(t *testing.T) {
	config := withState(t, filepath.Join(t.TempDir(), "state"), "a")
	devices := func(from int) []gpu.Device {
		all := []gpu.Device{leakAt(from), leakAt(from), leakAt(from)}
		for i, d := range all {
			d.(*scriptDevice).info = newGPU(i, nil).info
		}
		return all
	}
	runSampler(t, &scriptSource{devices: devices(0)}, config, func(*Sampler, *lines) { after(600 * time.Second) })
	// GPU 0 can be read, GPU 1 hangs at once, GPU 2 is not there.
	now := devices(660)
	var release chan struct{}
	now[1].(*scriptDevice).sample = func(int) (gpu.Sample, error) {
		<-release
		return gpu.Sample{}, errors.New("timeout")
	}
	change := func(c *Config) { release = make(chan struct{}); config(c) }
	runHanging(t, &scriptSource{devices: now[:2]}, change, func(*Sampler, *lines) { after(5 * time.Minute) }, func() { close(release) })
	runSampler(t, &scriptSource{devices: devices(1000)}, config, func(s *Sampler, _ *lines) {
		after(2500 * time.Millisecond)
		for _, d := range s.State().Devices {
			if n := d.Judgement.Device.Windows[0].N; n < 100 {
				t.Errorf("GPU %d: %d samples", d.Info.Index, n)
			}
		}
	})
}

func TestHistoryOfAGPUThatStaysAway(t *testing.T) {
	for age, want := range map[time.Duration]int{23 * time.Hour: 2, 25 * time.Hour: 1} {
		file := filepath.Join(t.TempDir(), "state")
		saved := bubbleStart.Add(-age)
		h := histories{BootID: "a", Saved: saved, Devices: []deviceHistory{{UUID: "GPU-gone", Saved: saved}}}
		must(t, h.write(file))
		runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, file, "a"), func(*Sampler, *lines) {
			after(5 * time.Minute)
			h, err := readHistories(file)
			if err != nil || len(h.Devices) != want {
				t.Errorf("%s after it was saved: %+v, %v", age, h, err)
			}
		})
	}
}

// 250 files that are damaged, or forged with the right checksum: none keeps the exporter from reading its GPU.
func TestDamagedStateFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, withState(t, file, "a"), func(*Sampler, *lines) { after(20 * time.Minute) })
	good, err := os.ReadFile(file)
	must(t, err)
	body, err := stateFile.Read(file)
	must(t, err)
	damage := func(r *rand.Rand, b []byte) []byte {
		b = bytes.Clone(b)
		for range 1 + r.IntN(8) {
			at := r.IntN(len(b))
			switch r.IntN(5) {
			case 0:
				b[at] ^= 1 << r.IntN(8)
			case 1:
				b = b[:max(at, 1)]
			case 2:
				clear(b[at:min(len(b), at+r.IntN(4096))])
			case 3:
				b = slices.Insert(b, at, b[:r.IntN(min(len(b), 100))]...)
			case 4:
				b[r.IntN(min(len(b), 48))] = byte(r.Uint32())
			}
		}
		return b
	}
	set := withState(t, file, "a")
	for seed := range 250 {
		r := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // a failing seed can be had again
		if seed%2 == 0 {
			err = os.WriteFile(file, damage(r, good), 0o600)
		} else {
			err = stateFile.Write(file, damage(r, body))
		}
		must(t, err)
		runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(1300)}}, set, func(s *Sampler, _ *lines) {
			after(3 * time.Second)
			if st := s.State(); len(st.Devices) != 1 || !st.Devices[0].Up || st.Devices[0].Judgement.Device.Windows[0].N == 0 {
				t.Errorf("seed %d: %+v", seed, st.Devices)
			}
		})
	}
}

// The end of a process is noted, whether an exporter sees that or not, as of its last sample.
func TestEndsOverARestart(t *testing.T) {
	device := func(from, end int) []gpu.Device {
		d := newGPU(0, func(second int) (gpu.Sample, error) {
			if second >= end {
				return flat(1 << 30)(second)
			}
			p := process(1, 20<<30)
			p.Owner = &gpu.Owner{Process: "train.py", Runs: 1}
			return flat(21<<30, p)(second)
		})
		d.second = from
		return []gpu.Device{d}
	}
	for name, c := range map[string]struct {
		end, last int
	}{
		"while it is watched": {end: 500, last: 499},
		"over a restart":      {end: 700, last: 600},
		"after a restart":     {end: 900, last: 899},
	} {
		state := withState(t, filepath.Join(t.TempDir(), "state"), "a")
		runSampler(t, &scriptSource{devices: device(0, c.end)}, state, func(*Sampler, *lines) { after(600500 * time.Millisecond) })
		runSampler(t, &scriptSource{devices: device(800, c.end)}, state, func(s *Sampler, _ *lines) {
			after(300 * time.Second)
			for off, want := range map[time.Duration]bool{-62 * time.Second: false, -58 * time.Second: true, 58 * time.Second: true, 62 * time.Second: false} {
				// What ended within a minute of that is meant.
				equal(t, s.heights.Ended(1, scriptStart+time.Duration(c.last)*time.Second+off), want, "%s: whether it ended %s after its last sample", name, off)
			}
		})
	}
}

// What programs gave back is known after a restart and after a reboot, whatever becomes of the histories of the GPUs.
func TestHeightsOutliveARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	var saved []byte
	runSampler(t, &scriptSource{devices: []gpu.Device{leaves(300)}}, withState(t, file, "a"), func(s *Sampler, _ *lines) {
		after(10 * time.Minute)
		saved = s.heights.Save()
	})
	h, err := readHistories(file)
	if err != nil || !bytes.Equal(h.Heights, saved) || bytes.Equal(saved, detector.NewHeights().Save()) {
		t.Fatalf("saved %d bytes, %v", len(saved), err)
	}
	for name, c := range map[string]struct {
		boot   string
		change func(*histories)
		kept   bool
	}{
		"restart": {"a", func(*histories) {}, true},
		"reboot":  {"b", func(*histories) {}, true},
		"a history is damaged": {"a", func(h *histories) {
			h.Devices = []deviceHistory{{UUID: "GPU-0", Memories: []memoryHistory{{Domain: []byte{1, 2, 3}}}}}
		}, true},
		"no histories":     {"a", func(h *histories) { h.Devices = nil }, true},
		"they are damaged": {"a", func(h *histories) { h.Heights = saved[:len(saved)/2] }, false},
	} {
		now := *h
		c.change(&now)
		must(t, now.write(file))
		runSampler(t, &scriptSource{}, withState(t, file, c.boot), func(s *Sampler, out *lines) {
			want, complaints := detector.NewHeights().Save(), 1
			if c.kept {
				want, complaints = saved, 0
			}
			if got := s.heights.Save(); !bytes.Equal(got, want) || out.count("what programs gave back is forgotten") != complaints {
				t.Errorf("%s: %d bytes, want %d; %s", name, len(got), len(want), out.b.String())
			}
		})
	}
}

// A program has the same name after a restart and after a reboot, and another one on each node.
func TestSecretOutlivesARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	secret := func(path, boot string) string {
		o := &owners{}
		state := withState(t, path, boot)
		runSampler(t, &scriptSource{devices: []gpu.Device{leakAt(0)}}, func(c *Config) { state(c); c.Owners = o }, func(*Sampler, *lines) { after(20 * time.Second) })
		return string(o.secret)
	}
	first := secret(file, "a")
	if restarted, rebooted := secret(file, "a"), secret(file, "b"); len(first) != secretSize || restarted != first || rebooted != first {
		t.Errorf("%x, after a restart %x, after a reboot %x", first, restarted, rebooted)
	}
	if secret(file+"-of-another-node", "a") == first {
		t.Error("two nodes have one secret")
	}
	must(t, os.WriteFile(file, []byte("none"), 0o600))
	if secret(file, "a") == first {
		t.Error("a file that cannot be used has told a secret")
	}
}

func FuzzStateFile(f *testing.F) {
	file := filepath.Join(f.TempDir(), "state")
	h := histories{BootID: "a", Devices: []deviceHistory{{UUID: "GPU-0", Memories: []memoryHistory{{Domain: []byte{1}}, {MemoryState: MemoryState{MemoryKey: MemoryKey{Instance: gpu.Some(uint32(1))}}}}}}}
	must(f, h.write(file))
	good, err := stateFile.Read(file)
	must(f, err)
	f.Add(good)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHistories(b)
		if (h == nil) == (err == nil) {
			t.Errorf("%v and %v", h, err)
		}
	})
}
