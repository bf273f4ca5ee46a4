"""Models of a plan: by their size, from a local folder (config.json and safetensors), and heads that draft.

A decoder has an attention and a gated feed-forward, or experts, in each layer. Norms and biases are not
counted: they are below 0.05 % of the exact totals of ``COMPARED``.

A head (EAGLE, EAGLE-3, MTP) is that of its own config.json, or typical for the target. It has one layer or
more, and a matrix that joins hidden states with a token's embedding, which is the target's. EAGLE-3 has an
output matrix of its own, and its attention reads the token beside the hidden state. An MTP module is a part
of the target's checkpoint: a layer like the last one, with experts, in its dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from spec_decode_exporter.config.types import parse_parameters
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.numbers import TooManyValuesError, decode
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.costs.methods import DRAFT_MODEL
from spec_decode_exporter.reports.saved_snapshot import MAX_BYTES, MAX_VALUES
from spec_decode_exporter.views.document import View, at, fact

DTYPES: Final[Mapping[str, float]] = {
    "float32": 32.0,
    "bfloat16": 16.0,
    "float16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.0,
    "nvfp4": 4.5,  # 16 weights share a scale of 8 bits
    "mxfp4": 4.25,  # 32 weights do; the scales of the others are fewer, and are not counted
}
"""Bits of a weight of a layer, including its share of large scales."""
_ALIASES: Final = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}


class ModelError(ExporterError):
    """A model cannot be used in a plan; the text has the reason and the remedy."""


def dtype_of(text: str) -> str:
    """Return the dtype of a name, or raise ValueError with the list of names."""
    name = text.lower().removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in DTYPES:
        raise ValueError(f"{text[:60]!r} is no dtype that is known; the dtypes are {', '.join(DTYPES)}")
    return name


class Weights(NamedTuple):
    """Numbers of weights, by storage and use."""

    layers: int  # weights that every step reads: attention, dense or shared feed-forward
    experts: int = 0  # weights of all routed experts
    expert_share: float = 1.0  # share of the routed experts that one token uses
    tables: int = 0  # embedding and output matrix: never quantized

    @property
    def total(self) -> int:
        """Number of all weights."""
        return self.layers + self.experts + self.tables

    @property
    def active(self) -> int:
        """Number of weights that a token uses."""
        return self.total - self.experts + round(self.experts * self.expert_share)

    def bytes_in(self, dtype: str) -> int:
        """Return the bytes of the weights over all GPUs."""
        bits, table_bits = DTYPES[dtype], max(DTYPES[dtype], DTYPES["bfloat16"])
        layer_bits = table_bits if self.experts and dtype == "mxfp4" else bits  # as gpt-oss
        return ceil((self.layers * layer_bits + self.experts * bits + self.tables * table_bits) / 8)


COMPARED: Final = (
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3",
    "gemma3_text", "deepseek_v2", "deepseek_v3", "gpt_oss", "phi3", "olmo2", "glm4", "glm4_moe", "minimax_m2",
)  # fmt: skip
"""Values of ``model_type`` whose weights a test compares with published totals."""
_GEMMA3: Final = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208,
    "sliding_window": 4096, "sliding_window_pattern": 6,
}  # fmt: skip
_DEFAULTS: Final = {"gemma2": {"sliding_window_pattern": 2}, "gemma3": _GEMMA3, "gemma3_text": _GEMMA3}
"""Values that a file may omit."""
_OTHER_LAYERS: Final = ("linear_", "mamba_", "ssm_", "attn_layer_", "hybrid_", "full_attention_interval")
"""Beginnings of keys of models whose layers are not all attention."""

Count = Annotated[int, Field(strict=True, ge=0, lt=10**9)]
Size = Annotated[Count, Field(gt=0)]


class ModelConfig(BaseModel):
    """Values of a config.json that decide sizes; an absent number is 0."""

    model_config = ConfigDict(frozen=True, protected_namespaces=(), hide_input_in_errors=True)

    model_type: str
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[Size, Field(le=10_000)]
    num_attention_heads: Size
    num_key_value_heads: Count = 0
    head_dim: Count = 0
    vocab_size: Size
    max_position_embeddings: Count = 0
    tie_word_embeddings: bool = True
    """Transformers omits the key where it is true."""
    sliding_window: Count = 0
    sliding_window_pattern: Count = 0
    use_sliding_window: bool = True
    layer_types: Sequence[Any] = ()
    has_other_layers: bool = False
    """True if not all layers have a KV cache of keys and values: its size is unknown."""
    kv_lora_rank: Count = 0
    """Width of a latent attention (MLA); 0 for one with heads."""
    q_lora_rank: Count = 0
    qk_rope_head_dim: Count = 0
    qk_nope_head_dim: Count = 0
    v_head_dim: Count = 0
    experts: Count = Field(
        default=0, validation_alias=AliasChoices("num_experts", "num_local_experts", "n_routed_experts")
    )
    """Routed experts of a layer; 0 in a dense model."""
    num_experts_per_tok: Count = 0
    moe_intermediate_size: Count = 0
    n_shared_experts: Count = 0
    shared_expert_intermediate_size: Count = 0
    first_k_dense_replace: Count = 0
    num_nextn_predict_layers: Count = 0
    """MTP modules in the files."""
    target_hidden_size: Count = 0
    draft_vocab_size: Count = 0

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_width(self) -> int:
        """Width of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def table(self) -> int:
        """Weights of the embedding, or of the output matrix."""
        return self.vocab_size * self.hidden_size


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known values of a config.json; those in ``text_config`` come first."""
    nested = document.get("text_config")
    both = {**document, **nested} if isinstance(nested, dict) else document
    return {key: value for key, value in both.items() if value is not None}


def config_of(values: Mapping[str, Any]) -> ModelConfig:
    """Return the checked values of a config.json; raise ModelError if one is missing or invalid."""
    defaults = _DEFAULTS.get(str(values.get("model_type")), {})
    others = any(key.startswith(_OTHER_LAYERS) for key in values)
    try:
        return ModelConfig.model_validate({**defaults, **values, "has_other_layers": others})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        wrong = f"is {str(first['input'])[:40]!r}, no value that a model has"
        reason = "is missing" if first["type"] == "missing" else wrong
        raise ModelError(
            f"{first['loc'][0]} {reason}; give the model's number of parameters instead, such as 8B"
        ) from None


def dtype_of_config(values: Mapping[str, Any]) -> str:
    """Return the dtype of a checkpoint, by default bfloat16; raise ModelError for an unknown quantization."""
    texts = (values.get(key) for key in ("dtype", "torch_dtype"))
    name = next((text for text in texts if isinstance(text, str) and text), "bfloat16")
    quantization = values.get("quantization_config")
    try:
        return dtype_of(_quantized(quantization) if isinstance(quantization, dict) and quantization else name)
    except ValueError as error:
        raise ModelError(f"{error}; say it by --target.dtype or --draft.dtype") from None


def _quantized(config: Mapping[str, Any]) -> str:
    """Return the dtype of a quantization, by the keys of the tools that quantize."""
    method, groups = str(config.get("quant_method", "")).lower(), config.get("config_groups")
    if method in {"fp8", "mxfp4"}:
        return method
    if method == "compressed-tensors":
        group = next(iter(groups.values()), None) if isinstance(groups, dict) else None
        weights = group.get("weights") if isinstance(group, dict) else None
        kind = (
            f"{weights.get('type', 'int')}{weights.get('num_bits')}" if isinstance(weights, dict) else method
        )
        return {"float8": "fp8", "float4": "nvfp4"}.get(kind, kind)
    if config.get("quant_algo"):  # ModelOpt
        return str(config["quant_algo"]).lower()
    loaded = next((bits for bits in (4, 8) if config.get(f"load_in_{bits}bit")), config.get("bits"))
    return method if loaded is None else f"int{loaded}"


def weights_of(config: ModelConfig, layers: int) -> Weights:
    """Return the weights of a model with ``layers`` layers, without parts for images or audio."""
    hidden, inner, number = config.hidden_size, config.intermediate_size, config.experts
    dense = min(config.first_k_dense_replace, layers) if number else layers
    sparse, tables = layers - dense, config.table * (1 if config.tie_word_embeddings else 2)
    shared = config.n_shared_experts * config.moe_intermediate_size + config.shared_expert_intermediate_size
    router = number + 3 * shared
    always = layers * _attention_weights(config) + hidden * (3 * dense * inner + sparse * router)
    if not sparse:
        return Weights(always, tables=tables)
    experts = 3 * sparse * number * hidden * (config.moe_intermediate_size or inner)
    return Weights(always, experts, min(config.num_experts_per_tok / number, 1.0), tables)


def _attention_weights(config: ModelConfig) -> int:
    hidden, heads = config.hidden_size, config.num_attention_heads
    if not config.kv_lora_rank:
        return 2 * hidden * config.head_width * (heads + config.kv_heads)
    # DeepSeek-V2, arXiv 2405.04434, section 2.1
    rope, plain, value = config.qk_rope_head_dim, config.qk_nope_head_dim, config.v_head_dim
    query, rank = heads * (plain + rope), config.kv_lora_rank
    queries = config.q_lora_rank * (hidden + query) if config.q_lora_rank else hidden * query
    return queries + hidden * (rank + rope) + rank * heads * (plain + value) + heads * value * hidden


def sequence_elements(config: ModelConfig, context: int, gpus: int) -> int | None:
    """Return the elements of a sequence in the KV cache of one of ``gpus``; None if not all layers have one."""
    layers, kinds = config.num_hidden_layers, {*map(str, config.layer_types)}
    if config.has_other_layers or kinds - {"full_attention", "sliding_attention"}:
        return None
    if config.kv_lora_rank:  # every GPU holds the whole latent vector
        return layers * (config.kv_lora_rank + config.qk_rope_head_dim) * context
    full, heads = _full_layers(config, layers), -(-config.kv_heads // gpus)  # heads are not divided
    tokens = full * context + (layers - full) * min(context, config.sliding_window)
    return 2 * heads * config.head_width * tokens


def _full_layers(config: ModelConfig, layers: int) -> int:
    """Return the number of layers with full attention; the others have a window."""
    if not config.sliding_window or not config.use_sliding_window:
        return layers
    if config.layer_types:
        return list(config.layer_types[:layers]).count("full_attention")
    return layers // config.sliding_window_pattern if config.sliding_window_pattern else 0


class Model(View):
    """A target or a draft."""

    name: str
    weights: Weights = Field(exclude=True)
    dtype: str = at("Format of the weights.")
    weight_bytes: int = at("Over all GPUs, without copies.")
    weights_counted: bool = at(
        "Whether weight_bytes is computed; else it is the size of the files.", default=True
    )
    guessed: bool = at("Whether the size is only typical for such models.", default=False)
    config: ModelConfig | None = Field(default=None, exclude=True)
    """None if its config.json is unknown."""

    # fmt: off
    parameters = fact("All parameters.", int, lambda model: model.weights.total)
    active_parameters = fact("Parameters that one token uses: all of a dense model.", int, lambda model: model.weights.active)
    vocabulary_tokens = fact("Null if unknown.", int | None, lambda model: model.config and model.config.vocab_size)
    # fmt: on

    def sequence_bytes(self, context: int, gpus: int, element_bytes: int) -> int | None:
        """Return the bytes of a sequence in the KV cache over all of ``gpus``; None if unknown."""
        elements = None if self.config is None else sequence_elements(self.config, context, gpus)
        return None if elements is None else gpus * element_bytes * elements


_MIN_PARAMETERS, _MAX_PARAMETERS = 10**6, 10**15
MTP, EAGLE3 = "mtp", "eagle3"
HEADS: Final = {"eagle": 2, EAGLE3: 3, MTP: 2}
"""Number of vectors of the model's width that a head joins to one."""
SEARCHES: Final = ("ngram", "ngram_gpu", "suffix")
"""Methods that search repeated text: they take no GPU memory."""
METHODS: Final = (DRAFT_MODEL, *HEADS, *SEARCHES)  # methods whose memory is known
NO_DRAFT: Final = "give a draft model, such as --draft 0.6B, or another method: --method eagle3, mtp or ngram"
_VOCABULARY: Final = 32_000  # vocabulary of published EAGLE-3 heads


