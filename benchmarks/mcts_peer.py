"""mctx on the sizes of `mcts.py`: 100 simulations, 100 actions, a layer-normalised LSTM of 512 (needs mctx).

Started by `mcts.py` in a Python that has mctx; prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import mctx

UNITS, EMBED, HEAD, ACTIONS, BINS, SIMULATIONS = 512, 64, 32, 100, 31, 100


def weights() -> dict[str, Any]:
    shapes = {
        "actions": (ACTIONS, EMBED), "input": (EMBED, 4 * UNITS), "state": (UNITS, 4 * UNITS),
        "policy1": (2 * UNITS, HEAD), "policy2": (HEAD, ACTIONS), "value1": (2 * UNITS, HEAD), "value2": (HEAD, BINS),
        "reward1": (UNITS, HEAD), "reward2": (HEAD, BINS),
    }  # fmt: skip
    keys = jax.random.split(jax.random.PRNGKey(0), len(shapes))
    return {
        name: jax.random.normal(key, shape) * shape[0] ** -0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }  # fmt: skip


def norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def judged(w: dict[str, Any], state: Any) -> tuple[Any, Any]:
    support = jnp.linspace(-0.5, 1.0, BINS)
    logits = norm(jax.nn.relu(state @ w["policy1"])) @ w["policy2"]
    value = (jax.nn.softmax(norm(jax.nn.relu(state @ w["value1"])) @ w["value2"]) * support).sum(-1)
    return logits, value


def networks(w: dict[str, Any], key: Any, action: Any, state: Any) -> tuple[Any, Any]:
    before, cell = state[:, :UNITS], state[:, UNITS:]
    gates = norm(w["actions"][action] @ w["input"]) + norm(before @ w["state"])
    i, f, c, o = jnp.split(gates, 4, -1)
    cell = norm(jax.nn.sigmoid(f + 1) * cell + jax.nn.sigmoid(i) * jnp.tanh(c))
    hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
    after = jnp.concatenate([hidden, cell], -1)
    support = jnp.linspace(-0.5, 1.0, BINS)
    reward = (jax.nn.softmax(norm(jax.nn.relu(hidden @ w["reward1"])) @ w["reward2"]) * support).sum(-1)
    logits, value = judged(w, after)
    out = mctx.RecurrentFnOutput(reward=reward, discount=jnp.full_like(reward, 0.9), prior_logits=logits, value=value)
    return out, after


def given(pool: dict[str, Any], key: Any, action: Any, state: Any) -> tuple[Any, Any]:
    """No network: what a node is comes from a table, as in `mcts.py`."""
    row = (state[:, 0] * 7919 + action * 31 + 1) % pool["value"].shape[0]
    out = mctx.RecurrentFnOutput(
        reward=pool["reward"][row], discount=jnp.full(row.shape, 0.9), prior_logits=pool["logits"][row],
        value=pool["value"][row],
    )  # fmt: skip
    return out, row[:, None]


def timed(search: Any, seconds: float) -> float:
    """Processor seconds of one search."""
    jax.block_until_ready(search())
    best, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < seconds:
        started = time.process_time()
        jax.block_until_ready(search())
        best = min(best, time.process_time() - started)
    return best


def main(seconds: float) -> None:
    w = weights()
    found: dict[str, Any] = {"mctx": mctx.__version__, "jax": jax.__version__}
    for batch in (1, 64):
        state = jnp.tanh(jax.random.normal(jax.random.PRNGKey(1), (batch, 2 * UNITS)))
        logits, value = judged(w, state)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        plan = jax.jit(lambda p, r: mctx.muzero_policy(p, jax.random.PRNGKey(2), r, networks, SIMULATIONS).action)
        spent = timed(lambda plan=plan, root=root: plan(w, root), seconds)
        rate = batch * SIMULATIONS / spent
        found[f"networks_{batch}"] = {"milliseconds": 1000 * spent, "simulations_per_second": rate}
    size = 4096
    keys = jax.random.split(jax.random.PRNGKey(3), 3)
    pool = {
        "logits": 5.0 * jax.random.normal(keys[0], (size, ACTIONS)),
        "reward": 0.1 * jax.random.normal(keys[1], (size,)),
        "value": 0.3 * jax.random.normal(keys[2], (size,)),
    }  # fmt: skip
    rows = jnp.arange(64)
    root = mctx.RootFnOutput(prior_logits=pool["logits"][rows], value=pool["value"][rows], embedding=rows[:, None])
    alone = jax.jit(lambda p, r: mctx.muzero_policy(p, jax.random.PRNGKey(2), r, given, SIMULATIONS).action)
    spent = timed(lambda: alone(pool, root), seconds)
    found["tree_alone_64"] = {"simulations_per_second": 64 * SIMULATIONS / spent}
    print(json.dumps(found))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
