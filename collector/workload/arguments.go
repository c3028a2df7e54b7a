// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxWords, maxWord and maxSteady bound what is made of the arguments of a program:
	// how many of them count, how many bytes of each, and of all.
	maxWords  = 512
	maxWord   = 512
	maxSteady = 16 << 10
	// changing stands for what is another one at each start.
	changing = "#"
)

// steadyArguments returns the arguments of a program, without its own name, such that two
// starts of the same program have the same: what is another one at each start is replaced.
// What decides how much memory a program holds stays, such as a batch size. What it has
// returned it returns unchanged.
func steadyArguments(args []string) []string {
	args = args[:min(len(args), maxWords)]
	steady := make([]string, 0, len(args))
	before := "" // the option that the word is the value of
	left := maxSteady
	for _, arg := range args {
		arg = arg[:min(len(arg), maxWord)]
		if left -= len(arg); left < 0 {
			break
		}
		if before != "" && isOption(arg) {
			before = ""
		}
		switch {
		case before == "":
			arg = steadyWord(arg, false)
		case natureOf(before) == changes && arg != "":
			arg = changing
		case natureOf(before) == written:
			arg = steadyPath(steadyWord(arg, true))
		default:
			arg = steadyWord(arg, true)
		}
		steady = append(steady, arg)
		before = ""
		if isOption(arg) && !strings.Contains(arg, "=") {
			before = arg
		}
	}
	return steady
}

// isOption reports whether a word is the name of a setting. A negative number is none.
func isOption(word string) bool {
	name := strings.TrimLeft(word, "-")
	return name != word && name != "" && !isDigit(name[0]) && name[0] != '.'
}

// steadyTitle returns the words of what a program has put in the place of its arguments,
// such as "VLLM::Worker_TP0" or "train: epoch 3".
func steadyTitle(title string) []string {
	words := strings.Fields(title[:min(len(title), maxWord)])
	for i, word := range words {
		words[i] = numbers.ReplaceAllString(steadyWord(word, false), changing)
	}
	return words
}

// nature is what the name of a setting says of its value.
type nature uint8

const (
	stays   nature = iota
	changes        // at each start
	written        // a place for files: its numbers may change
)

// changingNames are the last words of names whose values change at each start.
var changingNames = setOf("port", "ports", "seed", "seeds", "rank", "host", "hosts", "hostname", "addr", "address", "addresses",
	"ip", "endpoint", "endpoints", "uuid", "guid", "nonce", "timestamp", "date", "datetime", "pid", "ppid", "fd", "handle",
	"password", "passwd", "secret", "apikey", "nodelist", "hostfile", "machinefile", "socket", "runid", "jobid",
	"world-info", "env-hash", "session-name", "launch-time-ms", "api-key", "access-key", "secret-key", "auth-key",
	"hf-token", "auth-token", "api-token", "access-token", "bearer-token", "hub-token", "startup-token", "session-token")

// changingIDs are of what each start has a new one; others stay: --model-id, --eos-token-id.
var changingIDs = setOf("", "run", "job", "session", "trial", "task", "worker", "request", "experiment", "exp", "instance",
	"node", "process", "trace", "rdzv", "client", "cluster", "gpu", "device", "machine", "host", "replica", "actor", "pod",
	"container", "wandb", "unique")

// writtenNames are words of names whose values are places for files.
var writtenNames = setOf("out", "output", "outputs", "outdir", "log", "logs", "logdir", "checkpoint", "checkpoints", "ckpt",
	"ckpts", "save", "result", "results", "tensorboard", "tb", "wandb", "rundir", "workdir", "hydra", "tmp", "temp", "tmpdir",
	"scratch", "dump", "trace", "resume", "restore", "snapshot", "snapshots")

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// natureOf returns what a name says: --master_port, MASTER_PORT, trainer.masterPort.
func natureOf(name string) nature {
	words := nameWords(name)
	if len(words) == 0 || slices.Contains(words, "lora") {
		return stays // the rank of LoRA is a size
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	if changingNames[last] || changingNames[before+"-"+last] || last == "id" && changingIDs[before] ||
		len(words) > 2 && changingNames[words[len(words)-3]+"-"+before+"-"+last] {
		return changes
	}
	if slices.ContainsFunc(words, func(w string) bool { return writtenNames[w] }) || before == "run" && last == "dir" || before == "work" && last == "dir" {
		return written
	}
	return stays
}

// nameWords returns the words of a name, in lower case.
func nameWords(name string) []string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		upper := c >= 'A' && c <= 'Z'
		if upper && i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
			b.WriteByte(' ')
		}
		switch {
		case upper:
			b.WriteByte(c + 'a' - 'A')
		case c == '-' || c == '_' || c == '.':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	return strings.Fields(b.String())
}

