// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/procfs"
	"golang.org/x/term"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/command"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
)

// keys is a terminal that shows a node, and what was chosen on it by keys. Who looks and who types take turns.
type keys struct {
	stdout   io.Writer
	top      int
	exporter *url.URL // nil if none is asked
	typed    bool     // keys are read

	mu     sync.Mutex
	data   *verdicts.Data
	failed error             // why data is not new
	chosen string            // the id of a row
	answer string            // to the last key
	asked  *verdicts.Process // gets SIGTERM once its name is typed
	name   string            // as far as it is typed
}

// look shows what a look returned. An exporter that does not answer for a while takes nothing from the screen.
func (k *keys) look(data *verdicts.Data, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = err; err == nil {
		k.data = data
	}
	return k.draw()
}

// draw writes the screen over the last one.
func (k *keys) draw() error {
	columns, rows := size(k.stdout)
	screen, bottom := "", ""
	if !k.data.Time.IsZero() {
		screen = Screen(k.data, k.top, columns, k.chosen)
	}
	if k.failed != nil {
		screen = Wrap("NOT KNOWN: "+command.OneLine(k.failed), columns, "") + "\n\n" + screen
	}
	switch {
	case k.asked != nil:
		bottom = "\nType the name of " + title(k.asked) + " to send it SIGTERM: " + k.name
	case k.typed:
		bottom = "\n" + Wrap(cmp.Or(k.answer, help), columns, "")
	}
	screen = cli.Escape(Fit(screen, columns, rows-strings.Count(bottom, "\n")) + bottom)
	if columns > 0 {
		if os.Getenv("NO_COLOR") == "" {
			screen = Paint(screen)
		}
		screen = strings.ReplaceAll(screen, "\n", "\r\n") // in raw mode it does not return by itself
	}
	_, err := io.WriteString(k.stdout, Home+screen)
	return err
}

// listen acts on keys until end is called, or one of them ends the program by stop. Where nobody types it does nothing.
func (k *keys) listen(stop func()) (end func()) {
	stdin := int(os.Stdin.Fd())
	mode, err := term.MakeRaw(stdin)
	if err != nil {
		return func() {}
	}
	restore := func() { _ = term.Restore(stdin, mode) } // it has gone
	in, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0)  // unlike stdin it can have a deadline
	if err != nil {
		in = os.Stdin
	}
	k.typed = true
	var reading sync.WaitGroup
	reading.Go(func() {
		defer restore() // of a panic, too
		k.read(in, stop)
	})
	return func() {
		restore()
		_, _ = io.WriteString(k.stdout, "\n")      // what comes next stands below
		if in.SetReadDeadline(time.Now()) == nil { // only Linux knows it of a terminal: elsewhere the last read ends with the program
			reading.Wait()
		}
	}
}

// read acts on keys until there are no more, or one of them ends the program by stop.
func (k *keys) read(in io.Reader, stop func()) {
	defer stop()
	for b := make([]byte, 3*64); ; { // a held arrow is three bytes, again and again
		n, err := in.Read(b)
		if err != nil || k.press(string(b[:n])) {
			return
		}
	}
}

// pressed is a key of those that were typed. A terminal sends an arrow as an escape and more. One that two reads divide is an escape
// alone, which only takes the choice back.
var pressed = regexp.MustCompile(`(?s)\x1b[\[O][0-9;]*[A-Za-z~]|.`)

const (
	ctrlC, enter, escape, backspace = "\x03", "\r", "\x1b", "\x7f" // in raw mode

	help = "Arrows choose · Enter finding · o page · k end process · Esc back · q quit"
)

// press acts on keys, and reports whether one ends the program.
func (k *keys) press(typed string) (ends bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range pressed.FindAllString(typed, -1) {
		switch {
		case key == ctrlC, key == "q" && k.asked == nil:
			return true
		case k.asked != nil:
			k.spell(key)
		default:
			k.command(key)
		}
	}
	return k.draw() != nil
}

// command acts on a key that belongs to no name.
func (k *keys) command(key string) {
	before := k.answer
	k.answer = ""
	processes, _ := users(k.data, k.top)
	rows := append(memories(k.data), processes...)
	at := slices.IndexFunc(rows, func(r row) bool { return r.id == k.chosen })
	switch key {
	case "\x1b[A", "\x1bOA":
		at--
	case "\x1b[B", "\x1bOB":
		at++
	case escape:
		at, k.chosen = -1, ""
	}
	if at < 0 || at >= len(rows) {
		return
	}
	r := &rows[at]
	switch k.chosen = r.id; {
	case key == enter && before == "":
		k.answer = about(k.data, r)
	case key == "o" && k.exporter == nil:
		k.answer = "No exporter is asked, so there is no page."
	case key == "o":
		page := k.exporter.JoinPath("predict")
		page.Fragment = r.anchor
		k.answer = page.String()
	case key != "k":
	case r.process == nil:
		k.answer = "This is a memory: choose a process."
	case k.data.Note != "":
		k.answer = sentence(k.data.Note) + " There is no process to end."
	case k.exporter != nil && k.exporter.Hostname() != "localhost" && !net.ParseIP(k.exporter.Hostname()).IsLoopback():
		k.answer = "It runs on another machine: " + k.exporter.Hostname() + "."
	default:
		if err := send(r.process, syscall.Signal(0)); err != nil {
			k.answer = "Nothing can be sent: " + err.Error() + "."
			return
		}
		k.asked, k.name = r.process, ""
	}
}

// about returns the finding on a row.
func about(d *verdicts.Data, r *row) string {
	for i := range d.Findings {
		if f := &d.Findings[i]; r.about != "" && strings.Contains(f.Text, r.about) {
			return finding.Joined(" Runbook: ", sentence(f.Text), plain(f.Alert))
		}
	}
	return "No finding. " + sentence(r.about)
}

// spell acts on a key that belongs to the name of the process that is asked for.
func (k *keys) spell(key string) {
	switch first, _ := utf8.DecodeRuneInString(key); {
	case key == escape:
		k.asked = nil
	case key == enter:
		err := errors.New("that is not its name")
		if k.name != "" && k.name == k.asked.Labels["process"] {
			err = send(k.asked, syscall.SIGTERM)
		}
		k.answer = "SIGTERM was sent to " + title(k.asked) + "."
		if err != nil {
			k.answer = "Nothing was sent: " + err.Error() + "."
		}
		k.asked = nil
	case key == backspace:
		_, last := utf8.DecodeLastRuneInString(k.name)
		k.name = k.name[:len(k.name)-last]
	case unicode.IsPrint(first) && len(k.name) < 256:
		k.name += key
	}
}

func title(p *verdicts.Process) string {
	return fmt.Sprintf("%s (pid %s)", sentence(p.Labels["process"]), plain(p.Labels["pid"]))
}

// send sends a signal to a process of this machine if it still is the one that the exporter saw. A loopback address may be that of a
// tunnel to another machine: a process here that has the same number did not start at the same tick.
func send(p *verdicts.Process, s syscall.Signal) error {
	pid, _ := strconv.Atoi(p.Labels["pid"])
	process, err := os.FindProcess(pid) // under Linux it holds a pidfd: what has the number later is not hit
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	var stat procfs.ProcStat
	now, err := procfs.NewProc(pid)
	if err == nil {
		stat, err = now.Stat()
	}
	if err != nil || p.Start == 0 || stat.Starttime != p.Start {
		return errors.New("this machine has no such process now")
	}
	if err = process.Signal(s); errors.Is(err, os.ErrPermission) {
		return errors.New("it is another user's")
	}
	return err
}
