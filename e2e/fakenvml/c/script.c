// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// The script: what the fake driver knows, one statement a line, words separated by single blanks.
//
// Statements of the node, before the first `gpu`:
//
//   fakenvml 1                     version of this format; the first line
//   driver TEXT                    driver version
//   cuda N                         CUDA driver version, 12080 is 12.8
//   epoch SECONDS                  Unix time at which ramps start
//   enumerate live|init            which GPUs are counted: those of the script now, or those at Init as the driver does
//   fault CALL WHO ACTION [skip=N] [times=N]
//       CALL    function name; a trailing * stands for any ending (nvmlInit*)
//       WHO     * (any, also calls without a device), a GPU's number in this file, or a UUID
//       ACTION  error=NAME or number  answer this (GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN, …)
//               hang                  block until the script no longer has a hang for this call
//               size                  a list grew between count and fill: INSUFFICIENT_SIZE although the buffer sufficed
//               delay=MICROSECONDS    answer late
//       skip    so many calls pass first; times: so many are hit then, all without it. The counts go on over re-reads
//               while the line stays the same word for word.
//
// A RAMP is BASE [RATE]: BASE + RATE × seconds since the epoch, never under 0.
// Statements of a GPU follow its `gpu` line, in any order. What is not said is 0; what does not apply is refused by a fault.
//
//   gpu UUID                       starts a GPU; its number is its place in the file
//   name, serial, vbios, bus_id TEXT                        bus_id as 00000000:3B:00.0
//   minor, architecture N
//   lost 0|1                       every call about it answers GPU_IS_LOST
//   hidden 0|1                     a lost GPU is not counted either
//   memory TOTAL RESERVED ADD RAMP bytes used, reserved excluded; ADD 1: the processes' memory comes on top
//   bar1 TOTAL RAMP                bytes
//   utilization GPU MEMORY ENCODER DECODER JPEG OFA         %
//   temperature C                  margin C: present only where said; threshold KIND C: likewise
//   fan PERCENT                    one line a fan
//   power RAMP                     mW
//   power_limits CURRENT DEFAULT ENFORCED MIN MAX           mW
//   energy RAMP                    mJ
//   pstate N
//   clocks, max_clocks GRAPHICS SM MEMORY VIDEO             MHz
//   reasons NOW SUPPORTED          bit masks of clocks event reasons
//   ecc_mode CURRENT PENDING       ecc TYPE COUNTER LOCATION COUNT: present only where said
//   remapped CORRECTED UNCORRECTED PENDING FAILED
//   retired CAUSE ADDRESS          one line a page          retired_pending 0|1
//   recovery ACTION
//   pcie GENERATION MAX WIDTH MAXWIDTH REPLAYS
//   link N ACTIVE REPLAY RECOVERY CRCFLIT CRCDATA ECCDATA
//   addressing MODE
//   field ID SCOPE TYPE RAMP       nvmlDeviceGetFieldValues; TYPE d, u, ul, ull, sll, si, us
//                                  other fields follow from the statements above where they can, or are NOT_SUPPORTED
//   process LIST PID GI CI BASE RATE [NAME]                 LIST compute, graphics, mps; a RAMP in full, in bytes, BASE -1:
//                                  not available; GI, CI -1: none; NAME is for hardware/stub/bin/nvidia-smi
//   sample PID SM MEMORY ENCODER DECODER JPEG OFA           a utilisation sample, %, that is always fresh
//   limit HARD FOLDER              of the control group with that folder, bytes; HARD -1: it has none. It uses all of the memory
//   event SEQ TYPE DATA            delivered once to each event set whose registration is older than the event
//   mig CURRENT PENDING MAXDEVICES
//   profile PROFILE SLICES MEMORYMB NAME
//   instance ID PROFILE TOTAL RESERVED ADD RAMP             a GPU instance; PROFILE: the number of a profile line
//   device INDEX GI CI SLICES SMS UUID                      a MIG device: a compute instance

#include "fake.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORDS 20

struct parser {
	struct script *script;
	struct gpu *gpu; // NULL before the first
	const char *rest[MAX_WORDS]; // from each word to the end of the line
	char *word[MAX_WORDS];
	int words;
	char *line; // unsplit copy
	const char *error;
};

