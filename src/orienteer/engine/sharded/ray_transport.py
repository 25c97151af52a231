"""Shards as actors of a Ray cluster, for an index larger than one machine's memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orienteer.engine.sharded.shard import Shard
from orienteer.engine.sharded.shard_transport import ShardLostError
from orienteer.errors import OrienteerError

RETRIES = 3  # of one call, each on a restarted actor where the last one died
RESTART_TIMEOUT = 300.0  # seconds for the cluster to notice a lost node and restart its shards on another


class RayTransport:
    """One actor per shard. `ray` is the module, connected to its cluster.

    Shards are spread over the nodes. An actor that dies with its node starts again on another, which has to see the
    shard's folder by the same path. `options` go to the actors, one mapping a shard: `{"resources": {"shard-3": 1}}`
    keeps a shard where its disk is.
    """

    shares_memory = False

    def __init__(self, paths: Sequence[Path | str], ray: Any, options: Sequence[Mapping[str, Any]] | None = None):
        self._ray, self._paths = ray, [str(path) for path in paths]
        self._totals: tuple[Any, ...] | None = None
        # A shard claims no processor: where nodes have gone, the last one must still take all shards.
        claims = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(**claims, max_restarts=-1, max_task_retries=RETRIES)(_ShardActor)
        options = options or [{}] * len(paths)
        self._actors = [actor.options(**each).remote(path) for path, each in zip(self._paths, options, strict=True)]

    def __len__(self) -> int:
        return len(self._actors)

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if method == "set_totals":
            self._totals = arguments[0]
        # The same argument for every shard travels once to each node.
        stored = {id(each): self._ray.put(each) for each in {id(each): each for each in arguments}.values()}
        references = [stored[id(each)] for each in arguments]
        calls = [
            actor.call.remote(method, reference, self._totals)
            for actor, reference in zip(self._actors, references, strict=True)
        ]
        answers = [self._result(at, call, method, references[at]) for at, call in enumerate(calls)]
        for answer in answers:
            if isinstance(answer, OrienteerError):
                raise answer
        return answers

    def _result(self, at: int, call: Any, method: str, arguments: Any) -> Any:
        """The call's result; retried while the actor is unavailable but not known to be dead: shards only read."""
        errors, deadline = self._ray.exceptions, time.monotonic() + RESTART_TIMEOUT
        while True:
            try:
                return self._ray.get(call)
            except errors.RayActorError as error:
                if not isinstance(error, errors.ActorUnavailableError) or time.monotonic() > deadline:
                    raise ShardLostError(
                        f"the actor of the shard {self._paths[at]} died and could not be started again "
                        f"({type(error).__name__}); see that some node of the cluster can read that folder and has "
                        "the memory for it"
                    ) from None
            time.sleep(1.0)
            call = self._actors[at].call.remote(method, arguments, self._totals)

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)


class _ShardActor:
    """A shard that sets the totals again after a restart."""

    def __init__(self, path: str):
        self._path = path
        self._shard: Shard | None = None
        self._has_totals = False

    def call(self, method: str, arguments: tuple[Any, ...], totals: tuple[Any, ...] | None) -> Any:
        try:
            self._shard = self._shard or Shard(self._path)
            if totals is not None and not self._has_totals:
                self._shard.set_totals(*totals)
                self._has_totals = True
            return None if method == "set_totals" else getattr(self._shard, method)(*arguments)
        except OrienteerError as error:
            return error
