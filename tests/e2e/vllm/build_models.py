"""Build the tiny models that the end-to-end test serves; run with the Python of vLLM's own environment.

``target`` is a random Llama of four layers. Its last two layers add little to the residual stream, so that
``draft``, the first two layers of the same weights, guesses its greedy choice more often than not and its
sampled one almost never: the temperature of the requests decides how well speculation works.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LAYERS = 4
DRAFT_LAYERS = 2
WEAKENED = 0.02
"""Factor for the output of every layer that the draft model lacks."""
VOCABULARY = 512
TEXT = Path(__file__).read_text(encoding="utf-8")


def tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on this file; its vocabulary is filled up so that every id decodes."""
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train_from_iterator([TEXT] * 2, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=plain, bos_token="<s>", eos_token="</s>")


def config(layers: int) -> LlamaConfig:
    """Describe a model with ``layers``; all other values are the same for target and draft."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
    )


def target() -> LlamaForCausalLM:
    """Draw the target's weights, always the same ones."""
    torch.manual_seed(7)
    model = LlamaForCausalLM(config(LAYERS))
    with torch.no_grad():
        for layer in model.model.layers[DRAFT_LAYERS:]:
            layer.self_attn.o_proj.weight.mul_(WEAKENED)
            layer.mlp.down_proj.weight.mul_(WEAKENED)
    return model


def draft(of: LlamaForCausalLM) -> LlamaForCausalLM:
    """Cut the first layers, the embedding and the head out of the target."""
    model = LlamaForCausalLM(config(DRAFT_LAYERS))
    model.load_state_dict({name: of.state_dict()[name] for name in model.state_dict()})
    return model


def save(model: LlamaForCausalLM, folder: Path) -> None:
    """Write model and tokenizer as vLLM loads them."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def main(folder: Path) -> None:
    """Write ``target`` and ``draft`` below ``folder``."""
    whole = target()
    save(draft(whole), folder / "draft")
    save(whole, folder / "target")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
