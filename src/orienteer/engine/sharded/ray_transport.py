"""Shards as actors of a Ray cluster: an index larger than one machine's memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orienteer.engine.sharded.shard import Shard
from orienteer.engine.sharded.shard_transport import ShardLostError
from orienteer.errors import OrienteerError

RETRIES = 3  # of one call, each on an actor started anew where the last has died
PATIENCE = 300.0  # seconds until a cluster has noticed that a node is gone and started its shards on another


class RayFleet:
    """One actor a shard. `ray` is the module, connected to its cluster.

    Shards are spread over the nodes. An actor that dies with its node starts again on another, which has to see the
    shard's folder by the same path. `options` go to the actors, one mapping a shard: `{"resources": {"shard-3": 1}}`
    keeps a shard where its disk is.
    """

    def __init__(self, paths: Sequence[Path | str], ray: Any, options: Sequence[Mapping[str, Any]] | None = None):
        self._ray, self._paths = ray, [str(path) for path in paths]
        self._joined: tuple[Any, ...] | None = None
        # A shard claims no processor: where nodes have gone, the last one must still take all shards.
        claims = {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(**claims, max_restarts=-1, max_task_retries=RETRIES)(_ShardActor)
        own = options or [{}] * len(paths)
        self._actors = [actor.options(**each).remote(path) for path, each in zip(self._paths, own, strict=True)]

    def __len__(self) -> int:
        return len(self._actors)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if method == "join":
            self._joined = arguments[0]
        # The same argument for every shard travels once to each node.
        known = {id(each): self._ray.put(each) for each in {id(own): own for own in arguments}.values()}
        own = [known[id(each)] for each in arguments]
        calls = [actor.ask.remote(method, each, self._joined) for actor, each in zip(self._actors, own, strict=True)]
        answers = [self._answer(at, call, method, own[at]) for at, call in enumerate(calls)]
        for answer in answers:
            if isinstance(answer, OrienteerError):
                raise answer
        return answers

    def _answer(self, at: int, call: Any, method: str, arguments: Any) -> Any:
        """What the shard says; asked again while its actor is neither there nor known to be gone: shards only read."""
        errors, deadline = self._ray.exceptions, time.monotonic() + PATIENCE
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
            call = self._actors[at].ask.remote(method, arguments, self._joined)

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)


class _ShardActor:
    """A shard that may find itself started anew, and then joins the whole again."""

    def __init__(self, path: str):
        self._path = path
        self._shard: Shard | None = None
        self._joined = False

    def ask(self, method: str, arguments: tuple[Any, ...], totals: tuple[Any, ...] | None) -> Any:
        try:
            self._shard = self._shard or Shard(self._path)
            if totals is not None and not self._joined:
                self._shard.join(*totals)
                self._joined = True
            return None if method == "join" else getattr(self._shard, method)(*arguments)
        except OrienteerError as error:
            return error
