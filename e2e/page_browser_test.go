// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// hang is how long a browser, or what it waits for, may take. It only ends what hangs.
const hang = 10 * time.Minute

// browser is a real Chromium that shows one page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	asked    []string // the addresses that it has asked for
	problems []string // what it complained of, such as what the policy of the page forbids
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: run make e2e-packages", err)
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.WSURLReadTimeout(hang))
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	ctx, end := chromedp.NewExecAllocator(ctx, flags...)
	t.Cleanup(end)
	ctx, closed := chromedp.NewContext(ctx)
	t.Cleanup(closed)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank")) // from here on there is a tab
	harness.Must(t, chromedp.Listen(ctx, b.note))
	b.do(
		call(network.Enable, network.EnableParams{}), call(cdplog.Enable, cdp.Empty{}),
	)
	return b
}

// call is a command of the protocol whose answer is of no interest.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, command, params)
		return err
	})
}

func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *cdplog.EventEntryAdded:
		b.problems = append(b.problems, e.Entry.Text)
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	harness.Must(b.t, chromedp.Do(b.ctx, actions...))
}

// show opens an address in a window of that size.
func (b *browser) show(address string, width, height int64, theme string) {
	b.t.Helper()
	b.do(
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}),
		chromedp.EmulateViewport(width, height), chromedp.Navigate(address),
	)
}

// look runs a script of the test's own, which the policy of the page does not concern.
func look[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	harness.Must(b.t, err)
	return v
}

// seen is where a plot has what, in pixels of the window, as the browser has laid it out.
type seen struct {
	Now, End, Limit float64            // the height of the dot, of the end of the curve's right edge in x, and of the capacity
	DotX            float64            // where the dot is
	Ticks           map[string]float64 // the height of each amount
	Forecast        []float64          // x and y of the end of its line
}

const lookAtPlot = `(id => {
  const svg = document.querySelector('svg[aria-labelledby="' + id + '-t"]');
  const box = e => e.getBoundingClientRect(), mid = r => (r.top + r.bottom) / 2;
  const ticks = {}, lines = [...svg.querySelectorAll(':scope > line.grid[x2="100%%"]')];
  for (const line of lines) ticks[line.nextElementSibling.textContent] = mid(box(line));
  const dot = box(svg.querySelector('circle.last')), path = [...svg.querySelectorAll('path.used')].pop();
  const forecast = svg.querySelector('line.forecast'), limit = svg.querySelector('line.capacity');
  return {Now: mid(dot), DotX: (dot.left + dot.right) / 2, End: box(path).right, Limit: limit ? mid(box(limit)) : 0, Ticks: ticks,
    Forecast: forecast ? [box(forecast).right, box(forecast).top] : []};
})(%q)`

// overflows names what reaches beyond the sides of the window.
const overflows = `(() => {
  const wide = document.documentElement.clientWidth, out = [];
  if (document.documentElement.scrollWidth > wide) out.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  for (const e of document.querySelectorAll('body *')) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.left < -0.5 || r.right > wide + 0.5)) out.push(e.tagName + '.' + (e.className.baseVal ?? e.className) + ' "' + e.textContent.slice(0, 40) + '" from ' + r.left + ' to ' + r.right);
  }
  return out;
})()`

// faint names texts whose contrast with what is behind them is too low to be read.
const faint = `(() => {
  const rgb = c => c.match(/[\d.]+/g).map(Number);
  const lum = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const out = [];
  for (const e of document.querySelectorAll('h1, p, small, .tag, th, dt, dd, td span, svg.plot text, .key li, main li, main li strong, main li a')) {
    const style = getComputedStyle(e), text = rgb(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [lum(text), lum(behind(e))], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push(e.tagName + ' "' + e.textContent.slice(0, 40) + '" ' + ratio.toFixed(2));
  }
  return out;
})()`

