"""One ONNX graph of three: our preprocessing, a user's encoder as it is, and our metric.

The encoder's names get a prefix, since it may use any; its operators are brought to our version, or
ours to its, whichever is older.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.onnx_export import onnx_model, without_traces
from tadam.classify.predictor import Predictor
from tadam.errors import UserError
from tadam.models.onnx_files import has_weights_elsewhere
from tadam.nn.backbones.onnx_encoder import INPUT_TYPES, OnnxEncoder, output_name
from tadam.nn.foreign import token_rule
from tadam.nn.one_by_one import one_thread_session

_PREFIX, _OUR_PREFIX = "encoder/", "metric/"
_PREPARED, _FOUND = "prepared", "found"
_TORCH_TYPES = {np.float32: torch.float32, np.float16: torch.float16, np.uint8: torch.uint8}


class _Prepare(nn.Module):
    """Images as the encoder takes them."""

    def __init__(self, preprocess: nn.Module, channels_last: bool, kind: torch.dtype) -> None:
        super().__init__()
        self.preprocess, self.channels_last, self.kind = preprocess, channels_last, kind

    def forward(self, images: Tensor) -> Tensor:
        """uint8 (N, H, W, C) -> (N, C, S, S) or (N, S, S, C), of the encoder's type."""
        x: Tensor = self.preprocess(images.permute(0, 3, 1, 2))
        x = x.permute(0, 2, 3, 1) if self.channels_last else x
        if self.kind == torch.uint8:
            x = x.round().clamp(0, 255)
        return x.contiguous().to(self.kind)


