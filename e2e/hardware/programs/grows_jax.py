# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""JAX arrays that are kept, in JAX's own pool."""

import os

import program

p = program.Program("JAX arrays are kept in its pool", leaks=True)
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
p.need("jax")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

if jax.default_backend() == "cpu":
    p.skip("JAX sees no GPU")
p.allocator = lambda: of_jax(jax.devices()[0].memory_stats() or {})
kept = []


def of_jax(stats):
    return {name: stats[key] for name, key in (("allocated", "bytes_in_use"), ("reserved", "pool_bytes")) if key in stats}


p.run(lambda: jnp.ones((1024, 1024)).block_until_ready(), lambda n: kept.append(jnp.ones((n // 4,), dtype="float32").block_until_ready()))
