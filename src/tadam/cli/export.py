"""`tadam export`: a classifier as one ONNX file that runs without us."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tadam.cli.files import check_inputs, check_outputs
from tadam.cli.options import Force, Json
from tadam.reports.terminal import err, out, print_json
from tadam.system.untrusted_text import printable


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.tadam", help="What 'tadam fit' wrote.")],
    onnx_file: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.onnx", help="The file to write.")
    ],
    force: Force = False,
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Compare its speed with PyTorch's.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a classifier as ONNX: images in, probabilities out, checked against PyTorch."""
    check_inputs([file])
    check_outputs([onnx_file], force, classifier=file)

    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.export import check_installed

    check_installed()
    classifier = FewShotClassifier.load(file)
    with err.status("writing and checking"):
        result = classifier.export(onnx_file)
    speeds = None
    if benchmark:
        from tadam.benchmarks.exported import compare_speed

        with err.status("measuring"):
            speeds = compare_speed(onnx_file, classifier.predictor_)
    if as_json:
        found = {**asdict(result), "file": str(result.file)}
        print_json({**found, "benchmark": asdict(speeds)} if speeds else found)
        return
    out.print(
        f"written: {printable(result.file)} ({result.bytes / 1e6:.1f} MB, {result.classes} "
        f"classes; onnxruntime's probabilities are PyTorch's to {result.difference:.0e})",
        soft_wrap=True,
    )
    if speeds:
        out.print(
            f"images per second: onnxruntime {speeds.onnxruntime:.0f}, PyTorch "
            f"{speeds.pytorch:.0f}: onnxruntime is {speeds.ratio:.2f} times as fast "
            f"({speeds.batch} images of {speeds.side} x {speeds.side} at once, "
            f"threads: {speeds.threads})",
            soft_wrap=True,
        )
