"""What training lowers: cross-entropy with soft targets over all legal actions, and the error of the gain (torch)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from orienteer.agents.action_space import grammar_bits, grammar_slots
from orienteer.agents.pointer.examples import Example, Target
from orienteer.agents.pointer.model import PointerModel, batch_of


def soft_target(target: Target, temperature: float) -> Tensor:
    """softmax(gain / temperature) over the improving refinements: the better one is taken oftener, not always."""
    return torch.softmax(torch.from_numpy(target.gains) / temperature, 0)


def losses(model: PointerModel, part: Sequence[Example], temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over the examples of policy loss and gain loss, and how much gain the likeliest refinements bring.

    An example with labels of several grammars counts once: their mean. The third is a share: the gain of the
    refinement that the model would take, 0 where Rocchio did not record it as improving, of the best gain there is.
    """
    slots, hidden, around = model(batch_of(part))
    policy, value, share = slots.sum() * 0.0, slots.sum() * 0.0, 0.0
    first = 0
    for row, example in enumerate(part):
        last = first + len(example.of_terms)
        own, own_hidden = slots[first:last].reshape(-1), hidden[first:last]
        open = torch.from_numpy(example.open)
        refining = max(1, sum(len(target.places) > 0 for target in example.targets))
        for target in example.targets:
            stop, gain = model.outcomes(around[row], torch.from_numpy(grammar_bits(target.grammar)), own_hidden)
            legal = (open & torch.from_numpy(grammar_slots(target.grammar))).reshape(-1)
            logs = torch.log_softmax(torch.cat([own.masked_fill(~legal, -torch.inf), stop[None]]), 0)
            if len(target.places):
                places = torch.from_numpy(target.places).long()
                loss = -(soft_target(target, temperature) * logs[places]).sum()
                chosen = int(logs[:-1].argmax())
                reached = target.gains[target.places == chosen]
                best = float(target.gains.max())
                share += float(reached[0]) / best / refining if len(reached) else 0.0
            else:
                loss, best = -logs[-1], 0.0
            policy = policy + loss / len(example.targets)
            value = value + smooth_l1_loss(gain, gain.new_tensor(best), beta=0.1) / len(example.targets)
        first = last
    return policy, value, torch.tensor(share)
