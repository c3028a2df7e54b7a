// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/livesfile"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

var fleet = []byte("of all nodes")

const trainer = "registry.example/ml/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// livesAt writes a lives file: three lives of a program, a leak and one without a name.
func livesAt(t *testing.T, path string, secret []byte, days ...int) {
	t.Helper()
	f := livesfile.New(secret)
	f.Saved = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	end := func(d int) lives.Seconds { return lives.Seconds(time.Date(2026, 3, d, 6, 0, 0, 0, time.UTC).Unix()) }
	train := lives.ID{Exact: 1, Kin: 2, Basis: lives.BasisProgram | lives.BasisImage, Program: "train.py", Image: trainer}
	for _, d := range days {
		f.Book.Add(train, &lives.Life{Ended: end(d), Lasted: 3600, Loaded: 60, Load: 10 * gib, Height: lives.Bytes(20+d) * gib, Peak: lives.Bytes(21+d) * gib, End: lives.EndCompleted}, 1<<62)
	}
	f.Book.Add(lives.ID{Exact: 3, Kin: 4, Basis: lives.BasisProgram, Program: "serve\x1b.py"}, &lives.Life{Ended: end(1), Lasted: 60, Height: 5 * gib, Peak: 5 * gib, Rate: 100, Leaked: true, Growing: true}, 1<<62)
	f.Book.Add(lives.ID{Exact: 5, Kin: 6}, &lives.Life{Ended: end(1)}, 1<<62)
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
}

// known returns how many lives a file holds of each program.
func known(t *testing.T, path string) map[string]int {
	t.Helper()
	f, err := livesfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, p := range f.Book.Programs() {
		of[p.ID.Program] += len(p.Lives)
	}
	return of
}

