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

func withLife(f *File) *File {
	f.Book.Add(lives.ID{Exact: 1, Kin: 2, Program: "train.py"}, &lives.Life{Ended: 100, Height: 5, Peak: 6}, 1<<62)
	return f
}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	f := withLife(New())
	f.Saved = time.Unix(1_771_234_567, 0).UTC()
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Book.Programs(), f.Book.Programs()) {
		t.Errorf("%+v", got.Book.Programs())
	}
	if got.Book, f.Book = nil, nil; !reflect.DeepEqual(got, f) || len(f.Secret) != secretSize {
		t.Errorf("%+v, want %+v", got, f)
	}
	if bytes.Equal(New().Secret, New().Secret) {
		t.Error("two nodes have the same secret")
	}
}

// At the bounds of a book a file takes some 3 MiB, a tenth of what it may.
func TestSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lives")
	f := New()
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
	secret := fmt.Sprintf(`"secret":"%s="`, strings.Repeat("A", 43))
	for body, says := range map[string]string{
		``:                                       "unexpected end",
		`{}`:                                     "its secret has 0 bytes, not 32",
		`{"secret":"AA=="}`:                      "its secret has 1 bytes, not 32",
		`{` + secret + `}`:                       "not a book of lives",
		`{` + secret + `,"programs":"AQAAAAE="}`: "not a book of lives",
		`{` + secret + `,"programs":"AQAAAAA="}`: "",
	} {
		f, err := parse([]byte(body))
		if says == "" && (err != nil || len(f.Secret) != secretSize) || says != "" && (!errors.Is(err, savefile.ErrUnusable) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %+v, %v", body, f, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	path := filepath.Join(f.TempDir(), "lives")
	if err := withLife(New()).Write(path); err != nil {
		f.Fatal(err)
	}
	body, err := kind.Read(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"secret":"AA==","programs":"AQAAAAA="}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if file, err := parse(b); (file == nil) == (err == nil) {
			t.Errorf("%v and %v", file, err)
		}
	})
}
