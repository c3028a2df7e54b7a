// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// The shared parts of a fake libnvidia-ml.so.1 that answers out of a script file.
//
// A script is parsed once per change into an immutable `struct script`. Each call holds a reference to the one that was
// current when it began, so that no lock is held while a call works, waits or hangs.

#ifndef FAKENVML_FAKE_H
#define FAKENVML_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "nvml.h"

#include "functions.h" // generated: enum FN_…, FN_COUNT, fake_function_names[]

#define MAX_GPUS 16
#define MAX_LINKS 18
#define MAX_FANS 8
#define NO_INSTANCE 0xFFFFFFFFu
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFull

// A value that may move with time: base + rate × t, t in seconds since the script's epoch.
struct ramp {
	uint64_t base;
	double rate;
};

enum process_list { LIST_COMPUTE, LIST_GRAPHICS, LIST_MPS, LIST_COUNT };

struct process {
	uint32_t pid;
	uint32_t gi, ci;
	struct ramp memory; // bytes; base NOT_AVAILABLE: not known
	bool repeated; // an earlier entry of this pid was summed already
};

struct sample {
	uint32_t pid;
	uint32_t sm, memory, encoder, decoder, jpeg, ofa;
};

struct event {
	uint64_t seq, type, data;
};

struct field {
	uint32_t id, scope;
	nvmlValueType_t type;
	double real;
	struct ramp value;
};

struct retired_page {
	uint32_t cause;
	uint64_t address;
};

struct link {
	bool present;
	uint32_t active;
	uint64_t errors[NVML_NVLINK_ERROR_COUNT];
};

struct profile {
	uint32_t profile, slices;
	uint64_t memory_mb;
	const char *name;
};

struct memory {
	uint64_t total, reserved; // bytes
	struct ramp used;         // bytes, reserved excluded
	bool add_processes;       // the processes' memory comes on top of `used`
};

struct gpu_instance {
	uint32_t id, profile;
	struct memory memory;
};

struct limit {
	const char *folder; // of the control group
	uint64_t hard; // bytes
};

struct mig_device {
	uint32_t index, gi, id, slices, multiprocessors;
	const char *uuid;
	struct nvmlDevice_st *handle;
};

#define LIST(type, name) type *name; unsigned int name##_len, name##_cap

struct gpu {
	struct nvmlDevice_st *handle;
	uint32_t number; // place in the script
	const char *name, *uuid, *serial, *vbios, *bus_id;
	uint32_t minor, architecture;
	uint32_t domain, bus, device;
	uint32_t lost, hidden;
	struct memory memory;
	uint64_t bar1_total;
	struct ramp bar1_used;
	uint32_t utilization[2]; // SM, memory controller: %
	uint32_t encoder, decoder, jpeg, ofa;
	int32_t temperature, margin;
	uint32_t has_margin;
	uint32_t thresholds[NVML_TEMPERATURE_THRESHOLD_COUNT];
	bool has_threshold[NVML_TEMPERATURE_THRESHOLD_COUNT];
	uint32_t fans[MAX_FANS], fans_len;
	struct ramp power, energy; // mW, mJ
	uint32_t power_limit, power_default, power_enforced, power_range[2];
	uint32_t pstate, clocks[NVML_CLOCK_COUNT], max_clocks[NVML_CLOCK_COUNT];
	uint64_t reasons, supported_reasons;
	uint32_t ecc_mode[2];
	uint64_t ecc[NVML_MEMORY_ERROR_TYPE_COUNT][NVML_ECC_COUNTER_TYPE_COUNT][NVML_MEMORY_LOCATION_COUNT];
	bool has_ecc[NVML_MEMORY_ERROR_TYPE_COUNT][NVML_ECC_COUNTER_TYPE_COUNT][NVML_MEMORY_LOCATION_COUNT];
	uint32_t remapped[4]; // corrected, uncorrected, pending, failed
	uint32_t retired_pending, recovery_action;
	uint32_t pcie_generation[2], pcie_width[2], pcie_replays;
	struct link links[MAX_LINKS];
	uint32_t addressing_mode; // 2: ATS
	uint32_t mig_mode[2], mig_max;
	struct process *processes[LIST_COUNT];
	unsigned int list_len[LIST_COUNT], list_cap[LIST_COUNT];
	LIST(struct sample, samples);
	LIST(struct event, events);
	LIST(struct field, fields);
	LIST(struct retired_page, pages);
	LIST(struct profile, profiles);
	LIST(struct gpu_instance, instances);
	LIST(struct mig_device, mig_devices);
	LIST(struct limit, limits);
};

enum fault_action { FAULT_ERROR, FAULT_HANG, FAULT_SIZE, FAULT_DELAY };

struct fault {
	const char *line;       // the whole line: its identity across re-reads, so that the count of firings goes on
	bool matches[FN_COUNT]; // the calls that it hits
	bool any_gpu;
	struct nvmlDevice_st *handle; // the GPU or MIG device that it hits; NULL: none
	enum fault_action action;
	nvmlReturn_t code;
	uint64_t delay;    // µs
	uint64_t skip;     // matching calls that pass first
	uint64_t times;    // matching calls that are hit then; 0: all
	_Atomic uint64_t seen;
};