def model_of(text: str, dtype: str | None) -> Model:
    """Return a model by its number of parameters, or by the path of its config.json; else raise ModelError.

    ``dtype`` None is that of the checkpoint, or 16 bits.
    """
    try:
        number = parse_parameters(text)
    except ValueError:
        return _of_folder(text, dtype)
    if not _MIN_PARAMETERS <= number < _MAX_PARAMETERS:
        meant = f": did you mean {text}B?" if text.isdecimal() and 0 < number < _MIN_PARAMETERS else ""
        raise ModelError(f"{text!r} is no size of a model{meant}")
    weights, stored = Weights(round(number)), dtype or "bfloat16"
    return Model(name=text, weights=weights, dtype=stored, weight_bytes=weights.bytes_in(stored))


def _of_folder(text: str, dtype: str | None) -> Model:
    path = Path(text)
    file = path / "config.json" if path.is_dir() else path
    if not text or not file.exists():
        choices = "a number of parameters, such as 8B, nor a config.json or a folder with one"
        raise ModelError(f"{text!r} is neither {choices}; nothing is downloaded")
    folder = file.parent
    try:
        values = flat(_json(file, "it"))
        config, stored = config_of(values), dtype or dtype_of_config(values)
        files = None if dtype else _size_of_files(folder)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None
    weights, modules = weights_of(config, config.num_hidden_layers), module_bytes(config, stored)
    counted = weights.bytes_in(stored)
    if files is not None and files >= counted + modules // 2:
        files -= modules  # vLLM loads the MTP modules for the method mtp only
    return Model(
        name=folder.resolve().name or str(folder),
        weights=weights,
        dtype=stored,
        weight_bytes=files or counted,
        weights_counted=files is None,
        config=config,
    )


