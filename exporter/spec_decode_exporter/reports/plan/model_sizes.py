"""Sizes of a model by its config.json: weights, layers of the KV cache, and heads that draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from spec_decode_exporter.core.user_errors import ExporterError

DTYPES: Final[Mapping[str, Fraction]] = {
    "float32": Fraction(32),
    "bfloat16": Fraction(16),
    "float16": Fraction(16),
    "fp8": Fraction(8),
    "int8": Fraction(8),
    "int4": Fraction(4),
    "nvfp4": Fraction(9, 2),  # 16 weights share a scale of 8 bits
    "mxfp4": Fraction(17, 4),  # 32 weights do; the scales of the others are fewer, and are not counted
}
"""Bits of a weight of a layer."""
_ALIASES: Final = {
    "float": "float32",
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
}
_HEAD_VOCABULARY: Final = 32_000
"""Vocabulary of published EAGLE-3 heads."""
_HEAD_WIDTH: Final = 6
"""Width of the dense layer of EAGLE-3 heads in multiples of the model's width, for targets without dense
layers: 17,280 for the 2,880 of gpt-oss, as SpecForge configures it."""


class ModelError(ExporterError):
    """A model cannot be used in a plan; the text has the reason and the remedy."""


class Dtype(NamedTuple):
    """Storage format of a model's weights."""

    name: str = "bfloat16"
    bits: Fraction = DTYPES["bfloat16"]
    """Bits of a weight of a layer, including its share of large scales."""

    @property
    def rest_bits(self) -> Fraction:
        """Bits of a weight that is never quantized: embedding and output matrix."""
        return max(self.bits, DTYPES["bfloat16"])


def dtype_of(text: str) -> Dtype:
    """Return the dtype of a name, or raise ValueError with the list of names."""
    name = text.lower().removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in DTYPES:
        raise ValueError(f"{text[:60]!r} is no dtype that is known; the dtypes are {', '.join(DTYPES)}")
    return Dtype(name, DTYPES[name])


class ModelFamily(NamedTuple):
    """Properties of an architecture that config.json lacks."""

    norms: int = 2
    """Number of norms of the model's width in each layer."""
    qkv_bias: bool = False
    """True if queries, keys and values have a bias, unless ``attention_bias`` overrides it."""
    head_norm: bool = False
    """True if queries and keys of each head have a norm."""
    tied: bool = False
    """True if the embedding is the output matrix, unless the file overrides it."""
    expert_bias: bool = False
    """True if router, experts and output projection have a bias, and each head an attention sink."""
    full_every: int = 1
    """Period of the layers with full attention, the others have a window; 1 if all are full."""
    windowed: bool = False
    """True if ``sliding_window`` applies to all layers without a pattern."""
    wide_experts: bool = False
    """True if an expert is as wide as a dense layer."""
    defaults: Mapping[str, int] = {}
    """Values of keys that the file may omit."""


_GEMMA3_HEADS: Final = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
_GEMMA3_DEFAULTS: Final = {**_GEMMA3_HEADS, "vocab_size": 262_208, "sliding_window": 4096}
_GEMMA3: Final = ModelFamily(norms=4, head_norm=True, tied=True, full_every=6, defaults=_GEMMA3_DEFAULTS)
FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "llama": ModelFamily(),
    "mistral": ModelFamily(windowed=True),
    "mixtral": ModelFamily(windowed=True, wide_experts=True),
    "qwen2": ModelFamily(qkv_bias=True),
    "qwen2_moe": ModelFamily(qkv_bias=True),
    "qwen3": ModelFamily(head_norm=True),
    "qwen3_moe": ModelFamily(head_norm=True),
    "gemma": ModelFamily(tied=True),
    "gemma2": ModelFamily(norms=4, tied=True, full_every=2),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "deepseek_v2": ModelFamily(),
    "deepseek_v3": ModelFamily(),
    "gpt_oss": ModelFamily(qkv_bias=True, expert_bias=True, full_every=2, wide_experts=True),
}
"""By ``model_type``."""

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
    tie_word_embeddings: bool | None = None
    attention_bias: bool | None = None
    mlp_bias: bool = False
    sliding_window: Count = 0
    sliding_window_pattern: Count = 0
    use_sliding_window: bool = False
    max_window_layers: Count | None = None
    layer_types: Sequence[Any] = ()
    """Kind of attention of each layer."""
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
    mlp_only_layers: Sequence[Any] = ()
    sparse_every: Count = Field(
        default=0, validation_alias=AliasChoices("decoder_sparse_step", "moe_layer_freq")
    )
    num_nextn_predict_layers: Count = 0
    """MTP modules in the files."""
    target_hidden_size: Count = 0
    draft_vocab_size: Count = 0

    @property
    def family(self) -> ModelFamily:
        """Known properties of the architecture."""
        return FAMILIES[self.model_type]

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_width(self) -> int:
        """Width of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def expert_width(self) -> int:
        """Hidden units of a routed expert."""
        return self.intermediate_size if self.family.wide_experts else self.moe_intermediate_size

    def is_sparse(self, layer: int) -> bool:
        """Return whether a layer has experts."""
        if not self.experts or layer in self.mlp_only_layers:
            return False
        return layer >= self.first_k_dense_replace and (layer + 1) % (self.sparse_every or 1) == 0


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known values of a config.json; those in ``text_config`` come first."""
    nested = document.get("text_config")
    both = {**document, **nested} if isinstance(nested, dict) else document
    return {key: value for key, value in both.items() if value is not None}


