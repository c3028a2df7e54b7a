// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// What every call goes through: counting, re-reading the script, finding the device, faults. And the life cycle.

#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// The call log: this structure is the file of FAKE_NVML_CALLS, mapped and written in place, so that it can be read at any
// time and is whole after a kill. calls.go reads it: keep the two alike.
struct call_log {
	char magic[8];
	uint32_t functions, slot_size;
	_Atomic uint64_t violations;    // calls that a real driver may not survive
	_Atomic uint64_t uninitialized; // calls outside Init and Shutdown
	_Atomic uint64_t script_loads, script_errors;
	_Atomic uint32_t inside;    // threads in a call now
	_Atomic uint32_t alone;     // threads in Init or Shutdown now
	_Atomic int32_t references; // successful Inits less Shutdowns
	_Atomic int32_t pid;        // who opened it last
	char violation[192]; // the last one
	char script_error[256];
	struct slot {
		char name[72];
		_Atomic uint64_t calls, failures; // failures: answers other than SUCCESS
		_Atomic uint64_t cpu;             // ns of processor time in calls that have returned
		_Atomic uint32_t inside;
		uint32_t pad;
	} slots[FN_COUNT];
};

// lock guards the script pointer and its counts, the handle tables and the life cycle. It is held while a new script is
// parsed, and never while a call works, sleeps or hangs.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct script *current;
static struct stat current_stat;
static char script_path[4096];
static int references;
static struct nvmlDevice_st *enumerated[MAX_GPUS];
static unsigned int enumerated_len;

static struct call_log own_log;
static struct call_log *call_log = &own_log;
static char log_path[4096];

const nvmlDevice_t no_device = {NULL};

#define MAX_HANDLES 4096
static struct nvmlDevice_st devices[MAX_HANDLES];
static unsigned int devices_len;

// device_handle gives a UUID its handle, for the life of the process. The lock is held: scripts are parsed under it.
struct nvmlDevice_st *device_handle(const char *uuid)
{
	for (unsigned int i = 0; i < devices_len; i++)
		if (!strcmp(devices[i].uuid, uuid))
			return &devices[i];
	if (devices_len == MAX_HANDLES)
		abort();
	snprintf(devices[devices_len].uuid, sizeof devices->uuid, "%s", uuid);
	return &devices[devices_len++];
}

static bool device_valid(nvmlDevice_t d)
{
	return d.handle >= devices && d.handle < devices + MAX_HANDLES && d.handle->uuid[0];
}

void sleep_us(uint64_t us)
{
	struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
	while (nanosleep(&t, &t) == -1 && errno == EINTR)
		;
}

static void report_script_error(const char *text)
{
	call_log->script_errors++;
	snprintf(call_log->script_error, sizeof call_log->script_error, "%s", text);
	fprintf(stderr, "fakenvml: %s: %s\n", script_path, text);
}

// read_file returns the whole file of fd, or NULL.
static char *read_file(int fd, const struct stat *st, size_t *len)
{
	char *text = malloc((size_t)st->st_size + 1);
	*len = 0;
	while (text && *len < (size_t)st->st_size) {
		ssize_t n = read(fd, text + *len, (size_t)st->st_size - *len);
		if (n <= 0)
			break;
		*len += (size_t)n;
	}
	return text;
}

static void script_put(struct script *s)
{
	if (s && --s->refs == 0)
		script_free(s);
}

