// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// later is an incident so long after noon.
func later(d time.Duration) *Incident {
	i := full(OutOfMemory, 1, proc("train.py", 7, true, 1, -1, 60), proc("serve", 8, false, 10))
	i.Time, i.Start = noon.Add(d), noon.Add(d-20*time.Second)
	return i
}

// kept returns the incidents of a Store, the oldest first.
func kept(s *Store) []*Incident {
	list := s.Now().List
	slices.Reverse(list)
	return list
}

// filesIn returns the names in a directory.
func filesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// TestStoreGoesOn has a Store go on with what an earlier one wrote: the last incidents, the same as they were. They are in the order of
// time, as on the disk, though some come late. The name of a file says which one it is, also of a copy.
func TestStoreGoesOn(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	s := NewStore(dir, 4, log.NewLogfmtLogger(&out))
	foreign := []string{".incident-20260301T120000.000Z-gpu0-oom.json42", "incident-report.json", "incident-1999-notes.json", "notes.txt"} // of a crash, and of somebody else
	for _, name := range foreign {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o644))
	}
	for _, n := range []int{3, 0, 1, 2, 6, 5, 4} {
		i := later(time.Duration(n) * time.Hour)
		at := i.Time.Add(-time.Minute)
		i.Finding = Finding{Text: "GPU 0 leaks.", By: "ticket", At: &at, Since: &at}
		i.Processes[0].Allocator, i.Processes[0].Lines = &gpu.Allocator{Reserved: gpu.Some(uint64(5))}, []gpu.Line{{Line: "a.py:1 <f>", Bytes: 3}}
		s.Add(i)
		s.Save()
	}
	now := s.Now()
	testkit.Equal(t, len(now.List), 4, "incidents in memory")
	testkit.Equal(t, now.Counts[Count{Kind: OutOfMemory}], 7, "the count")
	testkit.Equal(t, now.Counts[Count{OutOfMemory, "ticket"}], 7, "the count of those with a ticket")
	var want []string
	for _, i := range now.List {
		name := "incident-" + i.ID + ".json"
		want = append(want, name)
		if is, err := os.Stat(filepath.Join(dir, name)); err != nil || is.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, is.Mode(), err)
		}
	}
	testkit.Equal(t, now.List[0].ID, "20260301T180000.000Z-gpu0-oom-5", "an ID")
	want = append(want, foreign...)
	slices.Sort(want)
	testkit.Equal(t, filesIn(t, dir), want, "the files")
	if lines := strings.Count(out.String(), "\n"); lines != 7 || !strings.Contains(out.String(), "page=/incidents#"+now.List[0].ID) {
		t.Errorf("the log:\n%s", &out)
	}
	out.Reset()
	next := NewStore(dir, 4, log.NewLogfmtLogger(&out))
	again := next.Now()
	testkit.Equal(t, again.List, now.List, "what was read")
	testkit.Equal(t, again.Counts[Count{Kind: OutOfMemory}], 0, "the count of another exporter")
	testkit.Equal(t, again.Counts, NewStore("", 4, nil).Now().Counts, "the counts of a new one")
	testkit.Equal(t, out.String(), "", "the log of a good directory")
	text, err := os.ReadFile(filepath.Join(dir, "incident-"+now.List[0].ID+".json"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "incident-"+now.List[0].ID+"-copy.json"), text, 0o600))
	testkit.Equal(t, NewStore(dir, 4, nil).Now().List[1].ID, now.List[0].ID+"-copy", "the ID of a copy")
	must(t, os.RemoveAll(dir))
	next.Save()
	testkit.Equal(t, next.Now().Written, gpu.Opt[bool]{}, "whether what was read is written again")
	must(t, os.Mkdir(dir, 0o700))
	next.Add(later(9 * time.Hour))
	next.Save()
	testkit.Equal(t, filesIn(t, dir), []string{"incident-20260301T210000.000Z-gpu0-oom-1.json"}, "what is written beside what was read")
}

