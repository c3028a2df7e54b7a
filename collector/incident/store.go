// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/savefile"
)

const (
	// Most is how many incidents an exporter keeps. Half of them can be of one minute: in a storm the others are only counted.
	Most = 64
	// maxSize bounds an incident as JSON.
	maxSize = 256 << 10
	// exitWithin is how long after a process the exit code of its container may come.
	exitWithin = 2 * time.Minute
	// Page is where the exporter shows incidents, each at its ID.
	Page   = "/incidents"
	prefix = "incident-"
	suffix = ".json"
)

// ofIncident matches the names of the files of incidents. Others may lie beside them.
var ofIncident = regexp.MustCompile("^" + prefix + `\d{8}T\d{6}\.\d{3}Z-.*\` + suffix + "$")

// Store keeps the last incidents, and writes them into a directory if it has one. All methods but Run may be called from any goroutine,
// and touch no file.
type Store struct {
	dir    string
	most   int
	logger log.Logger
	mu     sync.Mutex // of those that change it
	now    atomic.Pointer[Snapshot]
	queue  chan *Incident // to be written
}

// Snapshot is what a Store has at one moment. It is immutable.
type Snapshot struct {
	List   []*Incident // the oldest first
	Counts map[Count]uint64
}

// Count counts incidents since the exporter started.
type Count struct {
	Kind Kind
	By   string // as Finding.By; "" counts all
}

// NewStore returns a Store of so many incidents. It goes on with those in the directory, which may be "". A nil logger logs nothing.
func NewStore(dir string, most int, logger log.Logger) *Store {
	if logger == nil {
		logger = log.NewNopLogger()
	}
	s := &Store{dir: dir, most: most, logger: logger, queue: make(chan *Incident, most)}
	counts := map[Count]uint64{}
	for _, k := range Kinds {
		counts[Count{Kind: k}] = 0 // increase() does not see the first one of a series that begins with it
		for _, by := range []string{"page", "ticket", "nothing"} {
			if k.Foreseeable() {
				counts[Count{k, by}] = 0
			}
		}
	}
	s.now.Store(&Snapshot{List: s.read(), Counts: counts})
	return s
}

// Now returns what there is. It does not block.
func (s *Store) Now() *Snapshot { return s.now.Load() }

// Add counts an incident, gives it its ID and text, and keeps it.
func (s *Store) Add(i *Incident) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.now.Load()
	next.Counts = maps.Clone(next.Counts)
	next.Counts[Count{Kind: i.Kind}]++
	if i.Kind.Foreseeable() {
		next.Counts[Count{i.Kind, i.Finding.By}]++
	}
	n := len(next.List)
	if storm := n - s.most/2; storm < 0 || i.Time.Sub(next.List[storm].Time).Abs() >= time.Minute { // the clock may have been set back
		i.Version, i.Text = Version, i.describe()
		id := fmt.Sprintf("%s-gpu%s-%s", i.Time.UTC().Format("20060102T150405.000Z"), i.GPU, i.Kind)
		i.ID = id
		for same := 2; slices.ContainsFunc(next.List, func(x *Incident) bool { return x.ID == i.ID }); same++ {
			i.ID = fmt.Sprintf("%s-%d", id, same)
		}
		next.List = append(slices.Clone(next.List[max(0, n+1-s.most):]), i)
		level.Warn(s.logger).Log("msg", i.Text, "kind", i.Kind, "page", Page+"#"+i.ID)
		s.enqueue(i)
	}
	s.now.Store(&next)
}

// Exited notes the exit code of a container in the incidents of its processes.
func (s *Store) Exited(containerID string, code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.now.Load()
	next.List = slices.Clone(next.List)
	for k, i := range next.List {
		of := func(p Process) bool { return p.Ended && p.ContainerID == containerID && !p.ExitCode.OK }
		if !slices.ContainsFunc(i.Processes, of) || time.Since(i.Time) > exitWithin {
			continue
		}
		with := *i
		with.Processes = slices.Clone(i.Processes)
		for n := range with.Processes {
			if of(with.Processes[n]) {
				with.Processes[n].ExitCode = gpu.Some(code)
			}
		}
		next.List[k] = &with
		s.enqueue(&with)
	}
	s.now.Store(&next)
}

// enqueue has Run write an incident. If the disk is that slow, it stays in memory only.
func (s *Store) enqueue(i *Incident) {
	if s.dir == "" {
		return
	}
	select {
	case s.queue <- i:
	default:
	}
}

// Run writes incidents until ctx is done, and then those that wait.
func (s *Store) Run(ctx context.Context) {
	failed := false
	for {
		select {
		case i := <-s.queue:
			err := s.write(i)
			if err != nil && !failed {
				level.Error(s.logger).Log("msg", "incidents cannot be written, they are kept in memory", "dir", s.dir, "err", err)
			}
			failed = err != nil
		case <-ctx.Done():
			for len(s.queue) > 0 {
				_ = s.write(<-s.queue) // the next exporter has one less
			}
			return
		}
	}
}

// write writes an incident, and removes the oldest beyond the most.
func (s *Store) write(i *Incident) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		return fmt.Errorf("%s has %d bytes, and the most are %d", i.ID, len(text), maxSize)
	}
	if err := savefile.Replace(filepath.Join(s.dir, prefix+i.ID+suffix), text); err != nil {
		return err
	}
	names, err := s.names()
	for _, name := range names[:max(0, len(names)-s.most)] {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, name)))
	}
	return err
}

// names returns the files of incidents, the oldest first.
func (s *Store) names() (names []string, err error) {
	files, err := os.ReadDir(s.dir)
	for _, f := range files { // ordered by name, which begins with the time
		if f.Type().IsRegular() && ofIncident.MatchString(f.Name()) {
			names = append(names, f.Name())
		}
	}
	return names, err
}

// read returns the incidents in the directory. One line of the log tells of all that cannot be used.
func (s *Store) read() (list []*Incident) {
	if s.dir == "" {
		return nil
	}
	names, err := s.names()
	bad := 0
	for _, name := range names[max(0, len(names)-s.most):] {
		i, failed := readFile(filepath.Join(s.dir, name))
		if failed != nil {
			err = fmt.Errorf("%s: %w", name, failed)
			bad++
			continue
		}
		list = append(list, i)
	}
	if err != nil {
		level.Warn(s.logger).Log("msg", "not all incidents can be read; the files stay", "dir", s.dir, "unreadable", bad, "err", err)
	}
	return list
}

// readFile reads the file of an incident.
func readFile(path string) (*Incident, error) {
	is, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case is.Size() > maxSize:
		return nil, fmt.Errorf("it has %d bytes, and the most are %d", is.Size(), maxSize)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	i, err := parse(text)
	if err == nil && filepath.Base(path) != prefix+i.ID+suffix {
		return nil, errors.New("it is the copy of another file")
	}
	return i, err
}

// parse parses an incident. What it returns can be shown as it is.
func parse(text []byte) (*Incident, error) {
	i := &Incident{}
	if err := json.Unmarshal(text, i); err != nil {
		return nil, err
	}
	switch {
	case i.Version != Version:
		return nil, fmt.Errorf("it is of version %d of the layout, not %d", i.Version, Version)
	case !slices.Contains(Kinds, i.Kind) || i.ID == "" || i.Step != Step.Seconds() || len(i.Course) > maxCourse || len(i.Processes) > MaxProcesses:
		return nil, errors.New("it is no incident")
	case i.Start.Year() < 1970 || i.Time.Year() > 2200 || i.Start.After(i.Time) || i.Time.Sub(i.Start) >= Span+Step:
		return nil, errors.New("its course is not the hour before it")
	case i.Finding.At != nil && i.Finding.At.After(i.Time):
		return nil, errors.New("its alert came after it")
	}
	return i, nil
}

// maxCourse is how many values a course has at most.
const maxCourse = int(Span/Step) + 1