class _Judge(nn.Module):
    """What becomes of the encoder's output; `as_vectors` in PyTorch, then the metric."""

    def __init__(self, metric: AdaptiveMetric) -> None:
        super().__init__()
        self.metric = metric

    def forward(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """(N, D), (N, D, H, W) or (N, T, D) -> (N, K) and (N,)."""
        z = found.float()
        if z.ndim == 4:
            z = z.mean(dim=(2, 3))
        elif z.ndim == 3:
            z = z[:, 0] if token_rule(z.shape[1]) == "first" else z.mean(dim=1)
        return self.metric.probabilities(z), self.metric.strangeness(z)


def joined_model(
    predictor: Predictor,
    encoder: OnnxEncoder,
    example: Tensor,
    input_name: str,
    output_names: tuple[str, str],
    dynamic: dict[int, str],
) -> Any:
    """The model of a classifier on an ONNX encoder, as `onnx_model` gives others.

    Args:
        predictor: A task's preprocessing and metric.
        encoder: The encoder in it.
        example: Images, uint8 (N, H, W, C).
        input_name: What to call the images.
        output_names: What to call probabilities and strangeness.
        dynamic: Names of the dimensions of the images that may differ from the example's.
    """
    import onnx
    import onnx_ir

    if encoder.mirrored:
        raise UserError(
            "a classifier on an ONNX encoder that looks at mirror images too cannot be exported: "
            "fit one that does not"
        )
    content = encoder.content.cpu().numpy().tobytes()
    if has_weights_elsewhere(content):
        raise UserError(
            "the encoder keeps its weights in another file, so it cannot be exported: save it as "
            "one file, with onnx.save(onnx.load(old), new), and fit again"
        )
    session = one_thread_session(content)
    (source,) = session.get_inputs()
    output = output_name([(out.name, out.shape) for out in session.get_outputs()])
    kind = _TORCH_TYPES[INPUT_TYPES[source.type]]
    prepare = _Prepare(predictor.preprocess, encoder.config.channels_last, kind).eval()
    with torch.no_grad():
        found = _trial(session, source, output, prepare(example))
    first = onnx_model(prepare, example, input_name, [_PREPARED], dynamic)
    judge = _Judge(predictor.metric).eval()
    on_device = found.to(predictor.metric.weight.device)
    last = onnx_model(judge, on_device, _FOUND, output_names, {0: dynamic[0]})
    _rename(last, _OUR_PREFIX, kept=output_names)
    theirs = _alone(onnx.load_model_from_string(content), output)
    models = _agreeing([onnx_ir.to_proto(first), theirs, onnx_ir.to_proto(last)])
    return _merged(models, _PREFIX + source.name, _PREFIX + output)


def _trial(session: Any, source: Any, output: str, prepared: Tensor) -> Tensor:
    """What the encoder returns for any number of images, which not every encoder takes."""
    fixed = source.shape[0]
    if isinstance(fixed, int):
        raise UserError(
            f"an encoder that takes exactly {fixed} image{'s' * (fixed != 1)} at a time cannot be "
            "exported: write the encoder again with a batch of any size, and fit again"
        )
    return torch.from_numpy(session.run([output], {source.name: prepared.cpu().numpy()})[0])


def _alone(model: Any, output: str) -> Any:
    """The encoder with its embedding as the only output, and names that are not ours."""
    import onnx_ir

    constants = {tensor.name for tensor in model.graph.initializer}
    graph = model.graph
    for values, kept in (
        (graph.input, [v for v in graph.input if v.name not in constants]),
        (graph.output, [v for v in graph.output if v.name == output]),
        (graph.value_info, []),  # shapes whose dimensions may have our names
    ):
        del values[:]
        values.extend(kept)
    found = onnx_ir.from_proto(model)
    found.metadata_props.clear()
    _rename(found, _PREFIX)
    return onnx_ir.to_proto(found)


def _rename(model: Any, prefix: str, kept: Sequence[str] = ()) -> None:
    """Puts a prefix before the names of all nodes and values of a model of `onnx_ir`.

    There, a branch of an `If` sees the change of what it refers to; `onnx.compose.add_prefix`
    forgets about constants.

    Args:
        model: Changed in place.
        prefix: The prefix.
        kept: Names to leave alone.
    """
    for value in _values(model.graph):
        if value.name and value.name not in kept:
            value.name = prefix + value.name
    for number, node in enumerate(model.graph.all_nodes()):
        node.name = f"{prefix}{number}"  # theirs may be empty, or used twice


def _values(graph: Any) -> list[Any]:
    """All values of a graph and of the graphs within, each once."""
    graphs = [graph, *graph.subgraphs()]
    found = [v for one in graphs for v in (*one.inputs, *one.initializers.values())]
    found += [value for node in graph.all_nodes() for value in node.outputs]
    return list({id(value): value for value in found}.values())


def _agreeing(models: list[Any]) -> list[Any]:
    """The same models with one version of the operators and one of the format."""
    import onnx
    from onnx import version_converter

    for model in models:
        for entry in model.opset_import:
            entry.domain = "" if entry.domain == "ai.onnx" else entry.domain
    versions = [max((e.version for e in m.opset_import if not e.domain), default=1) for m in models]
    newest = max(versions)
    try:
        agreed = [
            model if version == newest else version_converter.convert_version(model, newest)
            for model, version in zip(models, versions, strict=True)
        ]
    except Exception as error:  # of C++, of several kinds
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"the encoder's operators, of opset {versions[1]}, cannot be brought to opset {newest} "
            f"({reason}): export the encoder again with opset {newest}, and fit again"
        ) from None
    form = max(model.ir_version for model in agreed)
    for model in agreed:
        model.ir_version = max(form, onnx.helper.find_min_ir_version_for(model.opset_import, True))
    return agreed


def _merged(models: list[Any], source: str, output: str) -> Any:
    import onnx_ir
    from onnx import compose

    first, theirs, last = models
    try:
        start = compose.merge_models(first, theirs, [(_PREPARED, source)])
        join = [(output, _OUR_PREFIX + _FOUND)]
        whole = compose.merge_models(start, last, join, name="tadam", doc_string="")
    except Exception as error:  # a checker's in C++, and ValueErrors
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"the encoder cannot be joined with the metric ({reason}): fit with another one"
        ) from None
    return without_traces(onnx_ir.from_proto(whole))
