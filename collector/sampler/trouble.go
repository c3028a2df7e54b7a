// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// calm is how long something must work without a break before it counts as well
// again, and how far apart two lines about trouble are.
const calm = time.Minute

// trouble tells the log of what fails: the first failure at once, and of what fails on and off no more than a line a minute.
// One goroutine owns it. The zero trouble has told nothing.
type trouble struct {
	told   string    // the failure that was told last; "" while all is well
	at     time.Time // when that was
	untold int       // failures since then
	well   time.Time // since when it works; zero while it does not
}

// failed notes a failure, of which fields tell more.
func (t *trouble) failed(logger log.Logger, err error, fields ...any) {
	t.well = time.Time{}
	text := err.Error()
	if t.told != "" && (t.told == text || time.Since(t.at) < calm) {
		t.untold++
		return
	}
	t.line(logger, append(fields, "err", err)...)
	t.told, t.at = text, time.Now()
}

// works notes a success.
func (t *trouble) works(logger log.Logger, fields ...any) {
	switch {
	case t.told == "":
	case t.well.IsZero():
		t.well = time.Now()
	case time.Since(t.well) >= calm:
		t.line(logger, append(fields, "since", t.well.UTC().Format(time.RFC3339))...)
		*t = trouble{}
	}
}

// line writes a line that makes up for those that were held back.
func (t *trouble) line(logger log.Logger, fields ...any) {
	if t.untold > 0 {
		fields = append(fields, "failures_not_logged", t.untold)
	}
	_ = logger.Log(fields...)
	t.untold = 0
}

// complaints are troubles by what they are about.
type complaints struct {
	logger log.Logger
	of     map[string]*trouble
}

func newComplaints(logger log.Logger) complaints { return complaints{logger, map[string]*trouble{}} }

// about notes how it went and reports whether it failed. An example is logged with it, and another one is no change.
func (c *complaints) about(what string, err error, example ...any) (failed bool) {
	t := c.of[what]
	if t == nil {
		t = &trouble{}
		c.of[what] = t
	}
	if err != nil {
		t.failed(level.Warn(c.logger), err, append([]any{"msg", what}, example...)...)
	} else {
		t.works(level.Info(c.logger), "msg", "it works again", "before", what)
	}
	return err != nil
}