def _size_of_files(folder: Path) -> int | None:
    """Return the bytes of the weights by the index of the safetensors, or by these files; None without."""
    index = folder / "model.safetensors.index.json"
    metadata = _json(index, index.name).get("metadata") if index.exists() else None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if type(size) is int and size > 0:
        return size
    return sum(file.stat().st_size for file in folder.glob("model*.safetensors")) or None


def _json(file: Path, name: str) -> Mapping[str, Any]:
    """Return the JSON object of a file; errors call the file ``name``."""
    try:
        document = decode(read_bounded(file, MAX_BYTES), MAX_VALUES)
    except (OSError, TooManyValuesError) as error:
        raise ModelError(f"{name} cannot be read: {getattr(error, 'strerror', '') or error}") from None
    except ValueError:
        raise ModelError(f"{name} is not JSON") from None
    if not isinstance(document, dict):
        raise ModelError(f"{name} is no JSON object")
    return document


def drafter_of(method: str, target: Model, draft: Model | None, dtype: str | None) -> Model | None:
    """Return what drafts, None for a search; raise ModelError if a method lacks its draft, or takes none."""
    if method in SEARCHES:
        if draft is not None:
            raise ModelError(f"{method} searches the text and has no draft; leave out --draft, or --method")
        return None
    if draft is None:
        if method not in HEADS:
            raise ModelError(NO_DRAFT)
        return _typical(target, method, dtype)
    if method not in HEADS or draft.config is None:
        return draft
    weights = _head_weights(draft.config, method)
    size = weights.bytes_in(draft.dtype) if draft.weights_counted else draft.weight_bytes
    return draft.model_copy(update={"weights": weights, "weight_bytes": size})


