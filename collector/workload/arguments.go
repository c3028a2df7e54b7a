// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "regexp"

// changing is what differs at each start of a program: UUIDs, hexadecimal words of eight characters
// and more, and numbers of five digits and more, such as ids, times, dates and addresses. Fewer digits
// count: they may be the size of a batch, a rank or a port. Of what begins at one place the longest is
// taken, so that a hexadecimal word is whole whatever it begins with.
var changing = func() *regexp.Regexp {
	r := regexp.MustCompile(uuidForm + `|[0-9a-fA-F]{8,}|[0-9](?:[-_:.]?[0-9]){4,}`)
	r.Longest()
	return r
}()

// steady returns a text such that two starts of the same program have the same.
func steady(text string) string { return changing.ReplaceAllLiteralString(text, "#") }

// steadyArguments returns what of the arguments of a program is the same at each start. Its own name
// is not in it, unless the only argument is a title: that is all there is.
func steadyArguments(args []string) []string {
	if len(args) != 1 || !isTitle(args[0]) {
		args = args[min(1, len(args)):]
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = steady(arg)
	}
	return words
}