func TestLivesList(t *testing.T) {
	t.Chdir(t.TempDir())
	livesAt(t, "lives", fleet, 3, 5, 4)
	l := &livesList{files: []string{"lives"}, output: outputTable, location: time.UTC, now: time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)}
	var b strings.Builder
	if err := l.run(&b); err != nil {
		t.Fatal(err)
	}
	const want = `PROGRAM    IMAGE                                          KNOWN BY        LIVES  HEIGHTS           PEAK     CEILING   LEAKED  LAST ENDED
train.py   registry.example/ml/train@sha256:0123456789ab  program, image  3      23.0 GiB to 25.0 GiB  26.0 GiB   24.7 GiB  0       2026-03-05 06:00
-          -                                              -               1      -                 -        -         0       2026-03-01 06:00
serve�.py  -                                              program         1      5.00 GiB          5.00 GiB  -         1       2026-03-01 06:00

lives: 5 lives of 3 programs, written at 2026-03-09 12:00 UTC, known by a key file.
`
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if squeeze(b.String()) != squeeze(want) {
		t.Errorf("got\n%s", b.String())
	}
	livesAt(t, "own", nil, 3)
	for args, says := range map[string]string{
		"own":       "known by the random secret of its node",
		"lives own": "FILE",
	} {
		code, stdout, stderr := tool(t.Context(), append([]string{"lives", "list"}, strings.Fields(args)...)...)
		if code != exitOK || !strings.Contains(stdout, says) {
			t.Errorf("%s: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
	code, stdout, stderr := tool(t.Context(), "lives", "list", "--output=json", "lives")
	var first programLine
	if err := json.NewDecoder(strings.NewReader(stdout)).Decode(&first); err != nil || code != exitOK || strings.Count(stdout, "\n") != 3 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if x := first.Lives; first.Image != trainer || len(x) != 3 || x[0].Ended.Day() != 3 || *x[0].Height != 23*gib || *x[0].Loaded != 60 || x[0].Rate != nil || x[0].End != "completed" {
		t.Errorf("%+v", first)
	}
}

// What one node exports is known by another one that imports it, once, if they have one key.
func TestLivesTravel(t *testing.T) {
	t.Chdir(t.TempDir())
	livesAt(t, "a", fleet, 3, 4)
	livesAt(t, "b", fleet, 4, 5)
	livesAt(t, "own", nil, 6)
	livesAt(t, "foreign", []byte("another fleet"), 6)
	for _, c := range []struct {
		args, says string
		code       int
		file       string
		lives      int // of train.py in the file then
	}{
		{"export --output-file=out a b", "out: exported; it holds 5 lives of 3 programs", exitOK, "out", 3},
		{"import --into=new out", "new: 5 lives added; it holds 5 lives of 3 programs", exitOK, "new", 3},
		{"import --into=new out a", "new: 0 lives added", exitOK, "new", 3},
		{"import --into=b out", "b: 1 life added", exitOK, "b", 3},
		{"export --output-file=mine own", "no other node can use this file: give all nodes the same --detector.lives-key-file", exitOK, "mine", 1},
		{"import --into=own mine", "own: 0 lives added", exitOK, "own", 1},
		{"import --into=b mine", "mine: its keys were made with the random secret of another node", exitWrong, "b", 3},
		{"import --into=absent mine", "mine: its keys were made with the random secret of another node", exitWrong, "", 0},
		{"import --into=own out", "out: its keys were made with a key file, those of own with the random secret of this node", exitWrong, "own", 1},
		{"import --into=b foreign", "foreign: its keys were made with another key file than those of b", exitWrong, "b", 3},
		{"export --output-file=mix a foreign", "foreign: its keys were made with another secret than those of a", exitWrong, "", 0},
		{"export --output-file=a a", "--output-file=a: is a file to read", exitWrong, "a", 2},
		{"export --output-file=own a", "--output-file=own: is the lives file of an exporter", exitWrong, "own", 1},
		{"import --into=b absent", "reading the lives file: open absent: no such file or directory", exitWrong, "b", 3},
	} {
		code, stdout, stderr := tool(t.Context(), append([]string{"lives"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: exit code %d: %s%s", c.args, code, stdout, stderr)
		}
		if c.file != "" {
			if n := known(t, c.file)["train.py"]; n != c.lives {
				t.Errorf("%s: %s holds %d lives", c.args, c.file, n)
			}
		}
	}
	for name, secret := range map[string][]byte{"new": fleet, "out": fleet} {
		f, err := livesfile.Read(name)
		if err != nil || f.Node || len(f.Secret) > 0 || f.Fits(secret) != nil {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	own, err := livesfile.Read("own")
	mine, failed := livesfile.Read("mine")
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if len(own.Secret) == 0 || len(mine.Secret) > 0 || !mine.Node {
		t.Error("the secret of a node has left it, or is lost")
	}
	if raw, err := os.ReadFile("mine"); err != nil || strings.Contains(string(raw), `"secret"`) {
		t.Errorf("the secret of a node has left it: %v", err)
	}
}

func TestLivesForget(t *testing.T) {
	for _, c := range []struct {
		args, says string
		code       int
		left       []string
	}{
		{"--program=train.py", "FILE: 1 program forgotten; it holds 2 lives of 2 programs", exitOK, []string{"", "serve\x1b.py"}},
		{"--image=registry.example/ml/train", "1 program forgotten", exitOK, []string{"", "serve\x1b.py"}},
		{"--image=registry.example/ml/train@sha256:0123456789ab", "1 program forgotten", exitOK, []string{"", "serve\x1b.py"}},
		{"--image=" + trainer + " --program=train.py", "1 program forgotten", exitOK, []string{"", "serve\x1b.py"}},
		{"--image=registry.example/ml", "FILE: holds no such program", exitWrong, []string{"", "serve\x1b.py", "train.py"}},
		{"--program=serve.py --image=" + trainer, "FILE: holds no such program", exitWrong, []string{"", "serve\x1b.py", "train.py"}},
		{"", "name what to forget, with --program or --image", exitWrong, []string{"", "serve\x1b.py", "train.py"}},
	} {
		path := filepath.Join(t.TempDir(), "lives")
		livesAt(t, path, nil, 3, 4)
		code, stdout, stderr := tool(t.Context(), append(append([]string{"lives", "forget"}, strings.Fields(c.args)...), path)...)
		if code != c.code || !strings.Contains(strings.ReplaceAll(stdout+stderr, path, "FILE"), c.says) {
			t.Errorf("%s: exit code %d: %s%s", c.args, code, stdout, stderr)
		}
		var left []string
		for name := range known(t, path) {
			left = append(left, name)
		}
		if slices.Sort(left); !slices.Equal(left, c.left) {
			t.Errorf("%s: %q are left", c.args, left)
		}
	}
}

// Each command says in one line what is wrong with a file.
func TestLivesOfNoUse(t *testing.T) {
	t.Chdir(t.TempDir())
	for content, says := range map[string]string{
		"hello\n": "file is not a lives file of gpu_leak_exporter",
		"":        "file: lives file cannot be used: it is empty",
		"gpu_leak_exporter lives v2 crc32c=00000000\n": "file: lives file cannot be used: it is of another version",
		"gpu_leak_exporter lives v1 crc32c=00000001\n": "file: lives file cannot be used: its checksum does not match",
	} {
		if err := os.WriteFile("file", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"list file", "export --output-file=out file", "import --into=file file", "forget --program=a file"} {
			code, stdout, stderr := tool(t.Context(), append([]string{"lives"}, strings.Fields(args)...)...)
			if code != exitWrong || stdout != "" || !strings.HasPrefix(stderr, "gpuleaktool: error: "+says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s: exit code %d: %s%s", args, code, stdout, stderr)
			}
		}
		if b, err := os.ReadFile("file"); err != nil || string(b) != content {
			t.Errorf("the file holds %q now, %v", b, err)
		}
	}
}