// keep_counts carries the firings of faults over to the same lines of the next script.
static void keep_counts(struct script *next, const struct script *last)
{
	for (unsigned int i = 0; last && i < next->faults_len; i++)
		for (unsigned int j = 0; j < last->faults_len; j++)
			if (!strcmp(next->faults[i].line, last->faults[j].line))
				next->faults[i].seen = last->faults[j].seen;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

// load reads the script; the lock is held. A script that does not parse is reported and the last one stays.
static bool load(void)
{
	int fd = open(script_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	struct stat st;
	if (fstat(fd, &st) == 0 && !(current && same_file(&st, &current_stat))) {
		size_t len;
		char *text = read_file(fd, &st, &len);
		char error[256] = "cannot be read";
		current_stat = st;
		struct script *next = text ? script_parse(text, len, error, sizeof error) : NULL;
		if (next) {
			call_log->script_loads++;
			keep_counts(next, current);
			script_put(current);
			current = next;
		} else {
			report_script_error(error);
		}
	}
	close(fd);
	return current != NULL;
}

// script_get returns the current script with a reference; it costs a stat where nothing changed.
static struct script *script_get(void)
{
	struct stat st;
	bool known = stat(script_path, &st) == 0;
	pthread_mutex_lock(&lock);
	if (known && !(current && same_file(&st, &current_stat)))
		load();
	struct script *s = current;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&lock);
	return s;
}

static void script_release(struct script *s)
{
	pthread_mutex_lock(&lock);
	script_put(s);
	pthread_mutex_unlock(&lock);
}

// forget_threads forgets the threads of a process that ended inside the library: they are inside no more.
static void forget_threads(struct call_log *l)
{
	int32_t before = l->pid;
	l->pid = getpid();
	if (before && before != getpid() && (kill(before, 0) == 0 || errno != ESRCH))
		return;
	l->inside = l->alone = 0;
	for (int i = 0; i < FN_COUNT; i++)
		l->slots[i].inside = 0;
}

static void init_log(struct call_log *l)
{
	forget_threads(l);
	memcpy(l->magic, "FNVMLOG2", sizeof l->magic);
	l->functions = FN_COUNT;
	l->slot_size = sizeof *l->slots;
	for (int i = 0; i < FN_COUNT; i++)
		snprintf(l->slots[i].name, sizeof l->slots->name, "%s", fake_function_names[i]);
}

// open_log maps the file of FAKE_NVML_CALLS. An earlier file's mapping stays: calls may still count in it.
static void open_log(const char *path)
{
	pthread_mutex_lock(&lock);
	if (path && *path && strcmp(path, log_path) && strlen(path) < sizeof log_path) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		void *at = MAP_FAILED;
		if (fd >= 0 && ftruncate(fd, sizeof(struct call_log)) == 0)
			at = mmap(NULL, sizeof(struct call_log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (fd >= 0)
			close(fd);
		if (at != MAP_FAILED) {
			strcpy(log_path, path);
			init_log(at);
			__atomic_store_n(&call_log, (struct call_log *)at, __ATOMIC_RELEASE);
		} else {
			fprintf(stderr, "fakenvml: %s: %s\n", path, strerror(errno));
		}
	}
	pthread_mutex_unlock(&lock);
}

void record_violation(const char *text)
{
	struct call_log *l = call_log;
	l->violations++;
	snprintf(l->violation, sizeof l->violation, "%s", text);
}

// check_alone records that a thread is in Init or Shutdown while another is inside the library.
static void check_alone(struct call_log *l, const struct call *c)
{
	char text[192];
	const char *name = fake_function_names[c->fn];
	if (c->alone && l->inside + l->alone > 1) {
		const char *other = "another call";
		for (int i = 0; i < FN_COUNT; i++)
			if (l->slots[i].inside > (i == (int)c->fn ? 1u : 0u))
				other = fake_function_names[i];
		snprintf(text, sizeof text, "%s while a thread is inside %s", name, other);
		record_violation(text);
	} else if (!c->alone && l->alone > 0) {
		snprintf(text, sizeof text, "%s while a thread is inside Init or Shutdown", name);
		record_violation(text);
	}
}

// thread_ns is the processor time of this thread, 0 without a call log: nobody reads it then.
static uint64_t thread_ns(const struct call_log *l)
{
	struct timespec t;
	if (l == &own_log || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void count(struct call *c)
{
	struct call_log *l = __atomic_load_n(&call_log, __ATOMIC_ACQUIRE);
	c->log = l;
	c->began = thread_ns(l);
	l->slots[c->fn].calls++;
	l->slots[c->fn].inside++;
	if (c->alone)
		l->alone++;
	else
		l->inside++;
	check_alone(l, c);
}

nvmlReturn_t call_end(struct call *c, nvmlReturn_t ret)
{
	struct call_log *l = c->log;
	if (ret != NVML_SUCCESS)
		l->slots[c->fn].failures++;
	l->slots[c->fn].inside--;
	if (c->alone)
		l->alone--;
	else
		l->inside--;
	if (c->script)
		script_release(c->script);
	c->script = NULL;
	l->slots[c->fn].cpu += thread_ns(l) - c->began;
	return ret;
}

void call_refresh(struct call *c)
{
	struct script *last = c->script;
	c->script = script_get();
	if (last)
		script_release(last);
}

// resolve finds the handle's GPU in the script that the call holds.
static nvmlReturn_t resolve(struct call *c, struct nvmlDevice_st *h)
{
	c->gpu = NULL;
	c->mig = NULL;
	for (unsigned int i = 0; i < c->script->gpus_len; i++) {
		const struct gpu *g = &c->script->gpus[i];
		if (g->handle == h) {
			c->gpu = g;
			return NVML_SUCCESS;
		}
		for (unsigned int j = 0; g->mig_mode[0] && j < g->mig_devices_len; j++) {
			if (g->mig_devices[j].handle == h) {
				c->gpu = g;
				c->mig = &g->mig_devices[j];
				return NVML_SUCCESS;
			}
		}
	}
	// A GPU that left the bus is lost; a MIG device that was destroyed has no valid handle any more.
	return strncmp(h->uuid, "MIG-", 4) ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_INVALID_ARGUMENT;
}

static bool concerns(const struct fault *f, const struct call *c, const struct nvmlDevice_st *h)
{
	return f->matches[c->fn] && (f->any_gpu || (h && (f->handle == h || (c->gpu && f->handle == c->gpu->handle))));
}

// hangs says whether the script that the call holds has a hang for it, whatever its counts.
static bool hangs(const struct call *c, const struct nvmlDevice_st *h)
{
	for (unsigned int i = 0; c->script && i < c->script->faults_len; i++) {
		const struct fault *f = &c->script->faults[i];
		if (f->action == FAULT_HANG && concerns(f, c, h))
			return true;
	}
	return false;
}

// hang blocks until the script has no hang for this call. It holds no lock and no script.
static void hang(struct call *c, struct nvmlDevice_st *h)
{
	while (hangs(c, h)) {
		script_release(c->script);
		c->script = NULL;
		c->gpu = NULL; // it was the old script's
		c->mig = NULL;
		sleep_us(2000);
		c->script = script_get();
		if (h && c->script)
			resolve(c, h);
	}
}

static bool fires(struct fault *f)
{
	uint64_t n = f->seen++;
	return n >= f->skip && (!f->times || n < f->skip + f->times);
}

// apply lets the faults of this call act. only_gpu: those for any GPU have acted already.
static nvmlReturn_t apply(struct call *c, struct nvmlDevice_st *h, bool only_gpu)
{
	struct script *s = c->script;
	for (unsigned int i = 0; i < s->faults_len; i++) {
		struct fault *f = &s->faults[i];
		if (f->action == FAULT_SIZE || (only_gpu && f->any_gpu) || !concerns(f, c, h) || !fires(f))
			continue;
		switch (f->action) {
		case FAULT_ERROR:
			return f->code;
		case FAULT_DELAY:
			sleep_us(f->delay);
			break;
		default:
			hang(c, h);
			// The script may be another now: do not go on in the old one's faults.
			return !h ? NVML_SUCCESS : resolve(c, h);
		}
	}
	return NVML_SUCCESS;
}

bool call_race(struct call *c)
{
	const struct nvmlDevice_st *h = c->mig ? c->mig->handle : c->gpu ? c->gpu->handle : NULL;
	for (unsigned int i = 0; i < c->script->faults_len; i++) {
		struct fault *f = &c->script->faults[i];
		if (f->action == FAULT_SIZE && concerns(f, c, h) && fires(f))
			return true;
	}
	return false;
}

nvmlReturn_t call_target(struct call *c, const struct gpu *g, struct nvmlDevice_st *h)
{
	c->gpu = g;
	nvmlReturn_t ret = apply(c, h, true);
	if (ret != NVML_SUCCESS)
		return ret;
	return c->gpu && c->gpu->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t call_begin(struct call *c, enum fake_function fn, nvmlDevice_t device, enum want want)
{
	*c = (struct call){.fn = fn};
	count(c);
	pthread_mutex_lock(&lock);
	bool ready = references > 0;
	pthread_mutex_unlock(&lock);
	if (!ready) {
		((struct call_log *)c->log)->uninitialized++;
		return NVML_ERROR_UNINITIALIZED;
	}
	if (!(c->script = script_get()))
		return NVML_ERROR_UNKNOWN;
	if (want == WANT_NOTHING)
		return apply(c, NULL, false);
	if (!device_valid(device))
		return NVML_ERROR_INVALID_ARGUMENT;
	nvmlReturn_t ret = resolve(c, device.handle);
	if (ret == NVML_SUCCESS)
		ret = apply(c, device.handle, false);
	if (ret == NVML_SUCCESS && c->gpu->lost)
		ret = NVML_ERROR_GPU_IS_LOST;
	if (ret == NVML_SUCCESS && want == WANT_GPU && c->mig)
		ret = NVML_ERROR_NOT_SUPPORTED;
	return ret;
}

nvmlReturn_t fake_stub(enum fake_function fn, nvmlDevice_t device)
{
	struct call c;
	nvmlReturn_t ret = call_begin(&c, fn, device, device.handle ? WANT_DEVICE : WANT_NOTHING);
	return call_end(&c, ret == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : ret);
}

// open_script takes the path from the environment and reads it, unless a client of the process has done so.
static nvmlReturn_t open_script(void)
{
	const char *path = getenv("FAKE_NVML_STATE");
	pthread_mutex_lock(&lock);
	if (references == 0 && path && strlen(path) < sizeof script_path && strcmp(path, script_path)) {
		strcpy(script_path, path);
		script_put(current);
		current = NULL;
		memset(&current_stat, 0, sizeof current_stat);
	}
	uint64_t errors = call_log->script_errors;
	bool ok = load();
	bool broken = call_log->script_errors > errors;
	pthread_mutex_unlock(&lock);
	// No script, no driver: what the real library answers where the kernel module is missing.
	return ok ? NVML_SUCCESS : broken ? NVML_ERROR_UNKNOWN : NVML_ERROR_DRIVER_NOT_LOADED;
}

static void enumerate(const struct script *s)
{
	enumerated_len = 0;
	for (unsigned int i = 0; i < s->gpus_len; i++)
		if (!(s->gpus[i].lost && s->gpus[i].hidden))
			enumerated[enumerated_len++] = s->gpus[i].handle;
}

nvmlReturn_t fake_init(enum fake_function fn)
{
	struct call c = {.fn = fn, .alone = true};
	open_log(getenv("FAKE_NVML_CALLS"));
	count(&c);
	nvmlReturn_t ret = open_script();
	if (ret == NVML_SUCCESS) {
		c.script = script_get();
		ret = apply(&c, NULL, false);
	}
	if (ret == NVML_SUCCESS && c.script) {
		pthread_mutex_lock(&lock);
		if (references++ == 0)
			enumerate(c.script);
		((struct call_log *)c.log)->references = references;
		pthread_mutex_unlock(&lock);
	}
	return call_end(&c, ret);
}

nvmlReturn_t fake_shutdown(void)
{
	struct call c = {.fn = FN_nvmlShutdown, .alone = true};
	count(&c);
	pthread_mutex_lock(&lock);
	bool ready = references > 0;
	pthread_mutex_unlock(&lock);
	if (!ready)
		return call_end(&c, NVML_ERROR_UNINITIALIZED);
	c.script = script_get();
	nvmlReturn_t ret = apply(&c, NULL, false);
	if (ret == NVML_SUCCESS) {
		pthread_mutex_lock(&lock);
		references--;
		((struct call_log *)c.log)->references = references;
		pthread_mutex_unlock(&lock);
	}
	return call_end(&c, ret);
}

unsigned int device_count(const struct call *c)
{
	if (c->script->enumerate_at_init)
		return enumerated_len;
	unsigned int n = 0;
	for (unsigned int i = 0; i < c->script->gpus_len; i++)
		n += !(c->script->gpus[i].lost && c->script->gpus[i].hidden);
	return n;
}

const struct gpu *device_at(const struct call *c, unsigned int index, struct nvmlDevice_st **h)
{
	const struct script *s = c->script;
	for (unsigned int i = 0, n = 0; i < s->gpus_len; i++) {
		const struct gpu *g = &s->gpus[i];
		bool counted = s->enumerate_at_init ? index < enumerated_len && enumerated[index] == g->handle
						    : !(g->lost && g->hidden) && n++ == index;
		if (counted) {
			*h = g->handle;
			return g;
		}
	}
	*h = s->enumerate_at_init && index < enumerated_len ? enumerated[index] : NULL;
	return NULL;
}

nvmlReturn_t copy_string(char *out, unsigned int len, const char *in)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(in) + 1 > len)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, in);
	return NVML_SUCCESS;
}

__attribute__((constructor)) static void set_up(void)
{
	init_log(&own_log);
}