static void *grow(void *array, unsigned int len, unsigned int *cap, size_t size)
{
	if (len < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 8;
	void *bigger = realloc(array, *cap * size);
	if (!bigger)
		abort();
	return bigger;
}

// PUSH appends a zeroed element and yields its address.
#define PUSH(array, len, cap)                                                                                          \
	((array) = grow((array), (len), &(cap), sizeof *(array)), memset(&(array)[len], 0, sizeof *(array)), &(array)[(len)++])

static uint64_t number(struct parser *p, int i)
{
	if (i >= p->words) {
		p->error = "words are missing";
		return 0;
	}
	char *end;
	uint64_t n = strtoull(p->word[i], &end, 0); // "-1" is all ones, as in C
	if (*end || end == p->word[i])
		p->error = "not a whole number";
	return n;
}

static double real(struct parser *p, int i)
{
	if (i >= p->words) {
		p->error = "words are missing";
		return 0;
	}
	char *end;
	double x = strtod(p->word[i], &end);
	if (*end || end == p->word[i])
		p->error = "not a number";
	return x;
}

static struct ramp read_ramp(struct parser *p, int i)
{
	struct ramp r = {.base = number(p, i)};
	if (i + 1 < p->words)
		r.rate = real(p, i + 1);
	return r;
}

static void numbers(struct parser *p, int i, uint32_t *out, int n)
{
	for (int j = 0; j < n; j++)
		out[j] = (uint32_t)number(p, i + j);
}

// index_under reads a number that has to be under limit, to index a table.
static uint32_t index_under(struct parser *p, int i, uint32_t limit)
{
	uint64_t n = number(p, i);
	if (n < limit)
		return (uint32_t)n;
	p->error = "number out of range";
	return 0;
}

static const struct {
	const char *name;
	nvmlReturn_t code;
} codes[] = {
#define CODE(x) {#x, NVML_ERROR_##x}
	{"SUCCESS", NVML_SUCCESS}, CODE(UNINITIALIZED), CODE(INVALID_ARGUMENT), CODE(NOT_SUPPORTED), CODE(NO_PERMISSION),
	CODE(ALREADY_INITIALIZED), CODE(NOT_FOUND), CODE(INSUFFICIENT_SIZE), CODE(INSUFFICIENT_POWER),
	CODE(DRIVER_NOT_LOADED), CODE(TIMEOUT), CODE(IRQ_ISSUE), CODE(LIBRARY_NOT_FOUND), CODE(FUNCTION_NOT_FOUND),
	CODE(CORRUPTED_INFOROM), CODE(GPU_IS_LOST), CODE(RESET_REQUIRED), CODE(OPERATING_SYSTEM),
	CODE(LIB_RM_VERSION_MISMATCH), CODE(IN_USE), CODE(MEMORY), CODE(NO_DATA), CODE(VGPU_ECC_NOT_SUPPORTED),
	CODE(INSUFFICIENT_RESOURCES), CODE(FREQ_NOT_SUPPORTED), CODE(ARGUMENT_VERSION_MISMATCH), CODE(DEPRECATED),
	CODE(NOT_READY), CODE(GPU_NOT_FOUND), CODE(INVALID_STATE), CODE(RESET_TYPE_NOT_SUPPORTED), CODE(UNKNOWN),
};

static nvmlReturn_t read_code(struct parser *p, const char *text)
{
	if (isdigit((unsigned char)*text))
		return (nvmlReturn_t)atoi(text);
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (!strcmp(codes[i].name, text))
			return codes[i].code;
	p->error = "unknown error code";
	return NVML_ERROR_UNKNOWN;
}

// after returns what follows prefix in text, or NULL.
static const char *after(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(text, prefix, n) ? NULL : text + n;
}

static void parse_fault_action(struct parser *p, struct fault *f, const char *word)
{
	const char *v;
	if ((v = after(word, "error="))) {
		f->action = FAULT_ERROR;
		f->code = read_code(p, v);
	} else if ((v = after(word, "delay="))) {
		f->action = FAULT_DELAY;
		f->delay = strtoull(v, NULL, 10);
	} else if (!strcmp(word, "hang")) {
		f->action = FAULT_HANG;
	} else if (!strcmp(word, "size")) {
		f->action = FAULT_SIZE;
	} else {
		p->error = "unknown action of a fault";
	}
}

// parse_fault leaves WHO to resolve_faults, because the GPUs come later in the file.
static void parse_fault(struct parser *p)
{
	if (p->words < 4) {
		p->error = "words are missing";
		return;
	}
	struct fault *f = PUSH(p->script->faults, p->script->faults_len, p->script->faults_cap);
	f->line = p->line;
	char *call = p->word[1];
	size_t n = strlen(call);
	bool prefix = n > 0 && call[n - 1] == '*', any = false;
	for (int i = 0; i < FN_COUNT; i++) {
		const char *name = fake_function_names[i];
		f->matches[i] = prefix ? !strncmp(name, call, n - 1) : !strcmp(name, call);
		any |= f->matches[i];
	}
	if (!any)
		p->error = "a fault for a call that does not exist";
	parse_fault_action(p, f, p->word[3]);
	for (int i = 4; i < p->words; i++) {
		const char *v;
		if ((v = after(p->word[i], "skip=")))
			f->skip = strtoull(v, NULL, 10);
		else if ((v = after(p->word[i], "times=")))
			f->times = strtoull(v, NULL, 10);
		else
			p->error = "unknown option of a fault";
	}
	char *who = p->word[2];
	f->any_gpu = !strcmp(who, "*");
	if (!f->any_gpu && !isdigit((unsigned char)*who))
		f->handle = device_handle(who);
}

static bool resolve_faults(struct script *s, const char **error)
{
	for (unsigned int i = 0; i < s->faults_len; i++) {
		struct fault *f = &s->faults[i];
		if (f->any_gpu || f->handle)
			continue;
		unsigned int gpu = 0;
		if (sscanf(f->line, "%*s %*s %u", &gpu) != 1 || gpu >= s->gpus_len) {
			*error = "a fault for a GPU that is not there";
			return false;
		}
		f->handle = s->gpus[gpu].handle;
	}
	return true;
}

static bool parse_node(struct parser *p)
{
	struct script *s = p->script;
	const char *key = p->word[0];
	const char *text = p->words > 1 ? p->rest[1] : "";
	if (!strcmp(key, "fakenvml")) {
		if (number(p, 1) != 1)
			p->error = "another version of the format";
	} else if (!strcmp(key, "driver")) {
		s->driver = text;
	} else if (!strcmp(key, "cuda")) {
		s->cuda = (int)number(p, 1);
	} else if (!strcmp(key, "epoch")) {
		s->epoch = real(p, 1);
	} else if (!strcmp(key, "enumerate")) {
		s->enumerate_at_init = !strcmp(text, "init");
	} else if (!strcmp(key, "fault")) {
		parse_fault(p);
	} else {
		return false;
	}
	return true;
}

static void parse_gpu(struct parser *p)
{
	struct script *s = p->script;
	if (s->gpus_len == MAX_GPUS || p->words < 2) {
		p->error = "too many GPUs, or one without UUID";
		return;
	}
	struct gpu *g = &s->gpus[s->gpus_len];
	g->number = s->gpus_len++;
	g->uuid = p->word[1];
	g->handle = device_handle(g->uuid);
	g->name = g->serial = g->vbios = g->bus_id = "";
	p->gpu = g;
}

static void parse_process(struct parser *p)
{
	static const char *const lists[LIST_COUNT] = {"compute", "graphics", "mps"};
	struct gpu *g = p->gpu;
	int list = 0;
	while (list < LIST_COUNT && p->words > 1 && strcmp(p->word[1], lists[list]))
		list++;
	if (list == LIST_COUNT || p->words < 7) {
		p->error = "a process line is process LIST PID GI CI BASE RATE [NAME]";
		return;
	}
	struct process *q = PUSH(g->processes[list], g->list_len[list], g->list_cap[list]);
	q->pid = (uint32_t)number(p, 2);
	q->gi = (uint32_t)number(p, 3);
	q->ci = (uint32_t)number(p, 4);
	q->memory = read_ramp(p, 5);
}

static void parse_sample(struct parser *p)
{
	struct gpu *g = p->gpu;
	struct sample *q = PUSH(g->samples, g->samples_len, g->samples_cap);
	uint32_t v[6];
	numbers(p, 2, v, 6);
	q->pid = (uint32_t)number(p, 1);
	q->sm = v[0], q->memory = v[1], q->encoder = v[2], q->decoder = v[3], q->jpeg = v[4], q->ofa = v[5];
}

static void parse_field(struct parser *p)
{
	static const char *const types[] = {"d", "u", "ul", "ull", "sll", "si", "us"}; // in nvmlValueType_t's order
	struct gpu *g = p->gpu;
	struct field *f = PUSH(g->fields, g->fields_len, g->fields_cap);
	f->id = (uint32_t)number(p, 1);
	f->scope = (uint32_t)number(p, 2);
	for (int i = 0; p->words > 4 && i < NVML_VALUE_TYPE_COUNT; i++) {
		if (strcmp(p->word[3], types[i]))
			continue;
		f->type = (nvmlValueType_t)i;
		if (i == NVML_VALUE_TYPE_DOUBLE)
			f->real = real(p, 4);
		else
			f->value = read_ramp(p, 4);
		return;
	}
	p->error = "unknown type of a field";
}

static void parse_link(struct parser *p)
{
	struct link *l = &p->gpu->links[index_under(p, 1, MAX_LINKS)];
	l->present = true;
	l->active = (uint32_t)number(p, 2);
	for (int i = 0; i < NVML_NVLINK_ERROR_COUNT; i++)
		l->errors[i] = number(p, 3 + i);
}

static void parse_memory(struct parser *p, int i, struct memory *m)
{
	m->total = number(p, i);
	m->reserved = number(p, i + 1);
	m->add_processes = number(p, i + 2) != 0;
	m->used = read_ramp(p, i + 3);
}

static void parse_profile(struct parser *p)
{
	struct profile *q = PUSH(p->gpu->profiles, p->gpu->profiles_len, p->gpu->profiles_cap);
	numbers(p, 1, &q->profile, 2);
	q->memory_mb = number(p, 3);
	q->name = p->words > 4 ? p->rest[4] : "";
}

static void parse_instance(struct parser *p)
{
	struct gpu_instance *q = PUSH(p->gpu->instances, p->gpu->instances_len, p->gpu->instances_cap);
	numbers(p, 1, &q->id, 2);
	parse_memory(p, 3, &q->memory);
}

static void parse_device(struct parser *p)
{
	struct mig_device *q = PUSH(p->gpu->mig_devices, p->gpu->mig_devices_len, p->gpu->mig_devices_cap);
	numbers(p, 1, &q->index, 5);
	q->uuid = p->words > 6 ? p->word[6] : "";
	q->handle = device_handle(q->uuid);
}

static void parse_limit(struct parser *p)
{
	struct limit *q = PUSH(p->gpu->limits, p->gpu->limits_len, p->gpu->limits_cap);
	q->hard = number(p, 1);
	q->folder = p->words > 2 ? p->rest[2] : "";
}

static void parse_event(struct parser *p)
{
	struct event *e = PUSH(p->gpu->events, p->gpu->events_len, p->gpu->events_cap);
	e->seq = number(p, 1);
	e->type = number(p, 2);
	e->data = number(p, 3);
	if (e->seq > p->script->max_seq)
		p->script->max_seq = e->seq;
}

static void parse_retired(struct parser *p)
{
	struct retired_page *q = PUSH(p->gpu->pages, p->gpu->pages_len, p->gpu->pages_cap);
	q->cause = index_under(p, 1, NVML_PAGE_RETIREMENT_CAUSE_COUNT);
	q->address = number(p, 2);
}

static void parse_bus_id(struct parser *p)
{
	struct gpu *g = p->gpu;
	g->bus_id = p->words > 1 ? p->word[1] : "";
	if (sscanf(g->bus_id, "%x:%x:%x", &g->domain, &g->bus, &g->device) != 3)
		p->error = "a bus id is 00000000:3B:00.0";
}

static void parse_pcie(struct parser *p)
{
	struct gpu *g = p->gpu;
	numbers(p, 1, g->pcie_generation, 2);
	numbers(p, 3, g->pcie_width, 2);
	g->pcie_replays = (uint32_t)number(p, 5);
}

static void parse_ecc(struct parser *p)
{
	struct gpu *g = p->gpu;
	uint32_t type = index_under(p, 1, NVML_MEMORY_ERROR_TYPE_COUNT);
	uint32_t counter = index_under(p, 2, NVML_ECC_COUNTER_TYPE_COUNT);
	uint32_t location = index_under(p, 3, NVML_MEMORY_LOCATION_COUNT);
	g->ecc[type][counter][location] = number(p, 4);
	g->has_ecc[type][counter][location] = true;
}

// Keys whose value is one text or some consecutive 32-bit numbers of struct gpu.
static const struct {
	const char *key;
	size_t offset;
	int numbers; // 0: a text
} plain[] = {
#define TEXT(key) {#key, offsetof(struct gpu, key), 0}
#define NUMBERS(key, field, n) {key, offsetof(struct gpu, field), n}
	TEXT(name), TEXT(serial), TEXT(vbios), NUMBERS("minor", minor, 1), NUMBERS("architecture", architecture, 1),
	NUMBERS("lost", lost, 1),
	NUMBERS("hidden", hidden, 1), NUMBERS("utilization", utilization, 6), NUMBERS("temperature", temperature, 1),
	NUMBERS("power_limits", power_limit, 5), NUMBERS("pstate", pstate, 1), NUMBERS("clocks", clocks, 4),
	NUMBERS("max_clocks", max_clocks, 4), NUMBERS("ecc_mode", ecc_mode, 2), NUMBERS("remapped", remapped, 4),
	NUMBERS("retired_pending", retired_pending, 1),
	NUMBERS("recovery", recovery_action, 1), NUMBERS("mig", mig_mode, 3),
};

static bool parse_plain(struct parser *p)
{
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		if (strcmp(plain[i].key, p->word[0]))
			continue;
		char *at = (char *)p->gpu + plain[i].offset;
		if (plain[i].numbers)
			numbers(p, 1, (uint32_t *)(void *)at, plain[i].numbers);
		else
			*(const char **)(void *)at = p->words > 1 ? p->rest[1] : "";
		return true;
	}
	return false;
}

