// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// An answer is the probe's reply to a request: probe/README.md has its layout.
const (
	answerSize   = 65536
	answerMagic  = "GPUSITES"
	answerHeader = 64
	maxSites     = 20
	maxFrames    = 32
	maxLine      = 300 // bytes of a frame
	maxReason    = 200
)

// SitesState is the progress of a request.
type SitesState string

// The states of a request.
const (
	SitesAsked     SitesState = "asked"     // and the process has not begun yet
	SitesRecording SitesState = "recording" // its allocations
	SitesDone      SitesState = "done"
	SitesRefused   SitesState = "refused" // for Reason
)

// Sites is where a process allocates memory that stays.
type Sites struct {
	State  SitesState
	Reason string        // why there is no answer
	Asked  time.Time     // the time of the request
	Over   time.Duration // how long the process records
	Pause  time.Duration // how long the longest snapshot stopped the program
	// List has the largest growth first, over all GPUs of the process. It is empty until the process is done.
	List []Site
	// Unsure is the number of other lines that grew, by less than twice the memory from before that was freed meanwhile:
	// they may only have replaced it.
	Unsure uint32
}

// Site is a stack that allocated memory of which more and more stays.
type Site struct {
	UUID string `json:"uuid"` // as Record.UUID
	// Growth is the growth of the memory that stays, in bytes: the median of the later snapshots, all larger than the early
	// ones, minus the median of the early ones.
	Growth uint64 `json:"growth"`
	// Live is the number of bytes that stay, of those allocated since the recording began, and Blocks of their pieces.
	Live   uint64 `json:"live"`
	Blocks uint64 `json:"blocks"`
	// Line is the innermost frame outside of the framework, as file:line function; "" if no Python code allocated, as in a
	// backward pass.
	Line   string   `json:"line"`
	Frames []string `json:"frames"` // the innermost first
}

// answer is what a process writes beside its page.
type answer struct {
	start  uint64 // of the process that writes, as in gpu.ProcessID
	number uint32 // of the request
	text   []byte // JSON, untrusted and of a bounded size
}

// parseAnswer parses the head of an answer.
func parseAnswer(b []byte) (answer, error) {
	if err := checkHeader(b, answerMagic, max(len(b), answerHeader)); err != nil {
		return answer{}, err
	}
	le := binary.LittleEndian
	a := answer{start: le.Uint64(b[24:]), number: le.Uint32(b[32:])}
	n := le.Uint32(b[36:])
	if n > uint32(len(b)-answerHeader) {
		return answer{}, fmt.Errorf("a text of %d bytes", n)
	}
	a.text = b[answerHeader:][:n]
	return a, nil
}

// parseSites parses the text of an answer: the largest growth first, and names that print.
func parseSites(text []byte) (Sites, error) {
	var t struct {
		State          SitesState
		Reason         string
		Seconds, Pause float64
		Unsure         uint32
		Sites          []Site
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return Sites{}, fmt.Errorf("its text: %w", err)
	}
	s := Sites{State: t.State, Reason: printable(t.Reason, maxReason), Over: seconds(t.Seconds), Pause: seconds(t.Pause)}
	switch t.State {
	case SitesRecording, SitesRefused: // the names become labels, and must not change
	case SitesDone:
		s.Unsure, s.List = t.Unsure, slices.Clone(t.Sites[:min(len(t.Sites), maxSites)])
		for i := range s.List {
			s.List[i].clean()
		}
		slices.SortStableFunc(s.List, func(a, b Site) int { return cmp.Compare(b.Growth, a.Growth) })
	default:
		return Sites{}, errors.New("its state is none")
	}
	return s, nil
}

// clean leaves names that print, and keeps nothing else that the process wrote.
func (s *Site) clean() {
	s.UUID, s.Line = bareUUID(printable(s.UUID, 48)), printable(s.Line, maxLine)
	s.Frames = append([]string(nil), s.Frames[:min(len(s.Frames), maxFrames)]...)
	for i, f := range s.Frames {
		s.Frames[i] = printable(f, maxLine)
	}
}

// seconds returns a duration of a number that a process chose.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(math.Min(s, 1e6) * float64(time.Second))
}

// printable returns at most the last n bytes of a text, for a label or a terminal: an underscore replaces characters that do
// not print.
func printable(s string, n int) string {
	s = s[max(0, len(s)-n):]
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}