def module_bytes(config: ModelConfig, dtype: str) -> int:
    """Return the bytes of the MTP modules in the files of a checkpoint; 0 without modules.

    Beside its layer, each has copies of the embedding and of the output matrix (DeepSeek-V3, arXiv
    2412.19437, section 2.2), which vLLM does not load.
    """
    weights = _module(config)._replace(tables=2 * config.table)
    return config.num_nextn_predict_layers * weights.bytes_in(dtype)


def _typical(target: Model, method: str, dtype: str | None) -> Model:
    """Return a head with one layer for this target, which is dense and in 16 bits unless it is MTP."""
    config = target.config
    if config is None:
        raise ModelError(
            f"a head for {method} has no size: give --draft, as its number of parameters or its config.json, "
            "or --target as a config.json"
        )
    one = {"num_hidden_layers": 1, "layer_types": (), "sliding_window": 0, "max_position_embeddings": 0}
    layer = config.model_copy(update=one)
    if method == MTP:
        weights, stored = _module(config), dtype or target.dtype
    else:
        dense = {"experts": 0, "draft_vocab_size": min(_VOCABULARY, config.vocab_size)}
        weights, stored = _head_weights(layer.model_copy(update=dense), method), dtype or "bfloat16"
    size, name = weights.bytes_in(stored), f"{method} head"
    return Model(
        name=name, weights=weights, dtype=stored, weight_bytes=size, guessed=method != MTP, config=layer
    )


def _head_weights(config: ModelConfig, method: str) -> Weights:
    hidden, weights = config.hidden_size, weights_of(config, config.num_hidden_layers)
    layers = weights.layers + HEADS[method] * (config.target_hidden_size or hidden) * hidden
    if method != EAGLE3:
        return weights._replace(layers=layers, tables=0)
    token_inputs = hidden * config.head_width * (config.num_attention_heads + 2 * config.kv_heads)
    output = (config.draft_vocab_size or config.vocab_size) * hidden
    return weights._replace(layers=layers + token_inputs, tables=output)


def _module(config: ModelConfig) -> Weights:
    whole, rest = (weights_of(config, config.num_hidden_layers - less) for less in (0, 1))
    experts = whole.experts - rest.experts
    layer = whole.layers - rest.layers + HEADS[MTP] * config.hidden_size**2
    return Weights(layer, experts, whole.expert_share if experts else 1.0)