static bool parse_other(struct parser *p)
{
	struct gpu *g = p->gpu;
	const char *key = p->word[0];
	if (!strcmp(key, "memory")) {
		parse_memory(p, 1, &g->memory);
	} else if (!strcmp(key, "bar1")) {
		g->bar1_total = number(p, 1);
		g->bar1_used = read_ramp(p, 2);
	} else if (!strcmp(key, "margin")) {
		g->margin = (int32_t)number(p, 1);
		g->has_margin = 1;
	} else if (!strcmp(key, "threshold")) {
		uint32_t kind = index_under(p, 1, NVML_TEMPERATURE_THRESHOLD_COUNT);
		g->thresholds[kind] = (uint32_t)number(p, 2);
		g->has_threshold[kind] = true;
	} else if (!strcmp(key, "fan")) {
		if (g->fans_len < MAX_FANS)
			g->fans[g->fans_len++] = (uint32_t)number(p, 1);
		else
			p->error = "too many fans";
	} else if (!strcmp(key, "power")) {
		g->power = read_ramp(p, 1);
	} else if (!strcmp(key, "energy")) {
		g->energy = read_ramp(p, 1);
	} else if (!strcmp(key, "reasons")) {
		g->reasons = number(p, 1);
		g->supported_reasons = number(p, 2);
	} else if (!strcmp(key, "addressing")) {
		g->addressing_mode = (uint32_t)number(p, 1);
	} else {
		return false;
	}
	return true;
}

