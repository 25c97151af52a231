"""Training that feels int8: the encoder computes with the rounded numbers that the runtime will use (needs torch).

Weights are rounded row by row and activations token by token, as CTranslate2 does; gradients pass as if nothing were
rounded, and go to the exact weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from orienteer.models.model_folder import levels

_ACTIVATION_LEVELS = 127


@contextmanager
def rounded(encoder: nn.Module) -> Iterator[None]:
    """Within it, an encoder computes as in int8; after it, its weights are what they were."""
    maps = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
    matrices = {n: p for n, p in encoder.named_parameters() if p.ndim == 2 and "position_embeddings" not in n}
    exact = {name: matrix.detach().clone() for name, matrix in matrices.items()}
    hooks = [module.register_forward_pre_hook(_rounded_input) for module in maps]
    with torch.no_grad():
        for name, matrix in matrices.items():
            matrix.copy_(_to_levels(matrix, levels(name)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for name, matrix in matrices.items():
                matrix.copy_(exact[name])


def _rounded_input(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
    (states,) = inputs
    return (states + (_to_levels(states.detach(), _ACTIVATION_LEVELS) - states.detach()),)


def _to_levels(values: Tensor, top: int) -> Tensor:
    """Each row (last dimension) as whole multiples of its largest value / top."""
    scale = top / values.abs().amax(-1, keepdim=True).clamp_min(1e-12)
    return (values * scale).round_().div_(scale)