// steadyWord replaces what changes in an argument: the values of settings in it, as in
// --seed=7, trainer.seed=7 and {"seed": 7}, and what looks like a port, a date and so on.
// A long number stays where it is the value of an option.
func steadyWord(word string, value bool) string {
	for strings.ContainsAny(word, "0123456789/:=") { // nothing else changes
		// Each step removes something, and may show to the others what was hidden.
		steady := steadyNumbers(steadyPatterns(steadySettings(word)), value)
		if steady == word {
			return word
		}
		word = steady
	}
	return word
}

// steadySettings replaces the values of settings in a text whose names say that they change.
func steadySettings(text string) string {
	var b strings.Builder
	done := 0
	for i := range len(text) {
		if i < done || text[i] != '=' && text[i] != ':' {
			continue
		}
		nature := natureOf(nameBefore(text[:i]))
		if nature == stays {
			continue
		}
		from, to := valueAfter(text, i+1)
		if from == to {
			continue
		}
		b.WriteString(text[done:from])
		if nature == changes {
			b.WriteString(changing)
		} else {
			b.WriteString(steadyPath(text[from:to]))
		}
		done = to
	}
	return b.String() + text[done:]
}

// nameBefore returns the name at the end of a text, which may be quoted.
func nameBefore(text string) string {
	text = strings.TrimRight(text, ` "'+`)
	i := len(text)
	for i > 0 && (isAlphanumeric(text[i-1]) || strings.IndexByte("_-.#", text[i-1]) >= 0) {
		i--
	}
	return text[i:]
}

// valueAfter returns where the value is that begins at i.
func valueAfter(text string, i int) (from, to int) {
	for i < len(text) && text[i] == ' ' {
		i++
	}
	ends := " \t\n,;\"'{}()[]&"
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		ends = text[i : i+1]
		i++
	}
	if n := strings.IndexAny(text[i:], ends); n >= 0 {
		return i, i + n
	}
	return i, len(text)
}

// patterns are what changes at each start wherever it stands.
var patterns = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(?i)\b(tcp|https?|grpcs?|wss?|rediss?|zmq|amqps?|postgres(?:ql)?|mysql|mongodb)://[^/\s"',;]+`), "$1://" + changing},
	{regexp.MustCompile(`(^|[^A-Za-z0-9_./-])(/(?:var/)?tmp|/dev/shm|/(?:var/)?run|/dev/fd|/proc)/[^\s"',;:)]+`), "$1$2/" + changing},
	{regexp.MustCompile(`kernel-[0-9A-Za-z_-]+\.json`), "kernel-" + changing + ".json"}, // the connection file of a notebook
	{regexp.MustCompile(uuidForm), changing},
	{regexp.MustCompile(`(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?`), changing},
	{regexp.MustCompile(`(?:\blocalhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+):[0-9]{4,5}\b`), changing},
	{regexp.MustCompile(`20[0-9]{2}[-_./](?:0?[1-9]|1[0-2])[-_./][0-3]?[0-9]` + `(?:[T_ .@-]+[0-2]?[0-9][-_:.h][0-5][0-9](?:[-_:.m][0-5][0-9](?:\.[0-9]+)?s?)?)?`), changing},
	{regexp.MustCompile(`20[0-4][0-9](?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[T_-]?[0-2][0-9][0-5][0-9](?:[0-5][0-9])?)?Z?\b`), changing},
	{regexp.MustCompile(`(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[0-3][0-9][-_][0-2][0-9][-:_][0-5][0-9](?:[-:_][0-5][0-9])?`), changing},
	{regexp.MustCompile(`\b[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?\b`), changing},
	{regexp.MustCompile(`\bcuda:[0-9]+\b`), "cuda:" + changing},
	{regexp.MustCompile(`\b(triton_python_backend_shm_region_)[0-9A-Za-z_-]+`), "${1}" + changing},
}

