// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/livesfile"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/setting"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// addLives adds the commands on files of --detector.lives-file.
func addLives(app *kingpin.Application, commands map[string]command) {
	cmd := app.Command("lives", "List what the exporter knows of earlier lives (runs) of programs, hand it to other nodes, or forget it.")
	addLivesList(cmd, commands)
	addLivesExport(cmd, commands)
	addLivesImport(cmd, commands)
	addLivesForget(cmd, commands)
}

func addLivesList(lives *kingpin.CmdClause, commands map[string]command) {
	l := &livesList{location: time.UTC}
	cmd := lives.Command("list", "List the programs, and what their lives held.")
	set := func(s string) error { l.output = s; return nil }
	cmd.Flag("output", "table, or json (an object a line, for each program).").Default(outputTable).
		SetValue(setting.OneOf("output", []string{outputTable, outputJSON}, set, func() string { return l.output }))
	cmd.Arg("file", "Files of --detector.lives-file, or exported ones.").Required().StringsVar(&l.files)
	commands[cmd.FullCommand()] = func(_ context.Context, stdout, _ io.Writer) error {
		l.now = time.Now()
		return l.run(stdout)
	}
}

func addLivesExport(lives *kingpin.CmdClause, commands map[string]command) {
	var files []string
	var output string
	cmd := lives.Command("export", "Write a file that other nodes can import, without the secret of this one. Only nodes with the same secret can use it: give their exporters the same --detector.lives-key-file.")
	cmd.Flag("output-file", "File to write.").PlaceHolder("FILE").Required().StringVar(&output)
	cmd.Arg("file", "Files to read; lives that are in several count once.").Required().StringsVar(&files)
	commands[cmd.FullCommand()] = func(_ context.Context, stdout, stderr io.Writer) error {
		return exportLives(files, output, stdout, stderr)
	}
}

func addLivesImport(lives *kingpin.CmdClause, commands map[string]command) {
	var files []string
	var into string
	cmd := lives.Command("import", "Add exported lives to a file of --detector.lives-file, which is made if it is absent. Stop the exporter of that file first: it reads the file at its start alone, and writes it again.")
	cmd.Flag("into", "File of --detector.lives-file.").PlaceHolder("FILE").Required().StringVar(&into)
	cmd.Arg("file", "Files that were exported; lives that are known stay as they are.").Required().StringsVar(&files)
	commands[cmd.FullCommand()] = func(_ context.Context, stdout, _ io.Writer) error {
		return importLives(files, into, stdout)
	}
}

func addLivesForget(lives *kingpin.CmdClause, commands map[string]command) {
	f := &livesForget{}
	cmd := lives.Command("forget", "Remove programs from files by --program, --image or both: for example one that needs more memory on purpose since it was changed. Stop the exporter of a file first: it reads the file at its start alone, and writes it again.")
	cmd.Flag("program", "Name of the program, as the list has it.").PlaceHolder("NAME").StringVar(&f.program)
	cmd.Flag("image", "Image of its container: the repository, or with its digest or the beginning of that.").PlaceHolder("IMAGE").StringVar(&f.image)
	cmd.Arg("file", "Files of --detector.lives-file.").Required().StringsVar(&f.files)
	commands[cmd.FullCommand()] = func(_ context.Context, stdout, _ io.Writer) error { return f.run(stdout) }
}

// readLives reads a file.
func readLives(path string) (*livesfile.File, error) {
	f, err := livesfile.Read(path)
	if errors.Is(err, livesfile.ErrUnusable) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, err
}

// writeLives writes a file and says what is in it.
func writeLives(f *livesfile.File, path, did string, w io.Writer) error {
	f.Saved = time.Now()
	if err := f.Write(path); err != nil {
		return err
	}
	programs, n := sizeOf(f.Book)
	_, err := fmt.Fprintf(w, "%s: %s; it holds %s of %s\n", path, did, countLives(n), count(programs, "program"))
	return err
}

