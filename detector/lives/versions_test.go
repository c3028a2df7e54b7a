// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"slices"
	"testing"
	"time"
)

func TestVersions(t *testing.T) {
	type entry struct {
		id   ID
		life Life
	}
	const hour = time.Hour
	named := func(key Key, image string) ID { return ID{Exact: key, Program: "serve.py", Image: image} }
	at := func(d int, lasted time.Duration, peak Bytes) Life {
		return Life{Ended: SecondsOf(time.Duration(d) * day), Lasted: SecondsOf(lasted), Height: peak, Peak: peak, Rate: 7}
	}
	leaked := func(l Life, rate Bytes) Life {
		l.Leaked, l.Rate = true, rate
		return l
	}
	grew := func(l Life, end End) Life {
		l.Growing, l.End = true, end
		return l
	}
	started := func(d int, lasted time.Duration) Seconds { return SecondsOf(time.Duration(d)*day - lasted) }
	for _, c := range []struct {
		name    string
		entries []entry
		want    []Version
	}{
		{"none", nil, []Version{}},
		{"one without a name", []entry{{ID{Exact: 1}, at(1, hour, 100)}}, []Version{}},
		{"healthy", []entry{{named(1, "a"), at(1, hour, 100)}}, []Version{{"serve.py", "a", 1, started(1, hour), at(1, hour, 0).Ended, 0, 100}}},
		{
			"the largest over arguments and GPUs",
			[]entry{{named(1, "a"), leaked(at(1, hour, 100), 5)}, {named(2, "a"), leaked(at(3, 2*hour, 80), 9)}, {named(2, "a"), at(2, hour, 90)}},
			[]Version{{"serve.py", "a", 3, started(3, 2*hour), at(3, 0, 0).Ended, 9, 100}},
		},
		{
			"those that ended last first",
			[]entry{{named(1, "b"), at(1, hour, 1)}, {named(2, "a"), at(1, hour, 1)}, {named(3, "c"), at(2, hour, 1)}, {named(4, ""), at(3, hour, 1)}},
			[]Version{
				{"serve.py", "", 1, started(3, hour), at(3, 0, 0).Ended, 0, 1},
				{"serve.py", "c", 1, started(2, hour), at(2, 0, 0).Ended, 0, 1},
				{"serve.py", "a", 1, started(1, hour), at(1, 0, 0).Ended, 0, 1},
				{"serve.py", "b", 1, started(1, hour), at(1, 0, 0).Ended, 0, 1},
			},
		},
		{"stopped while it grew", []entry{{named(1, "a"), grew(at(1, hour, 100), EndStopped)}}, []Version{{"serve.py", "a", 1, started(1, hour), at(1, 0, 0).Ended, 7, 100}}},
		{"stopped while it started", []entry{{named(1, "a"), grew(at(1, hour/2, 100), EndStopped)}}, []Version{{"serve.py", "a", 1, started(1, hour/2), at(1, 0, 0).Ended, 0, 100}}},
		{"completed", []entry{{named(1, "a"), grew(at(1, hour, 100), EndCompleted)}}, []Version{{"serve.py", "a", 1, started(1, hour), at(1, 0, 0).Ended, 0, 100}}},
		{"an unknown end teaches nothing", []entry{{named(1, "a"), grew(at(1, hour, 100), EndUnknown)}}, []Version{{"serve.py", "a", 1, started(1, hour), at(1, 0, 0).Ended, 0, 100}}},
		{
			"one of long ago is forgotten",
			[]entry{{named(1, "a"), leaked(at(1, hour, 200), 5)}, {named(2, "a"), at(40, hour, 100)}},
			[]Version{{"serve.py", "a", 1, started(40, hour), at(40, 0, 0).Ended, 0, 100}},
		},
	} {
		b := NewBook()
		for i := range c.entries {
			b.Add(c.entries[i].id, &c.entries[i].life, someday)
		}
		if got := b.Versions(); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func BenchmarkVersions(b *testing.B) {
	book := NewBook()
	for i := range MaxPrograms {
		for d := range MaxLives {
			l := ran(d+1, 100)
			book.Add(ID{Exact: Key(i + 1), Program: "serve.py", Image: time.Duration(i).String()}, &l, someday)
		}
	}
	for b.Loop() {
		book.Versions()
	}
}
