// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/state"
)

// stateVersion is the version of the layout that Save writes: of the exported fields of head, savedMember, savedGroup
// and their parts. A release that finds another version starts without history.
const stateVersion = 1

// mostValue bounds the size of a head, a member or a group in a state, in bytes. Three series of four
// windows take 100 kB at most.
const mostValue = 256 << 10

// head is the begin of a state. The members and the groups come after it.
type head[K comparable] struct {
	Past                    past
	Exits                   process.Exits[K]
	Used, Residual, Resting *series.Series
	Members, Groups         int
}

type savedMember[K comparable] struct {
	Key    K
	Member *member
}

type savedGroup[K comparable] struct {
	Name  groupName
	Group *group[K]
}

// Save appends the history of the domain to b: Restore continues as if the
// domain had never been away.
func (d *Domain[K]) Save(b []byte) []byte {
	to := bytes.NewBuffer(append(b, stateVersion))
	encoder := gob.NewEncoder(to)
	write := func(v any) {
		if err := encoder.Encode(v); err != nil {
			panic("detector: saving: " + err.Error()) // of a type that gob cannot write, not of a value
		}
	}
	write(&head[K]{d.past, d.exits, d.used, d.residual, d.resting, len(d.members), len(d.groups)})
	for key, m := range d.members {
		write(&savedMember[K]{key, m})
	}
	for name, g := range d.groups {
		write(&savedGroup[K]{name, g})
	}
	return to.Bytes()
}

// Restore replaces the history by one that Save wrote. known reports false for a
// member that must not be restored: after a reboot another process may have its number.
// On an error the domain is as new. Windows of another length start empty.
func (d *Domain[K]) Restore(b []byte, known func(K) bool) error {
	d.clear()
	err := d.restore(b, known)
	if err == nil {
		return nil
	}
	d.past.Resets = [NumReasons]uint64{}
	d.clear()
	return fmt.Errorf("restoring the detector: %w of version %d: %w", state.Err, stateVersion, err)
}

type stateReader struct {
	left    io.LimitedReader
	in      *bufio.Reader
	decoder *gob.Decoder
}

// read reads a value, of mostValue bytes at most, and checks it: no time in it is much later than last.
func (r *stateReader) read(v any, last *time.Duration) error {
	r.left.N = mostValue
	if err := r.decoder.Decode(v); err != nil {
		return err
	}
	if !state.Possible(v, *last) {
		return errors.New("it holds what cannot be")
	}
	return nil
}

func (d *Domain[K]) restore(b []byte, known func(K) bool) error {
	if len(b) == 0 || b[0] != stateVersion {
		return errors.New("it is of another version")
	}
	r := stateReader{left: io.LimitedReader{R: bytes.NewReader(b[1:])}}
	r.in = bufio.NewReader(&r.left)
	r.decoder = gob.NewDecoder(r.in)
	var h head[K]
	if err := r.read(&h, &h.Past.Last); err != nil {
		return err
	}
	d.past, d.exits, d.used, d.residual, d.resting = h.Past, h.Exits, h.Used, h.Residual, h.Resting
	d.exits.List = slices.DeleteFunc(d.exits.List, func(e process.Exit[K]) bool { return !known(e.Key) })
	for range h.Members {
		var s savedMember[K]
		if err := r.read(&s, &h.Past.Last); err != nil {
			return err
		}
		if known(s.Key) {
			d.members[s.Key] = s.Member
		}
	}
	for range h.Groups {
		var s savedGroup[K]
		if err := r.read(&s, &h.Past.Last); err != nil {
			return err
		}
		g := s.Group
		g.key, g.Accused = g.Culprit, g.Accused && known(g.Culprit)
		d.groups[s.Name] = g
	}
	r.left.N = 1
	if _, err := r.in.ReadByte(); err == nil {
		return errors.New("there is more behind it")
	}
	d.Reconfigure()
	return nil
}

// Check implements state.Checker, as do those below.
func (h *head[K]) Check(time.Duration) bool {
	return h.Past.Last < math.MaxInt64/2 && (h.Past.Listed == 0 || h.Residual != nil) && h.Members <= MaxMembers && h.Groups <= MaxGroups
}

func (s *savedMember[K]) Check(time.Duration) bool { return s.Member != nil }

func (s *savedGroup[K]) Check(time.Duration) bool { return s.Group != nil }

func (m *member) Check(time.Duration) bool {
	return m.Series != nil && (m.Live == nil) == (m.Untracked == nil)
}

// Check hides that of the series, which may be nil.
func (*group[K]) Check(time.Duration) bool { return true }
