// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
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
	// Page is where the exporter shows incidents, each at its ID.
	Page   = "/incidents"
	prefix = "incident-"
	suffix = ".json"
	// files matches the names of the files of incidents. Others may lie beside them.
	files = prefix + "[1-9]???????T??????.???Z-*" + suffix
)

// file is that of an incident: its JSON alone.
var file = savefile.Kind{Name: "incident", Most: 256 << 10}

// Store keeps the last incidents, and writes them into a directory if it has one. Its methods may be called from any goroutine.
// Only Save touches files.
type Store struct {
	dir    string
	most   int
	logger log.Logger
	mu     sync.Mutex // never held while a file is touched
	now    Snapshot
}

// Snapshot is what a Store has at one moment.
type Snapshot struct {
	List   []*Incident // the newest first, by their times
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
	s := &Store{dir: dir, most: most, logger: logger, now: Snapshot{Counts: map[Count]uint64{}}}
	if dir != "" {
		s.now.List = s.read()
	}
	return s
}

// Now returns what there is. It does not block.
func (s *Store) Now() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{slices.Clone(s.now.List), maps.Clone(s.now.Counts), s.now.Written}
}

// Add counts an incident, gives it its ID and text, keeps it and logs it. In a storm it only counts it.
func (s *Store) Add(i *Incident) {
	s.mu.Lock()
	s.now.Counts[Count{Kind: i.Kind}]++
	s.now.Counts[Count{i.Kind, i.Finding.By}]++
	list, half := s.now.List, s.most/2
	at := sort.Search(len(list), func(n int) bool { return !i.Time.Before(list[n].Time) })
	storm := len(list) >= at+half && i.Time.Sub(list[at+half-1].Time) < time.Minute
	if !storm {
		i.Version, i.Text = Version, i.describe()
		i.ID = fmt.Sprintf("%s-gpu%s-%s-%d", i.Time.UTC().Format("20060102T150405.000Z"), i.GPU, i.Kind, s.now.Counts[Count{Kind: i.Kind}])
		list = slices.Insert(list, at, i)
		s.now.List = list[:min(len(list), s.most)]
	}
	s.mu.Unlock()
	if !storm {
		level.Warn(s.logger).Log("msg", i.Text, "kind", i.Kind, "page", Page+"#"+i.ID)
	}
}

// Save writes the incidents that are not on the disk, and removes the oldest files. Call it again and again: what failed is done then.
func (s *Store) Save() {
	now := s.Now()
	list := slices.DeleteFunc(now.List, func(i *Incident) bool { return i.saved.Load() })
	fails := now.Written == gpu.Some(false)
	if s.dir == "" || len(list) == 0 && !fails {
		return
	}
	var err error
	for _, i := range list {
		text, failed := json.Marshal(i)
		if failed == nil {
			failed = file.Write(filepath.Join(s.dir, prefix+i.ID+suffix), text)
		}
		i.saved.Store(failed == nil)
		err = cmp.Or(err, failed)
	}
	names, failed := s.names()
	err = cmp.Or(err, failed)
	for _, name := range names[:max(0, len(names)-s.most)] {
		err = cmp.Or(err, os.Remove(filepath.Join(s.dir, name)))
	}
	if err != nil && !fails {
		level.Error(s.logger).Log("msg", "incidents cannot be written, they are kept in memory", "dir", s.dir, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Written = gpu.Some(err == nil)
}

// names returns the files of incidents, the oldest first.
func (s *Store) names() (names []string, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries { // ordered by name, which begins with the time
		if is, _ := filepath.Match(files, e.Name()); is && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// read returns the incidents in the directory. One line of the log tells of all that cannot be used.
func (s *Store) read() (list []*Incident) {
	names, err := s.names()
	names = names[max(0, len(names)-s.most):]
	for _, name := range slices.Backward(names) {
		i, failed := parse(file.Read(filepath.Join(s.dir, name)))
		if failed != nil {
			err = fmt.Errorf("%s: %w", name, failed)
			continue
		}
		i.ID = name[len(prefix) : len(name)-len(suffix)]
		i.saved.Store(true)
		list = append(list, i)
	}
	if err != nil {
		level.Warn(s.logger).Log("msg", "not all incidents can be read; the files stay", "dir", s.dir, "unreadable", len(names)-len(list), "err", err)
	}
	return list
}

// parse parses an incident, unless it could not be read. What it returns can be shown as it is.
func parse(text []byte, err error) (*Incident, error) {
	i := &Incident{}
	if err = cmp.Or(err, json.Unmarshal(text, i)); err != nil {
		return nil, err
	}
	switch {
	case i.Version != Version:
		return nil, fmt.Errorf("it is of version %d of the layout, not %d", i.Version, Version)
	case i.Step != Step.Seconds() || len(i.Course) > MaxCourse || len(i.Processes) > MaxProcesses,
		i.Time.Year() < 1970 || i.Time.Year() > 2200, i.Finding.At != nil && i.Finding.At.After(i.Time):
		return nil, errors.New("it is no incident")
	}
	return i, nil
}
