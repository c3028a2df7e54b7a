// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"cmp"
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
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/savefile"
)

const (
	// Most is how many incidents an exporter keeps. Half of them can be of one minute: in a storm the others are only counted.
	Most = 64
	// exitWithin is how long after a process the exit code of its container may come.
	exitWithin = 2 * time.Minute
	// retryWrite is how long after an error incidents are written again. The next incident may be weeks away.
	retryWrite = time.Minute
	// Page is where the exporter shows incidents, each at its ID.
	Page   = "/incidents"
	prefix = "incident-"
	suffix = ".json"
)

// file is that of an incident: its JSON alone.
var file = savefile.Kind{Name: "incident", Most: 256 << 10}

// ofIncident matches the names of the files of incidents. Others may lie beside them.
var ofIncident = regexp.MustCompile("^" + prefix + `\d{8}T\d{6}\.\d{3}Z-.*\` + suffix + "$")

// Store keeps the last incidents, and writes them into a directory if it has one. All methods but Run and Save may be called from any
// goroutine, and touch no file.
type Store struct {
	dir    string
	most   int
	logger log.Logger
	added  chan struct{} // has Run save
	mu     sync.Mutex    // never held while a file is touched
	now    Snapshot
	saving sync.Mutex  // of Save
	saved  []*Incident // what is on the disk
}

// Snapshot is what a Store has at one moment.
type Snapshot struct {
	List   []*Incident // the newest first
	Counts map[Count]uint64
	// Written tells whether all could be written the last time; absent before that, and without a directory.
	Written gpu.Opt[bool]
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
	s := &Store{dir: dir, most: most, logger: logger, added: make(chan struct{}, 1)}
	s.saved = s.read()
	s.now = Snapshot{List: slices.Clone(s.saved), Counts: map[Count]uint64{}}
	for k, foreseeable := range foreseeable {
		s.now.Counts[Count{Kind: k}] = 0 // increase() does not see the first one of a series that begins with it
		for _, by := range []string{"page", "ticket", "nothing"} {
			if foreseeable {
				s.now.Counts[Count{k, by}] = 0
			}
		}
	}
	return s
}

// Now returns what there is. It does not block.
func (s *Store) Now() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{slices.Clone(s.now.List), maps.Clone(s.now.Counts), s.now.Written}
}

// Add counts an incident, gives it its ID and text, and keeps it.
func (s *Store) Add(i *Incident) {
	if s.keep(i) {
		level.Warn(s.logger).Log("msg", i.Text, "kind", i.Kind, "page", Page+"#"+i.ID)
		s.wake()
	}
}

// keep is Add without the log and the disk. It reports whether there was a place: in a storm there is none.
func (s *Store) keep(i *Incident) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Counts[Count{Kind: i.Kind}]++
	if foreseeable[i.Kind] {
		s.now.Counts[Count{i.Kind, i.Finding.By}]++
	}
	list, half := s.now.List, s.most/2
	if len(list) >= half && i.Time.Sub(list[half-1].Time).Abs() < time.Minute { // the clock may have been set back
		return false
	}
	i.Version, i.Text = Version, i.describe()
	id := fmt.Sprintf("%s-gpu%s-%s", i.Time.UTC().Format("20060102T150405.000Z"), i.GPU, i.Kind)
	i.ID = id
	for same := 2; slices.ContainsFunc(list, func(x *Incident) bool { return x.ID == i.ID }); same++ {
		i.ID = fmt.Sprintf("%s-%d", id, same)
	}
	s.now.List = slices.Insert(list[:min(len(list), s.most-1)], 0, i)
	return true
}

// Exited notes the exit code of a container in the incidents of its processes.
func (s *Store) Exited(containerID string, code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, i := range s.now.List {
		if time.Since(i.Time) > exitWithin {
			continue
		}
		with := *i
		with.Processes = slices.Clone(i.Processes)
		for n := range with.Processes {
			if p := &with.Processes[n]; p.Ended && p.ContainerID == containerID && !p.ExitCode.OK {
				p.ExitCode, s.now.List[k] = gpu.Some(code), &with
			}
		}
	}
	s.wake()
}

// wake has Run save what is new.
func (s *Store) wake() {
	select {
	case s.added <- struct{}{}:
	default: // it will
	}
}

// Run saves incidents until ctx is done, and again and again those that could not be.
func (s *Store) Run(ctx context.Context) {
	retry := time.NewTicker(retryWrite)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.added:
		case <-retry.C:
		}
		s.Save()
	}
}

// Save writes the incidents that are not on the disk.
func (s *Store) Save() {
	if s.dir == "" || !s.saving.TryLock() { // Run is stuck at the disk
		return
	}
	defer s.saving.Unlock()
	now := s.Now()
	if slices.Equal(now.List, s.saved) && now.Written != gpu.Some(false) {
		return
	}
	var saved []*Incident
	var err error
	for _, i := range now.List {
		if !slices.Contains(s.saved, i) {
			if failed := s.write(i); failed != nil {
				err = cmp.Or(err, failed)
				continue
			}
		}
		saved = append(saved, i)
	}
	s.saved = saved
	if err = cmp.Or(err, s.clear()); err != nil && now.Written != gpu.Some(false) {
		level.Error(s.logger).Log("msg", "incidents cannot be written, they are kept in memory", "dir", s.dir, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Written = gpu.Some(err == nil)
}

// write writes an incident.
func (s *Store) write(i *Incident) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return file.Write(filepath.Join(s.dir, prefix+i.ID+suffix), text)
}

// clear removes the oldest files beyond the most.
func (s *Store) clear() error {
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
	for _, name := range slices.Backward(names[max(0, len(names)-s.most):]) {
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
	text, err := file.Read(path)
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
	_, known := foreseeable[i.Kind]
	switch {
	case i.Version != Version:
		return nil, fmt.Errorf("it is of version %d of the layout, not %d", i.Version, Version)
	case !known || i.ID == "" || i.Step != Step.Seconds() || len(i.Course) > maxCourse || len(i.Processes) > MaxProcesses:
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
