/* Copyright 2026 The gpu_leak_exporter Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Leaks 64 KiB a millisecond beside work whose memory another thread frees. With "replace" it also has a new
 * block in place of an old one each time. It prints a line once it is at it, and ends when its input does. */
#include <poll.h>
#include <pthread.h>
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
static int done[2];

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
	if (write(done[1], blocks, sizeof blocks) != sizeof blocks)
		_exit(1);
	take(0); /* fails */
}

static void *finish(void *unused) {
	void *block;
	while (read(done[0], &block, sizeof block) == sizeof block)
		give(block);
	return unused;
}

__attribute__((noinline)) void *replace_here(void) {
	void *block = take(4096);
	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}

int main(int argc, char **argv) {
	struct pollfd input = {.fd = 0, .events = POLLIN};
	static void *old[16384];
	int count = argc > 2 && strcmp(argv[2], "replace") == 0 ? 16384 : 0;
	pthread_t thread;
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
	if (pipe(done) != 0 || pthread_create(&thread, NULL, finish, NULL) != 0)
		return 1;
	for (int i = 0; i < count; i++)
		old[i] = replace_here();
	puts("ready");
	fflush(stdout);
	for (int step = 0; poll(&input, 1, 1) == 0; step++) {
		if (strcmp(by, "idle") == 0)
			continue;
		work(step);
		leak_here();
		if (count > 0) {
			give(old[step % count]);
			old[step % count] = replace_here();
		}
	}
	return 0;
}