struct script {
	int refs;
	char *text; // all strings point in here
	const char *driver;
	int cuda;
	double epoch; // Unix s
	bool enumerate_at_init;
	struct gpu gpus[MAX_GPUS];
	unsigned int gpus_len;
	struct fault *faults;
	unsigned int faults_len, faults_cap;
	uint64_t max_seq; // highest event number
};

// script.c
struct script *script_parse(char *text, size_t len, char *error, size_t error_len); // takes text; NULL: error says why
void script_free(struct script *s);
double script_elapsed(const struct script *s); // seconds since the epoch
uint64_t script_now(void);                     // µs of Unix time
uint64_t ramp_at(const struct script *s, const struct ramp *r);
uint64_t memory_used(const struct script *s, const struct gpu *g, const struct memory *m, uint32_t gi);

// runtime.c
struct nvmlDevice_st {
	char uuid[96]; // a handle is a UUID: it survives re-reads and stays with its GPU when others go
};

struct nvmlDevice_st *device_handle(const char *uuid);

struct call {
	enum fake_function fn;
	bool alone; // Init or Shutdown
	struct script *script;
	const struct gpu *gpu;
	const struct mig_device *mig; // the handle was a MIG device's, gpu is its parent
	void *log;
	uint64_t began; // of the thread's processor time, ns
};

enum want {
	WANT_NOTHING, // no handle
	WANT_GPU,     // a GPU; NOT_SUPPORTED on a MIG device
	WANT_DEVICE,  // a GPU or a MIG device
};

extern const nvmlDevice_t no_device;

// Each exported function is call_begin, work if that succeeded, call_end. call_begin counts, re-reads the script where it
// changed, finds the device and applies the faults; what it returns other than SUCCESS is the answer.
nvmlReturn_t call_begin(struct call *c, enum fake_function fn, nvmlDevice_t device, enum want want);
nvmlReturn_t call_end(struct call *c, nvmlReturn_t ret);
// call_target applies the faults of a GPU that a call without handle turned out to be about.
nvmlReturn_t call_target(struct call *c, const struct gpu *g, struct nvmlDevice_st *h);
// call_race says whether the list grew between count and fill (action `size`).
bool call_race(struct call *c);
void call_refresh(struct call *c);
nvmlReturn_t fake_stub(enum fake_function fn, nvmlDevice_t device);
nvmlReturn_t fake_init(enum fake_function fn);
nvmlReturn_t fake_shutdown(void);
void record_violation(const char *text);
void sleep_us(uint64_t us);

// The GPUs in the driver's order: live, or as they were at Init where the script says so.
unsigned int device_count(const struct call *c);
const struct gpu *device_at(const struct call *c, unsigned int index, struct nvmlDevice_st **h);

nvmlReturn_t copy_string(char *out, unsigned int len, const char *in);

// BEGIN opens a call about `device`, with g the GPU (a MIG device's parent).
#define BEGIN(name, dev, want)                                                                                         \
	struct call c;                                                                                                 \
	nvmlReturn_t ret = call_begin(&c, FN_##name, dev, want);                                                       \
	if (ret != NVML_SUCCESS)                                                                                       \
		return call_end(&c, ret);                                                                              \
	const struct gpu *g = c.gpu;                                                                                   \
	(void)g
#define END(r) return call_end(&c, (r))
// NEED answers code unless cond holds.
#define NEED(cond, code)                                                                                               \
	do {                                                                                                           \
		if (!(cond))                                                                                           \
			return call_end(&c, NVML_ERROR_##code);                                                        \
	} while (0)
#define NEED_VERSION(got, data, ver) NEED((got) == NVML_STRUCT_VERSION(data, ver), ARGUMENT_VERSION_MISMATCH)

// A getter of one number.
#define GETTER(name, type, expr)                                                                                       \
	nvmlReturn_t name(nvmlDevice_t device, type *out)                                                              \
	{                                                                                                              \
		BEGIN(name, device, WANT_GPU);                                                                         \
		NEED(out, INVALID_ARGUMENT);                                                                           \
		*out = (expr);                                                                                         \
		END(NVML_SUCCESS);                                                                                     \
	}
// A getter of one number that a GPU in MIG mode does not have.
#define GETTER_NO_MIG(name, type, expr)                                                                                \
	nvmlReturn_t name(nvmlDevice_t device, type *out)                                                              \
	{                                                                                                              \
		BEGIN(name, device, WANT_GPU);                                                                         \
		NEED(out, INVALID_ARGUMENT);                                                                           \
		NEED(!g->mig_mode[0], NOT_SUPPORTED);                                                                  \
		*out = (expr);                                                                                         \
		END(NVML_SUCCESS);                                                                                     \
	}
#define GETTER_STRING(name, want, expr)                                                                                \
	nvmlReturn_t name(nvmlDevice_t device, char *out, unsigned int len)                                            \
	{                                                                                                              \
		BEGIN(name, device, want);                                                                             \
		END(copy_string(out, len, (expr)));                                                                    \
	}

#endif
