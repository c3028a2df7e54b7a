// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// testAnswer writes an answer as probe/README.md lays it out.
func testAnswer(start uint64, number uint32, text string) []byte {
	le := binary.LittleEndian
	b := make([]byte, answerSize)
	copy(b, "GPUSITES")
	le.PutUint16(b[8:], 1)
	le.PutUint64(b[16:], 1)
	le.PutUint64(b[24:], start)
	le.PutUint32(b[32:], number)
	le.PutUint32(b[36:], uint32(len(text)))
	copy(b[64:], text)
	le.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}

func TestParseAnswer(t *testing.T) {
	many := `{"state":"done","sites":[` + strings.Repeat(`{"growth":1,"line":"a"},`, 99) + `{"growth":2,"line":"b","frames":[` + strings.Repeat(`"f",`, 99) + `"g"]}]}`
	for name, c := range map[string]struct {
		text string
		want Sites
	}{
		"a beginning":   {`{"state":"recording","seconds":300,"pause":0}`, Sites{State: SitesRecording, Over: 5 * time.Minute}},
		"a refusal":     {`{"state":"refused","reason":"it\nis old"}`, Sites{State: SitesRefused, Reason: "it_is old"}},
		"an early line": {`{"state":"recording","unsure":1,"sites":[{"growth":1,"line":"a"}]}`, Sites{State: SitesRecording}},
		"an end": {`{"state":"done","seconds":60,"pause":0.25,"unsure":3,"sites":[{"growth":1,"live":2,"blocks":3,"uuid":"GPU-0B","line":"a/b.py:1 f","frames":["x:1 f","y:2 g"]},{"growth":5,"line":""}]}`, Sites{
			State: SitesDone, Over: time.Minute, Pause: 250 * time.Millisecond, Unsure: 3, List: []Site{
				{Growth: 5}, {UUID: "0b", Growth: 1, Live: 2, Blocks: 3, Line: "a/b.py:1 f", Frames: []string{"x:1 f", "y:2 g"}},
			},
		}},
		"what is no name": {`{"state":"done","seconds":-1,"pause":1e300,"sites":[{"line":"\u001b[31m\ud800","uuid":"` + strings.Repeat("é", 99) + `"}]}`, Sites{
			State: SitesDone, Pause: 1e6 * time.Second, List: []Site{{UUID: strings.Repeat("é", 24), Line: "_[31m_"}},
		}},
	} {
		a, got, err := parse(testAnswer(7, 8, c.text))
		if err != nil || a.start != 7 || a.number != 8 || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %+v, %v", name, a, got, err)
		}
	}
	_, got, err := parse(testAnswer(7, 8, many))
	if err != nil || len(got.List) != maxSites {
		t.Errorf("%d sites, %v", len(got.List), err)
	}
}

// parse parses an answer to a request.
func parse(b []byte) (answer, Sites, error) {
	a, err := parseAnswer(b)
	if err != nil {
		return a, Sites{}, err
	}
	s, err := parseSites(a.text)
	return a, s, err
}

