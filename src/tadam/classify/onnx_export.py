"""A PyTorch module as an ONNX model in memory, by PyTorch's exporter."""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tadam import __version__
from tadam.errors import RunFailed


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error of PyTorch's exporter, which reports it as its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def onnx_model(
    module: nn.Module,
    example: Tensor,
    input_name: str,
    output_names: Sequence[str],
    dynamic: Mapping[int, str],
) -> Any:
    """A module as an ONNX model in memory (of the package `onnx_ir`), free of traces of its source.

    Args:
        module: In evaluation mode.
        example: An input.
        input_name: What to call it.
        output_names: What to call what comes out.
        dynamic: Names of the input's dimensions that may differ from the example's.
    """
    with _quiet():
        try:
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                input_names=[input_name],
                output_names=list(output_names),
                dynamic_shapes=({place: torch.export.Dim(n) for place, n in dynamic.items()},),
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            if _was_interrupted(error):
                raise KeyboardInterrupt from None
            cause = error.__cause__ or error
            reason = " ".join(str(cause).split("\n")[0].split())
            raise RunFailed(f"this model cannot be written as ONNX: {reason}") from error
    assert program is not None
    return without_traces(program.model)


def without_traces(model: Any) -> Any:
    """The model of `onnx_ir`, without the calls and paths of the machine that made it."""
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
    model.producer_name, model.producer_version = "tadam", __version__
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter misses torchvision and more that we do not."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