static bool parse_gpu_line(struct parser *p)
{
	static const struct {
		const char *key;
		void (*parse)(struct parser *);
	} lines[] = {
		{"process", parse_process}, {"sample", parse_sample}, {"field", parse_field}, {"link", parse_link},
		{"profile", parse_profile}, {"instance", parse_instance}, {"device", parse_device}, {"event", parse_event},
		{"retired", parse_retired}, {"bus_id", parse_bus_id}, {"pcie", parse_pcie},
		{"ecc", parse_ecc}, {"limit", parse_limit},
	};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		if (!strcmp(lines[i].key, p->word[0])) {
			lines[i].parse(p);
			return true;
		}
	}
	return parse_plain(p) || parse_other(p);
}

// split cuts the line into words in place; rest[i] stays whole because it points into the second copy.
static void split(struct parser *p, char *line, char *copy)
{
	p->words = 0;
	p->line = copy;
	for (size_t i = 0; line[i] && p->words < MAX_WORDS; i++) {
		if (line[i] == ' ') {
			line[i] = 0;
			continue;
		}
		if (i == 0 || line[i - 1] == 0) {
			p->word[p->words] = line + i;
			p->rest[p->words++] = copy + i;
		}
	}
}

static void parse_line(struct parser *p)
{
	if (p->words == 0 || *p->word[0] == '#')
		return;
	if (!strcmp(p->word[0], "gpu"))
		parse_gpu(p);
	else if (!(p->gpu ? parse_gpu_line(p) : parse_node(p)))
		p->error = "unknown statement";
}