// TestPageIsDrawn holds what a browser draws against what is exported: the last point of each curve
// is the used memory, the capacity is above it at its own height, and the forecast goes there.
func TestPageIsDrawn(t *testing.T) {
	t.Parallel()
	p := harness.Replay(t, recording(t), "inf", 2) // its last state stays
	s := p.Scrape(t)
	b := newBrowser(t)
	for _, size := range [][2]int64{{1920, 1080}, {1366, 768}, {390, 844}} {
		b.show(p.URL+"/predict", size[0], size[1], "light")
		for id, gpu := range map[string]string{"gpu-0-curve": "GPU-0", "gpu-1-curve": "GPU-1"} {
			used, err := s.Value("gpu_memory_used_bytes", map[string]string{"uuid": gpu})
			harness.Must(t, err)
			plot := look[seen](b, fmt.Sprintf(lookAtPlot, id))
			if (plot.Limit > 0) != (gpu == "GPU-0") { // GPU 1 holds so little that its capacity is not on the axis
				t.Errorf("%s: the capacity is drawn at %g", id, plot.Limit)
			}
			if err := plot.fits(used, (81559-551)*mib); err != nil {
				t.Errorf("%d pixels, %s: %v: %+v", size[0], id, err, plot)
			}
		}
	}
	b.described("Memory used on GPU 0", "10.1 GiB now", "the capacity is 79.1 GiB", "The memory is full at")
	b.wellBehaved(p.URL)
}

// fits returns an error unless the plot shows that use and, where it is drawn, that capacity.
func (s *seen) fits(used, capacity float64) error {
	zero, ok := s.Ticks["0"]
	scale := 0.0
	for text, y := range s.Ticks {
		var v float64
		var unit string
		if _, err := fmt.Sscanf(text, "%f %s", &v, &unit); err == nil && unit == "GiB" {
			scale = v * gib / (zero - y)
		}
	}
	if !ok || scale <= 0 {
		return errors.New("the amounts cannot be read")
	}
	var errs []error
	at := func(what string, y, want float64) {
		if got := (zero - y) * scale; math.Abs(got-want) > 1.5*scale {
			errs = append(errs, fmt.Errorf("%s is drawn at %.4g, want %.4g give or take %.2g", what, got, want, 1.5*scale))
		}
	}
	at("the last sample", s.Now, used)
	if math.Abs(s.DotX-s.End) > 1.5 {
		errs = append(errs, fmt.Errorf("the curve ends at %g, its last point is at %g", s.End, s.DotX))
	}
	if s.Limit > 0 {
		at("the capacity", s.Limit, capacity)
		if s.Limit >= s.Now || len(s.Forecast) == 0 || s.Forecast[0] <= s.DotX || s.Forecast[1] >= s.Now || s.Forecast[1] < s.Limit-1.5 {
			errs = append(errs, errors.New("the forecast does not go from the last sample towards the capacity"))
		}
	}
	return errors.Join(errs...)
}

