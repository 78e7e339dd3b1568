"""Names of the measurements, and their targets at each width, for 32x32 images on two cores."""

FORWARD = "forward / GEMM rate"
FORWARD_BACKWARD = "forward + backward / GEMM rate"
STEP_NATIVE = "step vs naive, native core"
STEP_PLAIN = "step vs naive, plain PyTorch"
DATA = "data + augmentation / step"
EVALUATION_PLAIN = "evaluation vs naive, no TEN"
EVALUATION_CONDITIONED = "evaluation vs naive, TEN"
INFERENCE = "inference vs onnxruntime"
PREDICTION = "prediction vs one by one"
FIT = "fit / pass over its images"
STEP_SHARE = "step / GEMM rate"
MEMORY = "peak memory of training"
PHOTOS_LOOP = "photos to CSV vs an onnxruntime loop"
PHOTOS_READING = "reading photos vs reading and classifying them"
PHOTOS_BUSY = "photos to CSV beside a busy process vs alone"
METHOD_STEP = "a method's step vs task after task"
IMPORT = "import of tadam's classifier, beyond torch"
HELP = "tadam --help"

SERVE_RATE = "requests per second vs a bare handler"
SERVE_P99 = "p99 of a request vs a bare handler"
SERVE_MEMORY = "memory after many requests vs before"

#: The measurements shown as percentages; the others are speed ratios.
SHARES = (FORWARD, FORWARD_BACKWARD, DATA, STEP_SHARE)

#: Minimum at each width, by name; for shares of time and for fit, the maximum.
TARGETS: dict[str, dict[int, float]] = {
    FORWARD: {16: 0.7, 32: 1.3, 64: 1.7},
    FORWARD_BACKWARD: {16: 0.7, 32: 1.3, 64: 1.7},
    STEP_NATIVE: {16: 2.0, 32: 2.2, 64: 2.5},
    STEP_PLAIN: {16: 1.0, 32: 1.0, 64: 1.0},
    DATA: {16: 0.03, 32: 0.01, 64: 0.01},
    EVALUATION_PLAIN: {16: 5.0, 32: 5.0, 64: 5.0},
    EVALUATION_CONDITIONED: {16: 1.6, 32: 1.6, 64: 1.6},
    INFERENCE: {16: 1.0, 32: 1.3, 64: 1.6},
    PREDICTION: {16: 3.0, 32: 3.0, 64: 3.0},
    FIT: {16: 3.0, 32: 3.0, 64: 3.0},
}

#: Most gigabytes a step may need, by setting.
MEMORY_TARGETS = {"width 64, 84x84": 6.0}

#: Least acceptable speed with photos; with one more busy process than cores, half is its share.
PHOTOS_TARGETS = {PHOTOS_LOOP: 1.0, PHOTOS_READING: 1.5, PHOTOS_BUSY: 0.5}

#: Of the HTTP service by name and setting: least ratio, or the most where lower is better.
SERVE_TARGETS = {
    (SERVE_RATE, "64 clients"): 1.5,
    (SERVE_P99, "64 clients"): 1.0,
    (SERVE_MEMORY, "20000 requests"): 1.1,
}

#: How many times as fast as task after task a method's step should be.
METHOD_TARGET = 2.0

#: Longest acceptable wait, in seconds.
STARTUP_TARGETS = {IMPORT: 0.2, HELP: 1.0}

#: Longer-term goals.
AIMS = {
    FORWARD: 2.0,
    FORWARD_BACKWARD: 2.0,
    STEP_NATIVE: 3.0,
    EVALUATION_PLAIN: 10.0,
    EVALUATION_CONDITIONED: 3.0,
    INFERENCE: 2.0,
}
