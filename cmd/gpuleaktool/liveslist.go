// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/livesfile"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// shortDigest is how much of the digest of an image the table shows.
const shortDigest = len("sha256:") + 12

// livesList lists what is in lives files.
type livesList struct {
	files    []string
	output   string
	location *time.Location
	now      time.Time
}

// listedProgram is a program and what its lives say now.
type listedProgram struct {
	lives.Program
	file  string
	prior lives.Prior
}

func (l *livesList) run(stdout io.Writer) error {
	var all []listedProgram
	var notes bytes.Buffer
	for _, name := range l.files {
		f, err := readLives(name)
		if err != nil {
			return err
		}
		list := l.programs(name, f.Book)
		all = append(all, list...)
		fmt.Fprintln(&notes, noteOf(name, f))
	}
	write := l.writeTable
	if l.output == outputJSON {
		write, notes = writeLivesLines, bytes.Buffer{}
	}
	var b bytes.Buffer
	err := write(&b, all)
	if err == nil {
		_, err = io.Copy(stdout, io.MultiReader(&b, &notes))
	}
	if err != nil {
		return fmt.Errorf("writing the %s: %w", l.output, err)
	}
	return nil
}

// programs returns what a book holds, those that ended last first.
func (l *livesList) programs(file string, b *lives.Book) (list []listedProgram) {
	now := time.Duration(l.now.UnixNano())
	for _, p := range b.Programs() {
		x := listedProgram{Program: p, file: file}
		if prior := b.Prior(p.ID, now); !prior.Kin {
			x.prior = prior
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b listedProgram) int {
		return cmp.Or(-cmp.Compare(a.last(), b.last()), cmp.Compare(a.ID.Program, b.ID.Program), cmp.Compare(a.ID.Image, b.ID.Image))
	})
	return list
}

// last returns when the last life ended.
func (p *listedProgram) last() lives.Seconds { return p.Lives[len(p.Lives)-1].Ended }

// noteOf says what a file is.
func noteOf(name string, f *livesfile.File) string {
	programs, n := sizeOf(f.Book)
	text := fmt.Sprintf("%s: %s of %s, written at %s UTC, ", name, countLives(n), count(programs, "program"), f.Saved.UTC().Format("2006-01-02 15:04"))
	switch {
	case len(f.Secret) > 0:
		return text + "known by the random secret of its node."
	case f.Node:
		return text + "exported, and of use to no other node: known by the random secret of one."
	}
	return text + "known by a key file."
}

func (l *livesList) writeTable(b *bytes.Buffer, list []listedProgram) error {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	head := []string{"PROGRAM", "IMAGE", "KNOWN BY", "LIVES", "HEIGHTS", "PEAK", "CEILING", "LEAKED", "LAST ENDED"}
	if len(l.files) > 1 {
		head = append([]string{"FILE"}, head...)
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for i := range list {
		p := &list[i]
		cells := []string{
			cmp.Or(humanize.Printable(p.ID.Program, longestName), "-"), cmp.Or(humanize.Printable(shortImage(p.ID.Image), longestName), "-"),
			cmp.Or(p.ID.Basis.String(), "-"), strconv.Itoa(len(p.Lives)), p.heights(), amount(p.peak()), amount(p.prior.Ceiling),
			strconv.Itoa(p.leaked()), moment(p.last().Duration(), l.location),
		}
		if len(l.files) > 1 {
			cells = append([]string{p.file}, cells...)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush() // into a buffer
	b.WriteByte('\n')
	return nil
}

// shortImage cuts the digest of an image.
func shortImage(image string) string {
	if repository, digest, ok := strings.Cut(image, "@"); ok && len(digest) > shortDigest {
		return repository + "@" + digest[:shortDigest]
	}
	return image
}

// amount writes an amount of memory, - for one that is not known.
func amount(v lives.Bytes) string {
	if v == 0 {
		return "-"
	}
	return humanize.Bytes(float64(v))
}

// heights writes the lowest and the highest of the heights that are known.
func (p *listedProgram) heights() string {
	var low, high lives.Bytes
	for i := range p.Lives {
		if h := p.Lives[i].Height; h > 0 {
			low, high = cmp.Or(min(low, h), h), max(high, h)
		}
	}
	if a, b := amount(low), amount(high); a != b {
		return a + " to " + b
	}
	return amount(high)
}

func (p *listedProgram) peak() (peak lives.Bytes) {
	for i := range p.Lives {
		peak = max(peak, p.Lives[i].Peak)
	}
	return peak
}

func (p *listedProgram) leaked() (n int) {
	for i := range p.Lives {
		if p.Lives[i].Leaked {
			n++
		}
	}
	return n
}

// programLine is what --output=json prints of a program. What is not known is null.
type programLine struct {
	File    string     `json:"file"`
	Program string     `json:"program"`
	Image   string     `json:"image"`
	Basis   string     `json:"known_by"`
	Counted int        `json:"prior_lives"`
	Ceiling *float64   `json:"ceiling_bytes"`
	Lives   []lifeLine `json:"lives"`
}

type lifeLine struct {
	Ended     time.Time `json:"ended"`
	Lasted    float64   `json:"lasted_seconds"`
	Loaded    *float64  `json:"loaded_seconds"`
	Load      *float64  `json:"load_bytes"`
	Height    *float64  `json:"height_bytes"`
	Peak      *float64  `json:"peak_bytes"`
	Rate      *float64  `json:"rate_bytes_per_second"`
	RateError *float64  `json:"rate_error_bytes_per_second"`
	End       string    `json:"end"`
	Growing   bool      `json:"growing"`
	Leaked    bool      `json:"leaked"`
	Full      bool      `json:"full"`
}

// writeLivesLines writes a line for each program.
func writeLivesLines(b *bytes.Buffer, list []listedProgram) error {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	known := func(v lives.Bytes) *float64 { return finite(detector.Value{V: float64(v), OK: v > 0}) }
	for i := range list {
		p := &list[i]
		line := programLine{
			File: p.file, Program: p.ID.Program, Image: p.ID.Image, Basis: p.ID.Basis.String(), Counted: p.prior.Lives, Ceiling: known(p.prior.Ceiling),
		}
		for k := range p.Lives {
			x := &p.Lives[k]
			line.Lives = append(line.Lives, lifeLine{
				Ended: wall(x.Ended.Duration()), Lasted: x.Lasted.Duration().Seconds(),
				Loaded: finite(detector.Value{V: x.Loaded.Duration().Seconds(), OK: x.Load > 0}), Load: known(x.Load),
				Height: known(x.Height), Peak: known(x.Peak), Rate: known(x.Rate), RateError: known(x.RateError),
				End: x.End.String(), Growing: x.Growing, Leaked: x.Leaked, Full: x.Full,
			})
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
