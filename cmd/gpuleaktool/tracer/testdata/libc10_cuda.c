/* Copyright 2026 The gpu_leak_exporter Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * An allocator with PyTorch's marks, which count in semaphores who listens. */
#include <stddef.h>
#include <stdint.h>

#define SEMAPHORE(name) __attribute__((section(".probes"), visibility("hidden"))) volatile unsigned short pytorch_##name##_semaphore
#define MARK(name, arguments)                                            \
	"990: nop\n"                                                     \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                     \
	".balign 4\n"                                                    \
	".4byte 992f-991f, 994f-993f, 3\n"                               \
	"991: .asciz \"stapsdt\"\n"                                      \
	"992: .balign 4\n"                                               \
	"993: .8byte 990b, _.stapsdt.base, pytorch_" #name "_semaphore\n" \
	".asciz \"pytorch\"\n"                                           \
	".asciz \"" #name "\"\n"                                         \
	".asciz \"" arguments "\"\n"                                     \
	"994: .balign 4\n"                                               \
	".popsection\n"                                                  \
	".ifndef _.stapsdt.base\n"                                       \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
	".weak _.stapsdt.base\n"                                         \
	".hidden _.stapsdt.base\n"                                       \
	"_.stapsdt.base: .space 1\n"                                     \
	".size _.stapsdt.base, 1\n"                                      \
	".popsection\n"                                                  \
	".endif\n"

SEMAPHORE(malloc);
SEMAPHORE(free);

int cudaMalloc(void **out, size_t size);

struct device {
	int8_t type, index;
};

static char *segment;
static size_t left;

__attribute__((noinline)) void *c10_allocate(size_t size) {
	struct device device = {1, 0};
	int16_t which;
	__builtin_memcpy(&which, &device, sizeof which);
	if (left < size) {
		if (cudaMalloc((void **)&segment, 1 << 30) != 0)
			return NULL;
		left = 1 << 30;
	}
	void *block = segment;
	segment += size;
	left -= size;
	if (size && pytorch_malloc_semaphore)
		__asm__ volatile(MARK(malloc, "8@%0 -2@%1 8@%2 8@%3") : : "nor"(block), "nor"(which), "nor"(size), "nor"((int64_t)0));
	return block;
}

__attribute__((noinline)) void c10_free(void *block) {
	if (pytorch_free_semaphore)
		__asm__ volatile(MARK(free, "8@%0") : : "nor"(block));
}
