// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package livesfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/savefile"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

var fleet = []byte("of all nodes")

func withLife(f *File) *File {
	f.Book.Add(lives.ID{Exact: 1, Kin: 2, Program: "train.py"}, &lives.Life{Ended: 100, Height: 5, Peak: 6}, 1<<62)
	return f
}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	for name, c := range map[string]struct {
		secret []byte
		node   bool
	}{"of a node": {nil, true}, "of a fleet": {fleet, false}} {
		f := withLife(New(c.secret))
		f.Saved = time.Unix(1_771_234_567, 0).UTC()
		if f.Node != c.node || (len(f.Secret) == secretSize) != c.node {
			t.Errorf("%s: %+v", name, f)
		}
		if err := f.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Book.Programs(), f.Book.Programs()) {
			t.Errorf("%s: %+v", name, got.Book.Programs())
		}
		if got.Book, f.Book = nil, nil; !reflect.DeepEqual(got, f) {
			t.Errorf("%s: %+v, want %+v", name, got, f)
		}
		if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, fleet) {
			t.Errorf("%s: the secret of the fleet is in the file: %v", name, err)
		}
	}
	if bytes.Equal(New(nil).Secret, New(nil).Secret) {
		t.Error("two nodes have the same secret")
	}
}

// At the bounds of a book a file takes some 3 MiB, a tenth of what it may.
func TestSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	f := New(nil)
	for i := range lives.MaxPrograms {
		id := lives.ID{Exact: lives.Key(i + 1), Program: fmt.Sprintf("train-%d.py", i), Image: strings.Repeat("registry/", 30)}
		for d := range lives.MaxLives {
			f.Book.Add(id, &lives.Life{Ended: lives.Seconds(d), Height: 5, Peak: 6}, 1<<62)
		}
	}
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	is, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%.2f MiB", float64(is.Size())/(1<<20)); is.Size() > kind.Most/10 {
		t.Errorf("%d bytes", is.Size())
	}
}

func TestParse(t *testing.T) {
	const check = `"key_check":"00000000000000ff"`
	for body, says := range map[string]string{
		``:   "unexpected end",
		`{}`: "of which secret",
		`{"key_check":"ff","programs":"AQAAAAA="}`:                "of which secret",
		`{"key_check":"00000000000000fg"}`:                        "of which secret",
		`{` + check + `}`:                                         "not a book of lives",
		`{` + check + `,"programs":"AQAAAAE="}`:                   "not a book of lives",
		`{` + check + `,"programs":"AQAAAAA="}`:                   "",
		`{` + check + `,"secret":"AAAA","programs":"AQAAAAA="}`:   "not those of its secret",
		`{` + check + `,"key_of_this_node":true,"secret":"AA=="}`: "not those of its secret",
	} {
		f, err := parse([]byte(body))
		if says == "" && (err != nil || f.Check != 255) || says != "" && (!errors.Is(err, savefile.ErrUnusable) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %+v, %v", body, f, err)
		}
	}
}

func TestFits(t *testing.T) {
	exported := New(nil)
	exported.Secret = nil
	for name, c := range map[string]struct {
		file   *File
		secret []byte
		fits   bool
	}{
		"the node's own":                     {New(nil), nil, true},
		"the fleet's":                        {New(fleet), fleet, true},
		"another fleet's":                    {New([]byte("other")), fleet, false},
		"the node's, and there is a fleet's": {New(nil), fleet, false},
		"the fleet's, and none is given":     {New(fleet), nil, false},
		"exported by a node":                 {exported, nil, false},
	} {
		if err := c.file.Fits(c.secret); (err == nil) != c.fits || err != nil && !errors.Is(err, ErrOtherKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMerge(t *testing.T) {
	to := New(fleet)
	if n, err := to.Merge(withLife(New(fleet)), time.Now()); n != 1 || err != nil {
		t.Errorf("%d lives added, %v", n, err)
	}
	if n, err := to.Merge(withLife(New(nil)), time.Now()); n != 0 || !errors.Is(err, ErrOtherKey) {
		t.Errorf("of another secret: %d lives added, %v", n, err)
	}
}

func FuzzParse(f *testing.F) {
	path := filepath.Join(f.TempDir(), "lives")
	if err := withLife(New(nil)).Write(path); err != nil {
		f.Fatal(err)
	}
	body, err := kind.Read(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"key_check":"00000000000000ff","programs":"AQAAAAA="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if file, err := parse(b); (file == nil) == (err == nil) {
			t.Errorf("%v and %v", file, err)
		}
	})
}
