"""Shards as actors of a Ray cluster: an index larger than one machine's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orienteer.engine.fleet import ShardLostError
from orienteer.engine.shard import Shard
from orienteer.errors import OrienteerError

RETRIES = 3  # of one call, each on an actor started anew where the last has died


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
        calls = [
            actor.ask.remote(method, known[id(own)], self._joined)
            for actor, own in zip(self._actors, arguments, strict=True)
        ]
        answers = []
        for path, call in zip(self._paths, calls, strict=True):
            try:
                answer = self._ray.get(call)
            except self._ray.exceptions.RayActorError as error:
                raise ShardLostError(
                    f"the actor of the shard {path} died and could not be started again ({type(error).__name__}); "
                    "see that some node of the cluster can read that folder and has the memory for it"
                ) from None
            if isinstance(answer, OrienteerError):
                raise answer
            answers.append(answer)
        return answers

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
