// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package savefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

var must = testkit.Must

var kind = Kind{Name: "test", Version: 2, Most: 1 << 20}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := kind.Read(path); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading the test file: ") {
		t.Errorf("of an absent file: %v", err)
	}
	// Others can no longer read the file: it may hold a secret.
	must(t, os.WriteFile(path, nil, 0o644))
	for _, body := range []string{"", "text\nof lines\n", "\x00"} {
		must(t, kind.Write(path, []byte(body)))
		if got, err := kind.Read(path); err != nil || string(got) != body {
			t.Errorf("%q: read %q, %v", body, got, err)
		}
	}
	if is, err := os.Stat(path); err != nil || is.Mode() != 0o600 {
		t.Errorf("mode %s, %v", is.Mode(), err)
	}
	if err := kind.Write(filepath.Join(path, "absent"), nil); err == nil || !strings.HasPrefix(err.Error(), "writing the test file: ") {
		t.Errorf("of a file that cannot be written: %v", err)
	}
	if err := kind.Write(path, make([]byte, kind.Most)); !errors.Is(err, ErrUnusable) {
		t.Errorf("of what is too large to be read: %v", err)
	}
	plain := Kind{Name: "plain", Most: kind.Most}
	must(t, plain.Write(path, []byte("text")))
	if b, err := os.ReadFile(path); err != nil || string(b) != "text" {
		t.Errorf("without a first line: %q, %v", b, err)
	}
	if got, err := plain.Read(path); err != nil || string(got) != "text" {
		t.Errorf("without a first line: read %q, %v", got, err)
	}
	if err := plain.Write(path, make([]byte, plain.Most+1)); !errors.Is(err, ErrUnusable) {
		t.Errorf("of what is too large without a first line: %v", err)
	}
	if err := kind.Write("/dev/null", nil); !errors.Is(err, errNoFile) {
		t.Errorf("of a device: %v", err)
	}
	if _, err := kind.Read("/dev/null"); !Unreadable(err) || Unreadable(nil) {
		t.Errorf("of what cannot be read: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 1 {
		t.Errorf("files %s, %v", left, err)
	}
}

// The temporary file lies beside the file: an error names no directory that the user never gave.
func TestTemporaryFile(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", elsewhere)
	must(t, os.MkdirAll(filepath.Join(dir, "file", "child"), 0o700)) // cannot be replaced
	if err := replace(filepath.Join(dir, "file")); err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), elsewhere) {
		t.Errorf("it names no directory, or another one: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files %s, %v", left, err)
	}
}

func TestDamage(t *testing.T) {
	body := []byte("text\nof lines\n")
	good := []byte(kind.head(body) + "\n" + string(body))
	changed := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(good)) }
	for name, c := range map[string]struct {
		content []byte
		says    string
		ours    bool
	}{
		"another program's":  {[]byte("hello\n"), "FILE is not a test file of gpu_leak_exporter", false},
		"another kind":       {[]byte(Kind{Name: "state", Version: 2}.head(nil) + "\n"), "is not a test file", false},
		"empty":              {nil, "test file cannot be used: it is empty", true},
		"zeros":              {make([]byte, 4096), "it is empty", true},
		"of another version": {changed(func(b []byte) []byte { b[len("gpu_leak_exporter test v")]++; return b }), "of another version", true},
		"of version 20":      {[]byte(Kind{Name: "test", Version: 20}.head(nil) + "\n"), "of another version", true},
		"cut":                {good[:len(good)-1], "checksum", true},
		"cut in its head":    {good[:len("gpu_leak_exporter test v2 crc32c=0")], "checksum", true},
		"with more":          {append(bytes.Clone(good), 0), "checksum", true},
		"zeros at its end":   {changed(func(b []byte) []byte { clear(b[len(b)-4:]); return b }), "checksum", true},
		"too large":          {append([]byte(kind.head(nil)+"\n"), make([]byte, kind.Most)...), "larger than 1024 KiB", true},
	} {
		got, err := kind.parse("FILE", c.content)
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrUnusable) != c.ours || Unreadable(err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for bit := range len(good) * 8 {
		if got, err := kind.parse("FILE", changed(func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })); err == nil {
			t.Errorf("bit %d is wrong: %q", bit, got)
		}
	}
}

func TestSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "second"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		kept, err := SetAside(path)
		if b, failed := os.ReadFile(kept); err != nil || failed != nil || kept != path+".bad" || string(b) != text {
			t.Errorf("kept %q in %s: %v, %v", b, kept, err, failed)
		}
	}
	if kept, err := SetAside(path); err == nil || kept != "" {
		t.Errorf("of an absent file: %q, %v", kept, err)
	}
}

// Root writes for an exporter that is not; another one writes for itself.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	path, root := filepath.Join(dir, "file"), os.Geteuid() == 0
	give := func(path string, uid int) {
		t.Helper()
		if !root {
			return
		}
		must(t, os.Chown(path, uid, uid))
	}
	write := func(uid int) {
		t.Helper()
		if !root {
			uid = os.Geteuid()
		}
		must(t, kind.Write(path, nil))
		if got, _, ok := owner(path); !ok || got != uid {
			t.Errorf("the owner is %d, want %d", got, uid)
		}
	}
	give(dir, 1234)
	write(1234)
	give(path, 4321)
	write(4321)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(kind.head(nil) + "\n"))
	f.Add([]byte(kind.head([]byte("text")) + "\ntext"))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := kind.parse("FILE", b)
		if err == nil && kind.head(body)+"\n"+string(body) != string(b) {
			t.Errorf("%q is accepted as %q", b, body)
		}
	})
}