struct seen {
	uint32_t pid;
	unsigned int order;
	struct process *entry;
};

static int by_pid_then_order(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

// mark_repeated finds the pids that are in several lists, or several times in one: their memory is summed once.
static void mark_repeated(struct gpu *g)
{
	unsigned int n = 0, total = 0;
	for (int l = 0; l < LIST_COUNT; l++)
		total += g->list_len[l];
	struct seen *all = calloc(total + 1, sizeof *all);
	if (!all)
		abort();
	for (int l = 0; l < LIST_COUNT; l++)
		for (unsigned int i = 0; i < g->list_len[l]; i++, n++)
			all[n] = (struct seen){g->processes[l][i].pid, n, &g->processes[l][i]};
	qsort(all, n, sizeof *all, by_pid_then_order);
	for (unsigned int i = 1; i < n; i++)
		all[i].entry->repeated = all[i].pid == all[i - 1].pid && all[i].entry->gi == all[i - 1].entry->gi;
	free(all);
}

struct script *script_parse(char *text, size_t len, char *error, size_t error_len)
{
	struct script *s = calloc(1, sizeof *s);
	if (!s)
		abort();
	s->driver = "";
	s->refs = 1;
	// Two copies: one is cut into words, the other keeps whole lines for texts with blanks.
	s->text = malloc(2 * (len + 1));
	if (!s->text)
		abort();
	memcpy(s->text, text, len);
	memcpy(s->text + len + 1, text, len);
	s->text[len] = s->text[2 * len + 1] = 0;
	free(text);
	struct parser p = {.script = s};
	char *copy = s->text + len + 1;
	int line_number = 0;
	for (char *line = s->text, *next; line; line = next) {
		line_number++;
		char *this_copy = copy;
		if ((next = strchr(line, '\n'))) {
			copy += next - line + 1;
			copy[-1] = 0;
			*next++ = 0;
		}
		split(&p, line, this_copy);
		parse_line(&p);
		if (p.error) {
			snprintf(error, error_len, "line %d: %s: %s", line_number, p.error, this_copy);
			script_free(s);
			return NULL;
		}
	}
	if (!resolve_faults(s, &p.error)) {
		snprintf(error, error_len, "%s", p.error);
		script_free(s);
		return NULL;
	}
	for (unsigned int i = 0; i < s->gpus_len; i++)
		mark_repeated(&s->gpus[i]);
	return s;
}

void script_free(struct script *s)
{
	for (unsigned int i = 0; i < s->gpus_len; i++) {
		struct gpu *g = &s->gpus[i];
		for (int l = 0; l < LIST_COUNT; l++)
			free(g->processes[l]);
		free(g->samples);
		free(g->events);
		free(g->fields);
		free(g->pages);
		free(g->profiles);
		free(g->instances);
		free(g->mig_devices);
		free(g->limits);
	}
	free(s->faults);
	free(s->text);
	free(s);
}

static double clock_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double script_elapsed(const struct script *s)
{
	return clock_seconds() - s->epoch;
}

uint64_t script_now(void)
{
	return (uint64_t)(clock_seconds() * 1e6);
}

uint64_t ramp_at(const struct script *s, const struct ramp *r)
{
	if (r->rate == 0 || r->base == NOT_AVAILABLE)
		return r->base;
	double t = script_elapsed(s);
	if (t < 0)
		t = 0;
	int64_t moved = (int64_t)(r->rate * t);
	if (moved < 0 && (uint64_t)-moved > r->base)
		return 0;
	return r->base + (uint64_t)moved;
}

uint64_t memory_used(const struct script *s, const struct gpu *g, const struct memory *m, uint32_t gi)
{
	uint64_t used = ramp_at(s, &m->used);
	for (int l = 0; m->add_processes && l < LIST_COUNT; l++) {
		for (unsigned int i = 0; i < g->list_len[l]; i++) {
			const struct process *q = &g->processes[l][i];
			if (q->repeated || q->memory.base == NOT_AVAILABLE || (gi != NO_INSTANCE && q->gi != gi))
				continue;
			used += ramp_at(s, &q->memory);
		}
	}
	uint64_t most = m->total > m->reserved ? m->total - m->reserved : 0;
	return used > most ? most : used;
}
