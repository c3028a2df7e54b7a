# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""Fragmentation: of each segment a small part stays in use, and nothing else fits into the rest."""

import program

p = program.Program("PyTorch's segments are in use in small part only", leaks=False)
torch = p.torch()
kept = []


def grow(n):
    # PyTorch gives the memory of one stream to no other. It has 32 streams, and begins again then.
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.ones(n // 4, device="cuda")
        kept.append(torch.ones(2 * program.MIB // 4, device="cuda"))


p.run(program.trainer(torch), grow)
