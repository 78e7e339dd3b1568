# tadam's HTTP service on the CPU. Build the wheel first, then the image; of several wheels, pip takes the one that fits;
# with a wheel of another Python: docker build --build-arg PYTHON=3.12 -t tadam .
#   python -m pip wheel --no-deps -w dist . && docker build -t tadam .
# /tmp is in memory here and holds uploads: --tmpfs /tmp:size=3g bounds it, and a volume in its place saves the memory.
#   docker run --read-only --tmpfs /tmp -p 8000:8000 -e TADAM_TOKEN=... -v ./flowers.tadam:/flowers.tadam:ro tadam /flowers.tadam
#   docker run --read-only --tmpfs /tmp -p 8000:8000 -e TADAM_TOKEN=... -v photos:/projects tadam
# tests/dockerfile_steps.py runs the same steps in a fresh environment where there is no Docker.
ARG PYTHON=3.11
FROM python:${PYTHON}-slim

RUN useradd --create-home --uid 10001 tadam && mkdir /projects && chown tadam /projects
COPY constraints.txt dist/*.whl /tmp/wheels/
RUN pip install --no-cache-dir --no-deps --no-index --find-links /tmp/wheels tadam-fewshot \
    && pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
        -c /tmp/wheels/constraints.txt "tadam-fewshot[serve,imagenet,heic,export]" \
    && rm -r /tmp/wheels

USER tadam
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 XDG_CACHE_HOME=/tmp/cache XDG_DATA_HOME=/projects
VOLUME /projects
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/api/v1/health', timeout=4)"]
ENTRYPOINT ["tadam", "serve", "--host", "0.0.0.0"]
CMD ["/projects"]
