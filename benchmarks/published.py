"""The reference implementation: Hugging Face's Llama with our prepared weights."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.embedded.weights import Shape


def published_model(
    shape: Shape, tensors: dict[str, torch.Tensor], dtype: torch.dtype
) -> LlamaForCausalLM:
    """Ready to generate, without end tokens. Raises ``RuntimeError`` when a tensor does not fit."""
    config = LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        rms_norm_eps=shape.eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        tie_word_embeddings=True,
        dtype=dtype,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    missing = model.load_state_dict(tensors, strict=False).missing_keys
    if missing != ["lm_head.weight"]:  # tied to the embedding
        raise RuntimeError(f"the prepared weights lack {missing}")
    model.train(False)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model
