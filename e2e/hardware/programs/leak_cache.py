# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""A cache without eviction: a dictionary by request."""

import program

p = program.Program("a cache has no eviction", leaks=True)
torch = p.torch()
cache = {}


def leak(n):
    cache["request %d" % len(cache)] = torch.ones(n // 4, device="cuda")


p.run(program.trainer(torch), leak)