// TestBadFiles has files that cannot be used beside a good one: it is there, one line tells of the others, and they stay.
func TestBadFiles(t *testing.T) {
	first := NewStore(t.TempDir(), Most, nil)
	first.Add(later(0))
	first.Save()
	i := first.Now().List[0]
	text, err := json.Marshal(i)
	must(t, err)
	changed := func(change func(*Incident)) string {
		other, err := parse(text, nil)
		must(t, err)
		other.ID = "20260301T110000.000Z-gpu0-oom"
		change(other)
		text, err := json.Marshal(other)
		must(t, err)
		return string(text)
	}
	fails := map[string]string{
		"cut":                      string(text[:len(text)/2]),
		"empty":                    "",
		"zeros":                    string(make([]byte, 100)),
		"too long":                 changed(func(x *Incident) { x.Text = strings.Repeat("x", int(file.Most)) }),
		"of a later version":       changed(func(x *Incident) { x.Version++ }),
		"a course that is long":    changed(func(x *Incident) { x.Course = make([]gpu.Opt[uint64], MaxCourse+1) }),
		"many processes":           changed(func(x *Incident) { x.Processes = make([]Process, MaxProcesses+1) }),
		"other steps":              changed(func(x *Incident) { x.Step = 1 }),
		"of the last century":      changed(func(x *Incident) { x.Time = x.Time.AddDate(-100, 0, 0) }),
		"of the next millennium":   changed(func(x *Incident) { x.Time = x.Time.AddDate(1000, 0, 0) }),
		"its alert came behind it": changed(func(x *Incident) { at := x.Time.Add(1); x.Finding.At = &at }),
		"null":                     "null",
	}
	for name, bad := range fails {
		dir := t.TempDir()
		path := filepath.Join(dir, "incident-20260301T110000.000Z-gpu0-oom.json")
		must(t, os.WriteFile(path, []byte(bad), 0o600))
		must(t, os.Mkdir(filepath.Join(dir, "incident-20260301T100000.000Z-gpu0-oom.json"), 0o700))
		must(t, os.Symlink("/dev/zero", filepath.Join(dir, "incident-20260301T101000.000Z-gpu0-oom.json")))
		must(t, file.Write(filepath.Join(dir, "incident-"+i.ID+".json"), text))
		var out bytes.Buffer
		s := NewStore(dir, Most, log.NewLogfmtLogger(&out))
		testkit.Equal(t, s.Now().List, []*Incident{i}, "%s: what was read", name)
		if log := out.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, " unreadable=1 ") {
			t.Errorf("%s: the log is %q", name, log)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDirectoryThatFails has a directory that cannot be written for a while: incidents are in memory, one line and the Store tell it, and
// all are written with the next one once that is possible. A directory that fails again is told again.
func TestDirectoryThatFails(t *testing.T) {
	for name, inTheWay := range map[string]func(dir string) error{
		"absent":               func(string) error { return nil },
		"below a regular file": func(dir string) error { return os.WriteFile(filepath.Dir(dir), nil, 0o600) },
		"of a file for each one": func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "incident-20260301T120000.000Z-gpu0-oom-1.json", "x"), 0o700)
		},
	} {
		parent := filepath.Join(t.TempDir(), "parent")
		dir := filepath.Join(parent, "dir")
		must(t, inTheWay(dir))
		var out bytes.Buffer
		s := NewStore(dir, Most, log.NewLogfmtLogger(&out))
		_, err := os.ReadDir(dir)
		testkit.Equal(t, strings.Count(out.String(), "\n") == 1, err != nil, "%s: whether the log says that it cannot be read", name)
		s.Save()
		testkit.Equal(t, s.Now().Written, gpu.Opt[bool]{}, "%s: whether all are written before there is one", name)
		for n, want := range []bool{false, false, false, true, false} {
			switch n {
			case 3:
				_ = os.Remove(parent) // if it is a file
				must(t, os.RemoveAll(filepath.Join(dir, "incident-20260301T120000.000Z-gpu0-oom-1.json")))
				must(t, os.MkdirAll(dir, 0o700))
			case 4:
				testkit.Equal(t, len(filesIn(t, dir)), 4, "%s: files", name)
				must(t, os.RemoveAll(parent))
			}
			s.Add(later(time.Duration(n) * time.Hour))
			s.Save()
			testkit.Equal(t, s.Now().Written, gpu.Some(want), "%s: whether all are written with number %d", name, n)
		}
		testkit.Equal(t, strings.Count(out.String(), "cannot be written"), 2, "%s: lines of the log on what was not written", name)
		testkit.Equal(t, len(s.Now().List), 5, "%s: incidents in memory", name)
	}
}

