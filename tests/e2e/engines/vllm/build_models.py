"""Build the tiny models that the end-to-end test serves; run with the Python of vLLM's own environment.

``target`` is a random Llama of four layers. Its last two layers add little to the residual stream, so that
``draft``, the first two layers of the same weights, guesses its greedy choice more often than not and its
sampled one almost never: the temperature of the requests decides how well speculation works.

``deep`` is such a target of 24 wider layers, and ``deep-draft`` its first two. A step of this draft model costs
so much less than one of the target that speculation makes a server on a CPU more than twice as fast.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

DRAFT_LAYERS = 2
WEAKENED = 0.02  # factor for the output of every layer that the draft model lacks
VOCABULARY = 512
HEAD_SIZE = 64
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


@dataclass(frozen=True)
class Size:
    """Layers and widths of a target; its draft model has ``DRAFT_LAYERS`` of the same widths."""

    layers: int
    hidden: int
    intermediate: int

    def config(self, layers: int) -> LlamaConfig:
        """Describe a model with ``layers``; all other values are the same for target and draft."""
        return LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=layers,
            num_attention_heads=self.hidden // HEAD_SIZE,
            num_key_value_heads=self.hidden // HEAD_SIZE,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
            bos_token_id=0,
            eos_token_id=1,
        )


PAIRS = {("target", "draft"): Size(4, 256, 512), ("deep", "deep-draft"): Size(24, 512, 2048)}
"""Size of each pair by the folders of target and draft."""


def target(size: Size) -> LlamaForCausalLM:
    """Draw the target's weights, always the same ones."""
    torch.manual_seed(7)
    model = LlamaForCausalLM(size.config(size.layers))
    with torch.no_grad():
        for layer in model.model.layers[DRAFT_LAYERS:]:
            layer.self_attn.o_proj.weight.mul_(WEAKENED)
            layer.mlp.down_proj.weight.mul_(WEAKENED)
    return model


def draft(of: LlamaForCausalLM, size: Size) -> LlamaForCausalLM:
    """Cut the first layers, the embedding and the head out of the target."""
    model = LlamaForCausalLM(size.config(DRAFT_LAYERS))
    model.load_state_dict({name: of.state_dict()[name] for name in model.state_dict()})
    return model


def save(model: LlamaForCausalLM, folder: Path) -> None:
    """Write model and tokenizer as vLLM loads them."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def main(folder: Path, whole: str) -> None:
    """Write the pair of the target ``whole`` below ``folder``."""
    [(cut, size)] = [(pair[1], size) for pair, size in PAIRS.items() if pair[0] == whole]
    model = target(size)
    save(draft(model, size), folder / cut)
    save(model, folder / whole)
    print(f"{whole}: {model.num_parameters()} parameters")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
