"""What one would write in ten minutes: FastAPI, Pillow, one onnxruntime call for each request.

Run as `python -m tadam.benchmarks.bare_server FILE.onnx`; it prints its port.
"""

import io
import json
import socket
import sys
from typing import Annotated, Any

import numpy as np
import uvicorn
from fastapi import FastAPI, File
from PIL import Image


def bare_app(path: str) -> FastAPI:
    """An app with a handler that FastAPI runs in its pool of threads."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    app = FastAPI()

    @app.post("/api/v1/predict")
    def predict(files: Annotated[bytes, File()]) -> dict[str, Any]:
        image = Image.open(io.BytesIO(files)).convert("RGB")
        probabilities, strangeness = session.run(None, {"images": np.asarray(image)[None]})
        return {
            "label": names[int(probabilities[0].argmax())],
            "probabilities": probabilities[0].tolist(),
            "strangeness": float(strangeness[0]),
        }

    return app


def main() -> None:
    """Serves on a free port of this machine."""
    sock = socket.socket(proto=socket.IPPROTO_TCP)  # as uvicorn's own: asyncio turns Nagle off
    sock.bind(("127.0.0.1", 0))
    sock.listen(2048)
    print(f"serving at http://127.0.0.1:{sock.getsockname()[1]}/", flush=True)
    config = uvicorn.Config(bare_app(sys.argv[1]), log_level="warning", access_log=False)
    uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main()
