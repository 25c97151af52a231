"""A BERT that computes in bfloat16 while its weights, and all that is made of its states, stay float32 (needs torch).

Three times as fast to train on a processor with AVX-512 BF16, slower on others: `lscpu` names `avx512_bf16`.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import BertModel


def compute_in_bfloat16(bert: BertModel) -> None:
    """From now on every call of this encoder computes in bfloat16 and gives float32 states."""
    # A virtual machine may name AMX and not allow it: an illegal instruction.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    # Backwards, the fused attention takes three times as long as the plain one here.
    bert.set_attn_implementation("eager")
    forward = bert.forward

    def cast(*inputs: Any, **options: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            outputs = forward(*inputs, **options)
        outputs.last_hidden_state = outputs.last_hidden_state.float()
        return outputs

    bert.forward = cast
