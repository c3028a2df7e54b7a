// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
)

// intro is the begin of the page that --markdown writes.
const intro = `# How well leaks are detected

Written by ` + "`make bench-detect`" + `. Simulated GPUs with all processes on them: the allocators of frameworks, programs that
allocate and free on them, and leaks as defects in the code of such programs, each to its real end. The package
` + "`e2e/bench/fleet`" + ` says of each family what it is and where such a thing is known from. Its author had not seen how the
detector decides. A third of the families is **held out**: nothing is ever tuned on them.

- Each rule is asked once a simulated minute. **Ours** sees what the exporter sees: the memory, and the processes where they
  can be listed. *GPU memory only* is the same detector without them, and the rules of other systems, built from their
  documents, see that, too. Those that tell no interval or no forecast have none here.
- A leak counts once 64 MiB of it show. It is **found** by an alarm that begins while it leaks and is on 10 minutes later,
  or until memory runs out. **Named** is the process, pod or job that grows fastest then. The headroom that is gone is that
  at the onset, taken by the mean rate of the leak.
- **Page** and **ticket** are those of the mixin: memory full within the hour, for 3 minutes; a leak, for 30. A page that
  began before the leak is none. Of an out-of-memory that a program survives again and again the first counts.
- False is what begins while nothing leaks: on healthy GPUs, and before a leak on others.
- **Growing** is healthy use whose memory grows for hours, up to a bound. Healthy node-days are of the families as they
  are, about one in four of them growing: a fleet with fewer of those has fewer false alarms.
- The forecast is judged in the middle of the growth that ends in an out-of-memory, where it lasts for 10 minutes; no
  forecast is an error of 100 %% and does not cover.
- The **cost of a fleet** is that of 1,000 node-days without a leak and 20 leaks that end in an out-of-memory: %g for one
  without a page, %g for one with a page 30 minutes ahead, linear between; %g for a false page, %g for a false ticket. The
  **oracle** pages as soon as 64 MiB of a leak show, and never for anything else.

`

// writeIntro writes the begin of the page.
func writeIntro(w io.Writer, opt options) error {
	p := opt.prices
	if _, err := fmt.Fprintf(w, intro, p.oom, p.paged, p.falsePage, p.ticket); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
