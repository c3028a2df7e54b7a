# Copyright 2026 The gpu_leak_exporter Authors
# SPDX-License-Identifier: Apache-2.0

"""JAX arrays that are kept."""

import os

import program

p = program.Program("JAX arrays are kept in a list", leaks=True)
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # or it takes three quarters of the memory at once
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
