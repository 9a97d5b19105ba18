# The page on port 7860, by the built-in model on a CPU, or by LLaVA-1.5-7B where a GPU is passed in:
#   docker build -t spare-demo .
#   docker run -p 7860:7860 -v spare-cache:/home/user/.cache/huggingface spare-demo
# with a GPU: docker run --gpus all …
FROM python:3.11-slim

# Triton builds what starts the fused selection with a C compiler, on the machine with the GPU.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 user
USER user
WORKDIR /home/user/app

ENV HOME=/home/user \
    PATH=/home/user/.local/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HOME=/home/user/.cache/huggingface \
    GRADIO_TEMP_DIR=/home/user/.cache/gradio \
    GRADIO_ANALYTICS_ENABLED=False \
    SPARE_HOST=0.0.0.0 \
    SPARE_PORT=7860

COPY --chown=user requirements.txt ./
RUN pip install --no-cache-dir --user -r requirements.txt

COPY --chown=user app.py README.md LICENSE ./
COPY --chown=user assets ./assets
COPY --chown=user spare_demo ./spare_demo

# Downloaded weights stay outside the image. Made here, so that the volume belongs to the user.
RUN mkdir -p "$HF_HOME" "$GRADIO_TEMP_DIR"
VOLUME /home/user/.cache/huggingface

EXPOSE 7860
# The first start may download weights; until the page is served, a failure counts for nothing.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30m CMD python -c \
    "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['SPARE_PORT'] + '/health', timeout=4)"
CMD ["python", "app.py"]
