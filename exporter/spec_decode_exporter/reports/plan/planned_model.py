"""A model that is planned with: by its number of parameters alone, or by what its config.json says."""

from __future__ import annotations

from dataclasses import dataclass, field

from spec_decode_exporter.reports.plan.dtype import Dtype
from spec_decode_exporter.reports.plan.model_config import Configuration
from spec_decode_exporter.reports.plan.model_shape import Parameters, Shape


@dataclass(frozen=True, slots=True)
class Model:
    """A target or a draft."""

    name: str
    parameters: Parameters
    dtype: Dtype
    weight_bytes: int
    """What its weights take over all GPUs, if every GPU has its part of them."""
    counted: bool = True
    """Whether that is made of the parameters; else it is the size of files."""
    guessed: bool = False
    """Whether it is only as large as such models usually are."""
    shape: Shape | None = None
    """None where nothing but the number of parameters is known."""
    config: Configuration | None = field(default=None, compare=False)
    kv_bytes_per_token: int | None = None
    """What somebody said that a token of KV cache takes, over all GPUs."""
    vocabulary: str | None = None
    """A digest of its tokens; None where no tokenizer is at hand."""

    def sequence_bytes_on_a_gpu(self, context: int, gpus: int, element_bytes: int) -> int | None:
        """Return what a sequence of ``context`` tokens takes of the KV cache of each of ``gpus``.

        None where that is not known.
        """
        if self.kv_bytes_per_token is not None:
            return -(-self.kv_bytes_per_token * context // gpus)
        if self.shape is None:
            return None
        return element_bytes * sum(
            layers.elements_on_a_gpu(gpus) * layers.tokens(context) for layers in self.shape.attention
        )


def counted_model(name: str, parameters: float, dtype: Dtype, kv_bytes_per_token: int | None) -> Model:
    """Return a model of which somebody gave the number of parameters."""
    all_of_them = Parameters(layers=round(parameters))
    return Model(
        name, all_of_them, dtype, all_of_them.weight_bytes(dtype), kv_bytes_per_token=kv_bytes_per_token
    )