// described fails the test unless a screen reader is told of an image of that name, with all of that.
func (b *browser) described(name string, want ...string) {
	b.t.Helper()
	tree, err := chromedp.Run(b.ctx, func(ctx context.Context, tab *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, tab, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	harness.Must(b.t, err)
	for _, n := range tree.Nodes {
		if said(n.Name) != name {
			continue
		}
		for _, part := range want {
			if text := said(n.Description); !strings.Contains(text, part) {
				b.t.Errorf("%s is described without %q: %s", name, part, text)
			}
		}
		return
	}
	b.t.Errorf("nothing is called %q", name)
}

// said is a text of the accessibility tree; "" where there is none.
func said(v *accessibility.Value) (text string) {
	if v == nil || json.Unmarshal([]byte(v.Value), &text) != nil {
		return ""
	}
	return text
}

// wellBehaved fails the test if the page made the browser ask anybody else, or do what its policy forbids.
func (b *browser) wellBehaved(url string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		b.t.Error("no request was seen")
	}
	for _, address := range b.asked {
		if !strings.HasPrefix(address, url+"/predict") && address != url+"/" && address != url+"/runbook" && address != url+"/incidents" && address != url+"/favicon.ico" {
			b.t.Errorf("the page asked for %s", address)
		}
	}
	for _, text := range b.problems {
		if !strings.Contains(text, "favicon.ico") {
			b.t.Errorf("the browser says: %s", text)
		}
	}
}

// TestPagesInAllSizes shows the pages of a busy node on a phone and on screens, in both themes: nothing reaches beyond the sides, and
// every text can be read. The first page says what is worst, and the keyboard leads from it to the curves.
func TestPagesInAllSizes(t *testing.T) {
	t.Parallel()
	p := busyNode(t)
	b := newBrowser(t)
	for _, width := range []int64{390, 1366, 1920} {
		for _, theme := range []string{"light", "dark"} {
			for _, path := range []string{"/predict", "/predict/gpu-6-mig-3", "/incidents", "/runbook", "/"} {
				b.show(p.URL+path, width, 844, theme)
				for what, script := range map[string]string{"too wide": overflows, "faint": faint} {
					if found := look[[]string](b, script); len(found) > 0 {
						t.Errorf("%s, %d pixels, %s, %s: %s", path, width, theme, what, strings.Join(found, "\n"))
					}
				}
			}
		}
	}
	if bad := look[string](b, `document.querySelector('h1.bad')?.textContent || ''`); !strings.Contains(bad, "runs out of memory in") {
		t.Errorf("the headline is %q", bad)
	}
	b.tabTo("/predict")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(`location.pathname == '/predict' && document.querySelectorAll('svg.plot').length > 0`)
	b.wellBehaved(p.URL)
}

// tabTo goes on with the keyboard until the link to a page has the focus, and shows it.
func (b *browser) tabTo(path string) {
	b.t.Helper()
	for range 100 {
		if look[string](b, `document.activeElement.getAttribute('href') || ''`) == path {
			break
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	if outline := look[string](b, `document.activeElement.getAttribute('href') == '`+path+`' ? getComputedStyle(document.activeElement).outlineStyle : 'elsewhere'`); outline != "solid" {
		b.t.Fatalf("the keyboard does not come to %s, or its outline is %q", path, outline)
	}
}

// busyNode runs the simulated node until a leak is found on it.
func busyNode(t *testing.T) *harness.Process {
	t.Helper()
	p := harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node", "--source.speed=120"}})
	harness.Eventually(t, hang, func() error {
		page, err := harness.Get(p.URL + "/predict")
		if err == nil && !strings.Contains(string(page), `class="fit"`) {
			err = errors.New("no leak is drawn yet")
		}
		return err
	})
	return p
}

// TestPageKeepsWhatIsOpen opens all of a GPU with the keyboard alone. It is still open, and as far down,
// when the page has read itself again.
func TestPageKeepsWhatIsOpen(t *testing.T) {
	t.Parallel()
	p := busyNode(t)
	b := newBrowser(t)
	b.show(p.URL+"/predict", 1366, 500, "light")
	const processes = `document.querySelectorAll('svg[aria-labelledby*="-pid-"]').length`
	b.tabTo("/predict/gpu-2")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(`location.pathname == '/predict/gpu-2' && document.readyState == 'complete'`)
	before := look[int](b, processes)
	if before == 0 {
		t.Fatal("no process of the GPU is drawn")
	}
	// Not as far down as it goes: the node lives on, and the page that is read next may be shorter.
	b.await(`scrollTo(0, 200), window.marked = true, scrollY == 200`)
	b.await(`!window.marked && document.readyState == 'complete'`)
	if path, n := look[string](b, `location.pathname`), look[int](b, processes); path != "/predict/gpu-2" || n != before {
		t.Errorf("the page read itself again and shows %d processes at %s, before it were %d", n, path, before)
	}
	b.await(`Math.abs(scrollY - 200) < 100`)
	b.wellBehaved(p.URL)
}

// await waits until a script says true. While another page is on its way there is none to ask.
func (b *browser) await(script string) {
	b.t.Helper()
	harness.Eventually(b.t, hang, func() error {
		try, end := context.WithTimeout(b.ctx, 2*time.Second) // what was asked of a page that went gets no answer
		defer end()
		ok, err := chromedp.Run(try, chromedp.Evaluate[bool](script))
		if err == nil && !ok {
			err = fmt.Errorf("not so: %s", script)
		}
		return err
	})
}