func TestParseAnswerRefuses(t *testing.T) {
	good := `{"state":"done"}`
	change := func(at int, with ...byte) []byte {
		b := testAnswer(1, 1, good)
		copy(b[at:], with)
		binary.LittleEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
		return b
	}
	torn := testAnswer(1, 1, good)
	torn[64] = 'x'
	for name, b := range map[string][]byte{
		"nothing":           nil,
		"a page":            testPage(1, 1),
		"a cut one":         testAnswer(1, 1, good)[:63],
		"another version":   change(8, 2),
		"torn":              torn,
		"a text too long":   change(36, 0xff, 0xff, 0xff, 0xff),
		"no text":           testAnswer(1, 1, ""),
		"no JSON":           testAnswer(1, 1, "{"),
		"no such state":     testAnswer(1, 1, `{"state":"asked"}`),
		"a negative number": testAnswer(1, 1, `{"state":"done","sites":[{"growth":-1}]}`),
	} {
		if _, s, err := parse(b); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"state":"done","seconds":60,"sites":[{"growth":1,"live":2,"blocks":3,"uuid":"x","line":"a","frames":["b"]}]}`), uint32(16))
	f.Add([]byte(`{"state":"refused","reason":"x"}`), uint32(1<<31))
	f.Fuzz(func(t *testing.T, text []byte, length uint32) {
		b := testAnswer(1, 1, string(text[:min(len(text), answerSize-64)]))
		binary.LittleEndian.PutUint32(b[36:], length)
		binary.LittleEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
		_, sites, err := parse(b)
		if err != nil {
			return
		}
		if len(sites.List) > maxSites || sites.Over < 0 || sites.Pause < 0 || len(sites.Reason) > 3*maxReason {
			t.Errorf("%+v", sites)
		}
		for _, s := range sites.List {
			if len(s.Frames) > maxFrames || strings.ContainsAny(s.Line, "\n\x1b") {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestAsk asks a page of this process, and answers as a probe would.
func TestAsk(t *testing.T) {
	id := idOf(t, os.Getpid())
	page := memfd(t, "gpu_leak_probe", testPage(1, id.Start, torch("a", 1, 2)))
	putPage := func(b []byte) { put(t, page, b[:written]) } // the rest is not the probe's
	c := newClock(t)
	state := func(want SitesState, number uint32) {
		t.Helper()
		var got SitesState
		if s := c.Sites(id); s != nil {
			got = s.State
		}
		if n, _ := requested(t, page); got != want || n != number {
			t.Fatalf("%q with request %d, want %q with %d", got, n, want, number)
		}
	}
	c.Ask(id, time.Minute)
	state("", 0) // nobody knows that it has a page
	c.Of(id)
	c.at(0)
	c.Ask(id, time.Minute)
	state(SitesAsked, 0)
	c.at(1)
	first, seconds := requested(t, page)
	if first == 0 || seconds != 60 {
		t.Fatalf("request %d for %d s", first, seconds)
	}
	state(SitesAsked, first)

	answered := memfd(t, "gpu_leak_sites", testAnswer(id.Start, first, `{"state":"recording","seconds":60}`))
	c.at(15)
	state(SitesAsked, first) // too early to look
	c.at(16)
	state(SitesRecording, first)
	c.Ask(id, time.Minute) // it is at it
	put(t, answered, testAnswer(id.Start, first, `{"state":"done","seconds":60,"sites":[{"growth":1,"line":"x"}]}`))
	putPage(testPage(2, id.Start, torch("a", 1, 2)))
	c.at(31)
	state(SitesDone, 0) // it is asked no more
	c.Ask(id, time.Minute)
	state(SitesDone, 0) // the answer is new

	// Hours later it is asked again, and does not answer; its old answer does not count.
	c.processes[id].sites.Asked = time.Now().Add(-keepAnswer)
	c.Ask(id, time.Minute)
	state(SitesAsked, 0)
	c.at(32)
	second, _ := requested(t, page)
	if second == 0 || second == first {
		t.Fatalf("request %d after %d", second, first)
	}
	state(SitesAsked, second)
	putPage(testPage(3, id.Start, torch("a", 1, 2)))
	c.at(48)
	state(SitesAsked, second)
	// It claims to record for weeks, and has lines already: time runs out all the same.
	put(t, answered, testAnswer(id.Start, second, `{"state":"recording","seconds":1e6,"sites":[{"growth":1,"line":"x"}]}`))
	putPage(testPage(4, id.Start, torch("a", 1, 2)))
	c.at(64)
	state(SitesRecording, second)
	if s := c.Sites(id); s.List != nil {
		t.Fatalf("%+v", s)
	}
	putPage(testPage(5, id.Start, torch("a", 1, 2)))
	c.at(48 + 180)
	state(SitesRefused, 0)

	// Without the option nothing is ever asked.
	r, err := New(Options{})
	must(t, err)
	silent := clock{r, time.Now()}
	defer r.close()
	silent.Of(id)
	putPage(testPage(6, id.Start, torch("a", 1, 2)))
	silent.at(0)
	if silent.Of(id) == nil {
		t.Fatal("it has no page")
	}
	silent.Ask(id, time.Minute)
	silent.at(1)
	if n, _ := requested(t, page); silent.Sites(id) != nil || n != 0 {
		t.Errorf("%+v with request %d", silent.Sites(id), n)
	}
}

// requested looks for a request as a probe does: number 0 is none.
func requested(t *testing.T, page int) (number uint32, seconds int64) {
	t.Helper()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: requestUnit}
	must(t, unix.FcntlFlock(uintptr(page), unix.F_OFD_GETLK, &lock))
	if lock.Type == unix.F_UNLCK {
		return 0, 0
	}
	if lock.Type != unix.F_RDLCK || lock.Start%requestUnit != 0 || lock.Len >= requestUnit {
		t.Fatalf("%+v", lock)
	}
	return uint32(lock.Start / requestUnit), lock.Len
}

// TestAskOnNewPage has a process lose its page while it records, and make another one: it is asked there.
func TestAskOnNewPage(t *testing.T) {
	id := idOf(t, os.Getpid())
	page := func(sequence uint64) int {
		fd, err := unix.MemfdCreate("gpu_leak_probe", unix.MFD_CLOEXEC)
		must(t, err)
		put(t, fd, testPage(sequence, id.Start, torch("a", 1, 2)))
		return fd
	}
	first := page(1)
	c := newClock(t)
	c.Of(id)
	c.at(0)
	c.Ask(id, time.Minute)
	c.at(1)
	number, _ := requested(t, first)
	_ = unix.Close(first)
	second := page(2)
	defer unix.Close(second)
	c.at(31) // it is not written any more
	for n := 32; n <= 62; n += 15 {
		put(t, second, testPage(uint64(n), id.Start, torch("a", 1, 2)))
		c.at(n)
	}
	if n, seconds := requested(t, second); number == 0 || n != number || seconds != 60 {
		t.Errorf("request %d for %d s, want %d", n, seconds, number)
	}
}

// TestAskRefused asks a process that has locked its page: nobody waits for it.
func TestAskRefused(t *testing.T) {
	id := idOf(t, os.Getpid())
	page := memfd(t, "gpu_leak_probe", testPage(1, id.Start, torch("a", 1, 2)))
	must(t, unix.FcntlFlock(uintptr(page), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	c := newClock(t)
	c.Of(id)
	c.at(0)
	c.Ask(id, time.Minute)
	c.at(1)
	if s := c.Sites(id); s == nil || s.State != SitesRefused || !strings.HasPrefix(s.Reason, "ask the probe: ") {
		t.Errorf("%+v", s)
	}
}

// TestAskHasBounds keeps the answers of so many processes only. Those whose page went away before they could be asked refuse.
func TestAskHasBounds(t *testing.T) {
	c := newClock(t)
	for i := range 2 * maxAsked {
		id := gpu.ProcessID{PID: 1 << 30, Start: uint64(i + 1)}
		c.Of(id)
		c.processes[id].records = []Record{torch("", 1, 2)}
		c.Ask(id, time.Minute)
	}
	c.at(0)
	refused := 0
	for _, p := range c.processes {
		if p.sites != nil && p.sites.State == SitesRefused {
			refused++
		}
	}
	equal(t, refused, maxAsked, "asked, and refuse")
}

func TestSitesOn(t *testing.T) {
	c := newClock(t)
	id := gpu.ProcessID{PID: 1, Start: 1}
	a, b, none := Site{UUID: "a", Growth: 3}, Site{UUID: "b", Growth: 2}, Site{Growth: 1}
	on := func(uuid string, records int, list ...Site) []Site {
		c.Of(id)
		c.processes[id].records = make([]Record, records)
		c.processes[id].sites = &Sites{State: SitesDone, List: list}
		return c.SitesOn(uuid, &gpu.Sample{}, &gpu.Process{ID: id}).List
	}
	for name, got := range map[string]struct{ got, want []Site }{
		"its own":                {on("GPU-A", 2, a, b), []Site{a}},
		"another's":              {on("GPU-C", 2, a, b), []Site{}},
		"unknown, of one GPU":    {on("GPU-A", 1, none), []Site{none}},
		"unknown, of two":        {on("GPU-A", 2, none, a), []Site{a}},
		"nothing that has grown": {on("GPU-A", 1), nil},
	} {
		equal(t, got.got, got.want, "%s", name)
	}
	equal(t, c.SitesOn("GPU-A", &gpu.Sample{}, &gpu.Process{ID: gpu.ProcessID{PID: 2, Start: 1}}), nil, "sites of a process that was not asked")
}
