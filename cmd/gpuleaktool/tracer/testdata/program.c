/* Copyright 2026 The gpu_leak_exporter Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Leaks 64 KiB a millisecond beside work that frees what it takes. It prints a line once it is at it, and
 * ends when its input does. */
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int cuMemAlloc_v2(uint64_t *out, size_t size);
int cuMemFree_v2(uint64_t block);
int cudaMalloc(void **out, size_t size);
int cudaFree(void *block);
#ifdef MARKS
void *c10_allocate(size_t size);
void c10_free(void *block);
#endif

static const char *by;

static inline __attribute__((always_inline)) void *take(size_t size) {
	void *block = NULL;
	uint64_t address = 0;
#ifdef MARKS
	return c10_allocate(size);
#endif
	if (strcmp(by, "driver") == 0)
		return cuMemAlloc_v2(&address, size) == 0 ? (void *)address : NULL;
	return cudaMalloc(&block, size) == 0 ? block : NULL;
}

static void give(void *block) {
#ifdef MARKS
	c10_free(block);
	return;
#endif
	if (strcmp(by, "driver") == 0)
		cuMemFree_v2((uint64_t)block);
	else
		cudaFree(block);
}

__attribute__((noinline)) void *leak_here(void) {
	void *block = take(65536);
	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}

__attribute__((noinline)) void work(int step) {
	void *blocks[4];
	for (int i = 0; i < 4; i++)
		blocks[i] = take((1 + (step + i) % 5) << 20);
	usleep(500);
	for (int i = 0; i < 4; i++)
		give(blocks[i]);
	take(0); /* fails */
}

int main(int argc, char **argv) {
	struct pollfd input = {.fd = 0, .events = POLLIN};
	by = argc > 1 ? argv[1] : "";
	if (strcmp(by, "time") == 0) { /* nanoseconds that a call takes */
		struct timespec began, ended;
		puts("ready");
		fflush(stdout);
		while (poll(&input, 1, 0) == 0) {
			clock_gettime(CLOCK_MONOTONIC, &began);
			for (int i = 0; i < 1000; i++)
				give(take(4096));
			clock_gettime(CLOCK_MONOTONIC, &ended);
			fprintf(stderr, "%ld\n", ((ended.tv_sec - began.tv_sec) * 1000000000L + ended.tv_nsec - began.tv_nsec) / 2000);
		}
		return 0;
	}
	puts("ready");
	fflush(stdout);
	for (int step = 0; poll(&input, 1, 1) == 0; step++) {
		if (strcmp(by, "idle") == 0)
			continue;
		work(step);
		leak_here();
	}
	return 0;
}
