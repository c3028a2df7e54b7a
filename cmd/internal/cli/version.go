// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/common/version"
)

// CompleteVersion fills in what is known of a program that was built by go build or go
// install: only the Makefile and promu pass more to the linker. It is called once,
// at the start.
func CompleteVersion() {
	if info, ok := debug.ReadBuildInfo(); ok {
		complete(info)
	}
}

// complete is CompleteVersion. The revision is not here: common takes it from the same place.
func complete(info *debug.BuildInfo) {
	version.Version = cmp.Or(version.Version, info.Main.Version)
	version.Branch = cmp.Or(version.Branch, "unknown")
	for _, s := range info.Settings {
		if s.Key != "vcs.time" {
			continue
		}
		// The date of the commit in the form that the Makefile gives it.
		if committed, err := time.Parse(time.RFC3339, s.Value); err == nil {
			version.BuildDate = cmp.Or(version.BuildDate, committed.UTC().Format("20060102-15:04:05"))
		}
	}
}

// Version returns what --version prints, without the lines of which nothing is known. It is called after CompleteVersion.
func Version(program string) string {
	var known strings.Builder
	for line := range strings.Lines(version.Print(program)) {
		if !strings.HasSuffix(strings.TrimSpace(line), ":") {
			known.WriteString(line)
		}
	}
	return strings.TrimSpace(known.String())
}

// ManPage returns kingpin's template of a man page with the head that man(7) asks for: kingpin writes what --version
// prints, which is several lines, where the date belongs, and says nothing of what the program is for, which
// whatis and apropos look for. It is called after CompleteVersion.
func ManPage(template, program, summary string) string {
	return strings.NewReplacer(
		`.TH {{.App.Name}} 1 {{.App.Version}} "{{.App.Author}}"`, fmt.Sprintf(`.TH %s 1 "" "%s %s" "User Commands"`, program, program, version.Version),
		".SH \"NAME\"\n{{.App.Name}}\n", fmt.Sprintf(".SH \"NAME\"\n%s \\- %s\n", program, summary),
	).Replace(template)
}