var (
	tokens  = regexp.MustCompile(`[0-9A-Za-z]+`)
	numbers = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)*`)
	address = regexp.MustCompile(`[0-9a-fA-F:]*:[0-9a-fA-F:.]*`)
)

// steadyPatterns replaces what changes by its form.
func steadyPatterns(text string) string {
	for _, p := range patterns {
		text = p.form.ReplaceAllString(text, p.as)
	}
	text = replaceEach(address, text, func(i, j int) bool {
		if i > 0 && isAlphanumeric(text[i-1]) || j < len(text) && isAlphanumeric(text[j]) || strings.Count(text[i:j], ":") < 2 {
			return false
		}
		_, err := netip.ParseAddr(text[i:j])
		return err == nil
	})
	return replaceEach(tokens, text, func(i, j int) bool { return isRandom(text[i:j]) })
}

// isRandom reports whether a word of letters and digits is a hash or another made-up name.
func isRandom(word string) bool {
	word = strings.TrimPrefix(word, "0x")
	digits, hex := 0, 0
	for i := range len(word) {
		switch c := word[i]; {
		case isDigit(c):
			digits++
		case c >= 'a' && c <= 'f':
			hex++
		}
	}
	letters := len(word) - digits
	return len(word) >= 8 && digits > 0 && letters > 0 && hex == letters || len(word) >= 20 && digits >= 3 && letters >= 3
}

// steadyNumbers replaces numbers of five digits and more, unless they are the value of a
// setting; such a value is replaced if it is a time.
func steadyNumbers(text string, value bool) string {
	return replaceEach(numbers, text, func(i, j int) bool {
		whole, fraction, isFraction := strings.Cut(text[i:j], ".")
		long := slices.ContainsFunc(strings.Split(text[i:j], "."), func(part string) bool { return len(part) >= 5 })
		switch {
		case !long, isFraction && len(whole) < 5 && !strings.Contains(fraction, "."):
			return false // 0.00003 is a learning rate
		case isTimestamp(whole):
			return true
		}
		return !isValue(text, i, j, value)
	})
}

// isTimestamp reports whether a number is a time of the years 2014 to 2033, in seconds or less.
func isTimestamp(digits string) bool {
	switch len(digits) {
	case 10, 13, 16, 19:
		return digits[0] == '1' && digits[1] >= '4'
	}
	return false
}

// isValue reports whether a number in a text is all of a setting's value, but for its unit.
func isValue(text string, i, j int, value bool) bool {
	before, after := strings.TrimRight(text[:i], ` "'`), strings.TrimLeft(text[j:], "kKmMgGtTiIbB")
	if after != "" && !strings.ContainsAny(after[:1], " ,;\"'{}()[]&") {
		return false
	}
	if before == "" {
		return value
	}
	return before[len(before)-1] == '=' || before[len(before)-1] == ':'
}

// steadyPath replaces the numbers in the name of a file, but for the size of a model.
// What is only a number is no name.
func steadyPath(name string) string {
	if strings.Trim(name, "0123456789.,-+eE") == "" {
		return name
	}
	return replaceEach(numbers, name, func(_, j int) bool {
		isSize := j < len(name) && strings.IndexByte("bBmM", name[j]) >= 0 && (j+1 == len(name) || !isAlphanumeric(name[j+1]))
		return !isSize
	})
}

// replaceEach replaces the matches that are to be.
func replaceEach(form *regexp.Regexp, text string, replace func(from, to int) bool) string {
	var b strings.Builder
	done := 0
	for _, at := range form.FindAllStringIndex(text, -1) {
		if at[0] < at[1] && replace(at[0], at[1]) {
			b.WriteString(text[done:at[0]])
			b.WriteString(changing)
			done = at[1]
		}
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