func sizeOf(b *lives.Book) (programs, n int) {
	all := b.Programs()
	for i := range all {
		n += len(all[i].Lives)
	}
	return len(all), n
}

func countLives(n int) string {
	if n == 1 {
		return "1 life"
	}
	return fmt.Sprintf("%d lives", n)
}

// exportLives writes what is in the files to one without a secret.
func exportLives(files []string, output string, stdout, stderr io.Writer) error {
	if err := checkExport(files, output); err != nil {
		return err
	}
	var all *livesfile.File
	for _, name := range files {
		f, err := readLives(name)
		if err != nil {
			return err
		}
		if all == nil {
			all = f
		} else if _, err := all.Merge(f, time.Now()); err != nil {
			return fmt.Errorf("%s: %w than those of %s: export it to a file of its own", name, err, files[0])
		}
	}
	if all.Node {
		fmt.Fprintf(stderr, "%s: %s: programs are known by the random secret of their node, so that no other node can use this file: give all nodes the same --detector.lives-key-file\n", program, output)
	}
	all.Secret = nil
	return writeLives(all, output, "exported", stdout)
}

// checkExport refuses to write over a file to read, or over the secret of a node.
func checkExport(files []string, output string) error {
	is, err := os.Stat(output)
	if err != nil {
		return nil //nolint:nilerr // A file that is not there is the usual case; another error will be that of writing it.
	}
	for _, name := range files {
		if of, err := os.Stat(name); err == nil && os.SameFile(is, of) {
			return fmt.Errorf("--output-file=%s: is a file to read: name another one", output)
		}
	}
	if f, err := livesfile.Read(output); err == nil && len(f.Secret) > 0 {
		return fmt.Errorf("--output-file=%s: is the lives file of an exporter: name another one", output)
	}
	return nil
}

// importLives adds what is in the files to that of an exporter.
func importLives(files []string, path string, stdout io.Writer) error {
	into, err := readLives(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	added := 0
	for _, name := range files {
		f, err := readLives(name)
		if err != nil {
			return err
		}
		if into == nil && !f.Node {
			into = &livesfile.File{Check: f.Check, Book: lives.NewBook()}
		}
		if into == nil || into.Check != f.Check {
			return otherKey(name, f, path, into)
		}
		n, err := into.Merge(f, time.Now())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		added += n
	}
	return writeLives(into, path, countLives(added)+" added", stdout)
}

// otherKey says what to do about keys that are not of one secret. into is nil where there is no such file.
func otherKey(name string, f *livesfile.File, path string, into *livesfile.File) error {
	switch {
	case f.Node:
		return fmt.Errorf("%s: its keys were made with the random secret of another node: give all nodes one with --detector.lives-key-file, and export again what they learn then", name)
	case into.Node:
		return fmt.Errorf("%s: its keys were made with a key file, those of %s with the random secret of this node: move that away, import again, and start the exporter with the --detector.lives-key-file of the other nodes", name, path)
	}
	return fmt.Errorf("%s: its keys were made with another key file than those of %s: give the nodes the same --detector.lives-key-file", name, path)
}

// livesForget removes programs from files.
type livesForget struct {
	files          []string
	program, image string
}

func (f *livesForget) run(stdout io.Writer) error {
	if f.program == "" && f.image == "" {
		return errors.New("name what to forget, with --program or --image")
	}
	for _, name := range f.files {
		file, err := readLives(name)
		if err != nil {
			return err
		}
		n := file.Book.Forget(f.matches)
		if n == 0 {
			return fmt.Errorf("%s: holds no such program: gpuleaktool lives list shows what it holds", name)
		}
		if err := writeLives(file, name, count(n, "program")+" forgotten", stdout); err != nil {
			return err
		}
	}
	return nil
}

func (f *livesForget) matches(id lives.ID) bool {
	repository, _, _ := strings.Cut(id.Image, "@")
	image := f.image == "" || f.image == id.Image || f.image == repository || strings.Contains(f.image, "@") && strings.HasPrefix(id.Image, f.image)
	return image && (f.program == "" || f.program == id.Program)
}