def config_of(values: Mapping[str, Any]) -> ModelConfig:
    """Return the checked values of a known architecture.

    Raises:
        ModelError: The architecture is not in ``FAMILIES``, or a value is missing or invalid.
    """
    kind, instead = str(values.get("model_type") or ""), "give the model's number of parameters instead"
    if kind not in FAMILIES:
        reason = f"the architecture {kind[:60]!r} is not known here" if kind else "it has no model_type"
        known = ", ".join(FAMILIES)
        raise ModelError(
            f"{reason}; {instead}, such as 8B, or a folder with its safetensors (known: {known})"
        )
    try:
        config = ModelConfig.model_validate({**FAMILIES[kind].defaults, **values})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        shown = f"is {str(first['input'])[:40]!r}, no value that a model has"
        shown = "is missing" if first["type"] == "missing" else shown
        raise ModelError(f"{first['loc'][0]} {shown}; {instead}, such as 8B") from None
    needed = {"num_experts_per_tok": config.num_experts_per_tok, "moe_intermediate_size": config.expert_width}
    for key in (key for key, value in needed.items() if config.experts and not value):
        raise ModelError(f"{key} is missing; {instead}, such as 8B")
    if not config.head_width:
        raise ModelError(
            f"hidden_size is {config.hidden_size}, less than a number for each of {config.num_attention_heads} heads"
        )
    return config


def dtype_of_config(values: Mapping[str, Any]) -> Dtype:
    """Return the dtype of the checkpoint of a config.json; bfloat16 if the file has none.

    Raises:
        ModelError: The quantization is unknown.
    """
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
        known = [
            its for its in (groups.values() if isinstance(groups, dict) else ()) if isinstance(its, dict)
        ]
        weights = next((its["weights"] for its in known if isinstance(its.get("weights"), dict)), None)
        kind = method if weights is None else f"{weights.get('type', 'int')}{weights.get('num_bits')}"
        return {"float8": "fp8", "float4": "nvfp4"}.get(kind, kind)
    if config.get("quant_algo"):  # ModelOpt
        return str(config["quant_algo"]).lower()
    loaded = next((bits for bits in (4, 8) if config.get(f"load_in_{bits}bit")), config.get("bits"))
    return method if loaded is None else f"int{loaded}"


class Parameters(NamedTuple):
    """Numbers of weights, by storage and access."""

    layers: int
    """Weights that every step reads: attention, dense or shared feed-forward, norms. Quantized in a quantized
    model, unless it is ``mxfp4`` with experts, as gpt-oss."""
    experts: int = 0
    """Weights of all routed experts. Quantized too."""
    expert_share: float = 1.0
    """Share of the routed experts that one token uses."""
    embedding: int = 0
    """Input embedding: a step reads a few rows. Never quantized."""
    output: int = 0
    """Output matrix; 0 if it is the embedding (``tied``). Never quantized."""
    tied: bool = False

    @property
    def total(self) -> int:
        """Number of all weights."""
        return self.layers + self.experts + self.embedding + self.output

    @property
    def active(self) -> int:
        """Number of weights that a token uses."""
        return self.total - self.experts + round(self.experts * self.expert_share)

    def weight_bytes(self, dtype: Dtype) -> int:
        """Return the bytes of the weights over all GPUs."""
        rest = (self.embedding + self.output) * dtype.rest_bits
        return ceil((self.layers * self._layer_bits(dtype) + self.experts * dtype.bits + rest) / 8)

    def _layer_bits(self, dtype: Dtype) -> Fraction:
        """Return the bits of a weight outside the experts."""
        return dtype.rest_bits if self.experts and dtype.name == "mxfp4" else dtype.bits


