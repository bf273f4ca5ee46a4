"""Build the tiny models that the end-to-end test serves; run with the Python of vLLM's own environment.

``target`` is a random Llama of four layers. Its last two layers add little to the residual stream, so that
``draft``, the first two layers of the same weights, guesses its greedy choice more often than not and its
sampled one almost never: the temperature of the requests decides how well speculation works.

``deep`` is such a target of 24 wider layers, and ``deep-draft`` its first two. A step of this draft model costs
so much less than one of the target that speculation makes a server on a CPU more than twice as fast.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

DRAFT_LAYERS = 2
WEAKENED = 0.02  # factor for the output of every layer that the draft model lacks
VOCABULARY = 512
HEAD_SIZE = 64
PAIRS = {"target": ("draft", 4, 256, 512), "deep": ("deep-draft", 24, 512, 2048)}
"""Folder of the draft model, layers of the target, and widths of both, by the folder of the target."""
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


def main(folder: Path, whole: str) -> None:
    """Write target and draft model of a pair below ``folder``, as vLLM loads them."""
    cut, layers, hidden, intermediate = PAIRS[whole]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD_SIZE,
        num_key_value_heads=hidden // HEAD_SIZE,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(7)  # always the same weights
    target = LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in target.model.layers[DRAFT_LAYERS:]:
            layer.self_attn.o_proj.weight.mul_(WEAKENED)
            layer.mlp.down_proj.weight.mul_(WEAKENED)
    # The first layers, the embedding and the head of the target.
    draft = LlamaForCausalLM(LlamaConfig(**{**config.to_dict(), "num_hidden_layers": DRAFT_LAYERS}))
    draft.load_state_dict({name: target.state_dict()[name] for name in draft.state_dict()})
    for name, model in ((cut, draft), (whole, target)):
        model.to(torch.bfloat16).save_pretrained(folder / name)
        tokenizer().save_pretrained(folder / name)
    print(f"{whole}: {target.num_parameters()} parameters")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
