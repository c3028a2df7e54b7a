# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""JAX arrays that are kept. JAX's own pool hides this from the driver: it takes three
quarters of the memory at once, or doubles with each segment. So it is left out here."""

import os

import program

p = program.Program("JAX arrays are kept in a list", leaks=True)
os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"  # each array is one allocation of the driver
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
p.need("jax")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

if jax.default_backend() == "cpu":
    p.skip("JAX sees no GPU")
kept = []


def work():
    jnp.ones((1024, 1024)).block_until_ready()


def leak(n):
    kept.append(jnp.ones((n // 4,), dtype="float32").block_until_ready())


p.run(work, leak)