class Attention(NamedTuple):
    """Layers with the same KV cache."""

    layers: int
    elements: int
    """Elements of a token in a layer: keys and values of all heads, or the latent vector."""
    kv_heads: int | None = None
    """None for a latent vector (MLA), which every GPU holds as a whole."""
    window: int | None = None
    """Maximum number of tokens in the cache; None for no limit."""

    def sequence(self, context: int, gpus: int) -> int:
        """Return the elements of a sequence on one of ``gpus``; heads are not divided."""
        tokens = context if self.window is None else min(context, self.window)
        heads = 1 if self.kv_heads is None else max(1, -(-self.kv_heads // gpus))
        return self.layers * (self.elements // (self.kv_heads or 1)) * heads * tokens


@dataclass(frozen=True, slots=True)
class Model:
    """A target or a draft."""

    name: str
    parameters: Parameters
    dtype: Dtype
    weight_bytes: int
    """Bytes of the weights over all GPUs without copies."""
    counted: bool = True
    """True if ``weight_bytes`` is computed; otherwise it is the size of the files."""
    guessed: bool = False
    """True if the size is only typical for such models."""
    config: ModelConfig | None = None
    """None if the architecture is unknown."""
    attention: tuple[Attention, ...] = ()
    kv_bytes_per_token: int | None = None
    """Given bytes of a token in the KV cache over all GPUs."""
    vocabulary: str | None = None
    """Digest of its tokens; None without a tokenizer."""

    def sequence_bytes(self, context: int, gpus: int, element_bytes: int) -> int | None:
        """Return the bytes of a sequence in the KV cache of each of ``gpus``; None if unknown."""
        if self.kv_bytes_per_token is not None:
            return -(-self.kv_bytes_per_token * context // gpus)
        elements = sum(its.sequence(context, gpus) for its in self.attention)
        return element_bytes * elements if self.attention else None


def parameters(config: ModelConfig, layers: int) -> Parameters:
    """Return the weights of a model with ``layers`` layers, without parts for images or audio."""
    family, hidden, number = config.family, config.hidden_size, config.experts
    sparse = sum(map(config.is_sparse, range(layers)))
    each = attention_parameters(config) + family.norms * hidden
    dense = (layers - sparse) * _feed_forward(config, config.intermediate_size)
    table = config.vocab_size * hidden
    tied = family.tied if config.tie_word_embeddings is None else config.tie_word_embeddings
    whole = Parameters(
        layers * each + dense + hidden, embedding=table, output=0 if tied else table, tied=tied
    )
    if not sparse:
        return whole
    inner, bias = config.expert_width, int(family.expert_bias)
    expert = 3 * hidden * inner + bias * (2 * inner + hidden)
    shared = config.n_shared_experts * config.moe_intermediate_size + config.shared_expert_intermediate_size
    gate = hidden if config.shared_expert_intermediate_size else 0
    beside = number * (hidden + bias) + 3 * hidden * shared + gate
    share = min(config.num_experts_per_tok / number, 1.0)
    return whole._replace(
        layers=whole.layers + sparse * beside, experts=sparse * number * expert, expert_share=share
    )


def attention_parameters(config: ModelConfig) -> int:
    """Return the weights of one layer's attention."""
    family, hidden, own = config.family, config.hidden_size, config.num_attention_heads
    shared, width = config.kv_heads, config.head_width
    if config.kv_lora_rank:
        return _latent(config, hidden, own, config.kv_lora_rank)
    biased = family.qkv_bias if config.attention_bias is None else config.attention_bias
    inner = width * (own + 2 * shared) if biased else 0
    outer = hidden if biased and (family.expert_bias or not family.qkv_bias) else 0
    norms_and_sinks = (2 * width if family.head_norm else 0) + (own if family.expert_bias else 0)
    return 2 * hidden * width * (own + shared) + inner + outer + norms_and_sinks


def cache_layers(config: ModelConfig, layers: int) -> tuple[Attention, ...]:
    """Return the layers of the KV cache of a model with ``layers`` layers."""
    if config.kv_lora_rank:
        return (Attention(layers, config.kv_lora_rank + config.qk_rope_head_dim),)
    full, shared = _full_layers(config, layers), config.kv_heads
    kinds = ((full, None), (layers - full, config.sliding_window))
    return tuple(
        Attention(number, 2 * shared * config.head_width, shared, window)
        for number, window in kinds
        if number
    )


def _latent(config: ModelConfig, hidden: int, own: int, rank: int) -> int:
    """Return the weights of a latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""
    rope, plain, value = config.qk_rope_head_dim, config.qk_nope_head_dim, config.v_head_dim
    query_rank, query = config.q_lora_rank, own * (plain + rope)
    queries = query_rank * (hidden + 1 + query) if query_rank else hidden * query
    keys = hidden * (rank + rope) + rank + rank * own * (plain + value)
    return queries + keys + own * value * hidden


def _full_layers(config: ModelConfig, layers: int) -> int:
    """Return the number of layers with full attention."""
    family, kinds = config.family, config.layer_types
    if not config.sliding_window:
        return layers
    other = next((kind for kind in kinds if kind not in ("full_attention", "sliding_attention")), None)
    if other is not None:
        raise ModelError(
            f"its layers of the kind {str(other)[:40]!r} are not known here; give its number of parameters"
        )
    if kinds:
        return kinds[:layers].count("full_attention")
    if family.full_every > 1:
        return layers // (config.sliding_window_pattern or family.full_every)
    if config.use_sliding_window:
        return layers if config.max_window_layers is None else min(config.max_window_layers, layers)
    return 0 if family.windowed else layers


def _feed_forward(config: ModelConfig, inner: int) -> int:
    """Return the weights of a gated feed-forward layer with ``inner`` hidden units."""
    return 3 * config.hidden_size * inner + (2 * inner + config.hidden_size if config.mlp_bias else 0)


class Head(NamedTuple):
    """Matrices of a kind of head, beside its layers.

    A head has one or more layers, a matrix that joins hidden states with a token's embedding, and an output
    matrix: the target's own, or one for fewer tokens. The embedding is the target's.
    """

    joined: int
    """Number of vectors of the model's width that are joined to one."""
    own_output: bool = False
    """True if the head has an output matrix, for its own vocabulary, and its attention reads the token beside
    the hidden state, as that of EAGLE-3."""
    of_the_target: bool = False
    """True if the head is a part of the target's checkpoint: a layer like the last one, experts included,
    in its dtype. Otherwise it is a separately trained dense layer in 16 bits."""


HEADS: Final = {"eagle": Head(2), "eagle3": Head(3, own_output=True), "mtp": Head(2, of_the_target=True)}


def head_of(target: Model, method: str, draft: Model | None, dtype: Dtype | None) -> Model:
    """Return the head of a method: ``draft``, or a typical one for this target.

    Raises:
        ModelError: The size of the head is unknown.
    """
    kind, config = HEADS[method], target.config
    if draft is not None and draft.config is None:
        return draft
    if draft is not None and draft.config is not None:
        its, own = draft, _head_of_config(draft.config, draft.parameters, kind)
    elif config is None:
        raise ModelError(
            f"a head for {method} has no size: give --draft, as its number of parameters or its config.json, or --target as a config.json"
        )
    else:
        weights = dtype or (target.dtype if kind.of_the_target else Dtype())
        layers = tuple(each._replace(layers=1, window=None) for each in cache_layers(config, 1)[:1])
        own = _head_of_target(config, kind)
        its = replace(
            target,
            name=f"{method} head",
            dtype=weights,
            attention=layers,
            counted=True,
            guessed=not kind.of_the_target,
            kv_bytes_per_token=None,
        )
    return replace(
        its, parameters=own, weight_bytes=own.weight_bytes(its.dtype) if its.counted else its.weight_bytes
    )


def module_bytes(config: ModelConfig, dtype: Dtype) -> int:
    """Return the bytes of the MTP modules in the files of a checkpoint; 0 without modules.

    Beside its layer, each has copies of the embedding and of the output matrix (DeepSeek-V3, arXiv
    2412.19437, section 2.2). vLLM loads the modules with ``mtp`` only, without these copies.
    """
    table = config.vocab_size * config.hidden_size
    own = _head_of_target(config, HEADS["mtp"])._replace(embedding=table, output=table)
    return config.num_nextn_predict_layers * own.weight_bytes(dtype)


def _head_of_config(config: ModelConfig, whole: Parameters, kind: Head) -> Parameters:
    """Return the weights of a head with its own config.json."""
    hidden, own, shared = config.hidden_size, config.num_attention_heads, config.kv_heads
    more = hidden * config.head_width * (own + 2 * shared) if kind.own_output else 0
    layers = whole.layers + kind.joined * (config.target_hidden_size or hidden) * hidden + more
    output = (config.draft_vocab_size or whole.embedding // hidden) * hidden if kind.own_output else 0
    return whole._replace(layers=layers, embedding=0, output=output, tied=False)


def _head_of_target(config: ModelConfig, kind: Head) -> Parameters:
    """Return the weights of a typical head with one layer for this target."""
    hidden = config.hidden_size
    if kind.of_the_target:
        whole, rest = (parameters(config, config.num_hidden_layers - less) for less in (0, 1))
        experts = whole.experts - rest.experts
        layer = Parameters(whole.layers - rest.layers, experts, whole.expert_share if experts else 1.0)
    else:
        inner = _HEAD_WIDTH * hidden if config.family.wide_experts else config.intermediate_size
        layer = Parameters(
            attention_parameters(config) + config.family.norms * hidden + _feed_forward(config, inner)
        )
    output = min(_HEAD_VOCABULARY, config.vocab_size) * hidden if kind.own_output else 0
    return layer._replace(layers=layer.layers + kind.joined * hidden * hidden + hidden, output=output)
