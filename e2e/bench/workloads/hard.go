// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

// quietFirst is how long a memory of a hard kind is quiet before it grows, in seconds.
const quietFirst = 90 * minute

// hardKinds are healthy kinds whose growth is told from a leak by nothing but that it ends:
// what they are called is a limit of a detector, and no merit.
var hardKinds = []made{
	{"a load that comes within a quarter of an hour", settles},
	{"a warm-up in the midst of a life", warmLater},
	{"a cache that follows a load of 20 to 60 minutes", follows},
	{"five jobs within 40 minutes", fiveJobs},
	{"a ramp of 15 minutes each morning", mornings},
	{"office hours", officeHours},
	{"a walk of 10 MiB in 10 seconds", func(d *draw) spec { return walks(d, 10, 10) }},
	{"a walk of 50 MiB each second", func(d *draw) spec { return walks(d, 50, 1) }},
}

// Noises are what is added to the hard kinds, by name.
var Noises = []string{"none", "white, 100 MiB", "200 MiB, of half a minute"}

// HardKinds returns the hard kinds, with the noise of Noises of that index.
func HardKinds(noise int) []Kind {
	var all []Kind
	for _, k := range hardKinds {
		all = append(all, Kind{Name: k.name, make: func(d *draw) spec {
			s := k.make(d)
			switch noise {
			case 1:
				s.background = sum{s.background, level(400), d.noise(d.step/100, 100)}
			case 2:
				s.background = sum{s.background, level(800), d.noise(30, 200)}
			}
			return s
		}})
	}
	return all
}

// some returns 1 to 6 GiB, or as much of the free memory as fits.
func (d *draw) some() float64 { return min(d.logBetween(1024, 6*1024), 0.4*d.room) }

func settles(d *draw) spec {
	return healthy(sum{level(d.part(0.1, 0.4)), &line{from: quietFirst, rise: d.some(), took: 15 * minute}})
}

func warmLater(d *draw) spec {
	rise := min(d.logBetween(512, 32*1024), 0.4*d.room)
	return healthy(sum{level(d.part(0.1, 0.4)), &started{start: quietFirst, inner: &warm{rise: rise, tau: d.logBetween(2*minute, 20*minute)}}})
}

// follows goes from level to level for half a day.
func follows(d *draw) spec {
	f := &polygon{}
	for t := 0.0; t < 12*hour; t += d.between(20*minute, hour) {
		f.add(t, d.between(0, 4*1024))
	}
	return spec{background: sum{level(d.part(0.1, 0.4)), f}, end: 12 * hour}
}

func fiveJobs(d *draw) spec {
	var m sum
	for range 5 {
		at, size := quietFirst+d.between(0, 40*minute), d.some()/3
		m = append(m, &line{from: at, rise: size, took: d.between(5, 60)})
	}
	return healthy(append(m, level(d.part(0.05, 0.2))))
}

func mornings(d *draw) spec { return d.days(15 * minute) }

func officeHours(d *draw) spec { return d.days(2 * hour) }

// days has three of them, with a ramp that takes so long in the morning, and its like in the
// evening.
func (d *draw) days(took float64) spec {
	f, rise := &polygon{}, d.some()
	f.add(0, 0)
	for day := range 3 {
		morning := (24*float64(day) + 8) * hour
		f.add(morning, 0)
		f.add(morning+took, rise)
		f.add(morning+10*hour, rise)
		f.add(morning+10*hour+took, 0)
	}
	return spec{background: sum{level(d.part(0.1, 0.4)), f}, end: 72 * hour}
}

// walks moves by about step MiB each so many seconds.
func walks(d *draw, step, every float64) spec {
	w := &walk{r: d.source(), hi: 0.8 * d.room, step: step, every: every, now: 0.4 * d.room}
	return spec{background: w, end: 12 * hour}
}

// polygon goes from corner to corner, the first of which is at 0, and stays at the last.
type polygon struct{ t, v []float64 }

func (p *polygon) add(t, v float64) { p.t, p.v = append(p.t, t), append(p.v, v) }

func (p *polygon) at(t float64) float64 {
	for i, next := range p.t {
		if t < next {
			return p.v[i-1] + (p.v[i]-p.v[i-1])*(t-p.t[i-1])/(next-p.t[i-1])
		}
	}
	return p.v[len(p.v)-1]
}
