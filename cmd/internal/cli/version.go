// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/common/version"
)

// CompleteVersion takes the version of a program that was built by go build or go install from the module: only the Makefile
// and promu pass it to the linker. It is called once, at the start.
func CompleteVersion() {
	if info, ok := debug.ReadBuildInfo(); ok {
		version.Version = cmp.Or(version.Version, info.Main.Version)
	}
}

// Version returns what --version prints. It is called after CompleteVersion.
func Version(program string) string { return strings.TrimSpace(version.Print(program)) }

// ManPage returns kingpin's template of a man page with the head that man(7) asks for: kingpin writes what --version
// prints, which is several lines, where the date belongs, and says nothing of what the program is for, which
// whatis and apropos look for. It is called after CompleteVersion.
func ManPage(template, program, summary string) string {
	return strings.NewReplacer(
		`.TH {{.App.Name}} 1 {{.App.Version}} "{{.App.Author}}"`, fmt.Sprintf(`.TH %s 1 "" "%s %s" "User Commands"`, program, program, version.Version),
		".SH \"NAME\"\n{{.App.Name}}\n", fmt.Sprintf(".SH \"NAME\"\n%s \\- %s\n", program, summary),
	).Replace(template)
}