// TestWhatFailsIsTriedAgain has a file that cannot be written for a while, and no other incident after it: it is written once that is
// possible, and what is on the disk already is not written again. Nor is one that is too large.
func TestWhatFailsIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "incident-20260301T120000.000Z-gpu0-oom-1.json"), filepath.Join(dir, "incident-20260301T130000.000Z-gpu0-oom-2.json")
	s := NewStore(dir, Most, nil)
	must(t, os.Mkdir(second, 0o700))
	for n := range 3 {
		s.Add(later(time.Duration(n) * time.Hour))
	}
	s.Save()
	must(t, os.WriteFile(first, []byte("it was written"), 0o600))
	s.Save()
	testkit.Equal(t, s.Now().Written, gpu.Some(false), "whether all are written")
	must(t, os.Remove(second))
	s.Save()
	testkit.Equal(t, s.Now().Written, gpu.Some(true), "whether all are written later")
	large := later(3 * time.Hour)
	large.Finding.Text = strings.Repeat("x", int(file.Most))
	s.Add(large)
	s.Save()
	testkit.Equal(t, s.Now().Written, gpu.Some(false), "whether one is written that is larger than the next exporter would read")
	testkit.Equal(t, len(filesIn(t, dir)), 3, "files")
	text, err := os.ReadFile(first)
	must(t, err)
	testkit.Equal(t, string(text), "it was written", "what was on the disk")
}

// TestStorm has a thousand deaths in a minute, on several GPUs at once and with a clock that was set back: all are counted, half of
// the places stay with what was before, and each ID is there once.
func TestStorm(t *testing.T) {
	s := NewStore(t.TempDir(), Most, nil) // nobody writes: nothing waits for the disk
	for n := range Most {
		s.Add(later(time.Duration(n) * time.Hour))
	}
	old := kept(s)
	var all sync.WaitGroup
	for gpu := range 4 {
		all.Go(func() {
			for range 250 {
				i := later((Most-1)*time.Hour - 10*time.Minute)
				i.GPU = strconv.Itoa(gpu % 2)
				s.Add(i)
			}
		})
	}
	all.Wait()
	testkit.Equal(t, s.Now().Counts[Count{OutOfMemory, "nothing"}], Most+1000, "the count")
	now := kept(s)
	before := slices.DeleteFunc(slices.Clone(now), func(i *Incident) bool { return !slices.Contains(old, i) })
	testkit.Equal(t, before, old[Most/2:], "what is kept of the time before")
	ids := map[string]bool{}
	for _, i := range now {
		ids[i.ID] = true
	}
	testkit.Equal(t, len(ids), Most, "IDs")
	after := later(Most * time.Hour)
	s.Add(after)
	testkit.Equal(t, kept(s)[Most-1], after, "the last one an hour after the storm")
}

// FuzzParse has files of whatever content: an error, or an incident that can be shown and written again.
func FuzzParse(f *testing.F) {
	s := NewStore("", Most, nil)
	s.Add(later(0))
	text, err := json.Marshal(s.Now().List[0])
	must(f, err)
	f.Add(text)
	f.Add([]byte(`{"version":1}`))
	f.Add(bytes.Replace(text, []byte(`"by":"nothing"`), []byte(`"by":"page","at":"2026-03-01T11:00:00Z","since":null`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		i, err := parse(text, nil)
		if (i == nil) == (err == nil) {
			t.Fatalf("%v and %v", i, err)
		}
		if err != nil {
			return
		}
		if i.Time.Year() < 1970 || i.Time.Year() > 2200 || len(i.Course) > MaxCourse {
			t.Errorf("a course of %d values to %s", len(i.Course), i.Time)
		}
		_ = i.describe()
		text, err = json.Marshal(i)
		must(t, err)
		again, err := parse(text, nil)
		must(t, err)
		testkit.Equal(t, again.ID+again.Text+again.Time.String(), i.ID+i.Text+i.Time.String(), "read again")
	})
}
