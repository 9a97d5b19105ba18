# The page on port 7860, by the built-in model on a CPU, or by LLaVA-1.5-7B where a GPU is passed in:
#   docker build -t spare-demo .
#   docker run -p 7860:7860 -v spare-cache:/home/user/.cache/huggingface spare-demo
# with a GPU, whose PyTorch is gigabytes larger:
#   docker build -t spare-demo-gpu --build-arg TORCH=cu130 .
#   docker run --gpus all -p 7860:7860 -v spare-cache:/home/user/.cache/huggingface spare-demo-gpu
FROM python:3.11-slim

# Which PyTorch: cpu, or the CUDA that the driver has (cu130, cu126).
ARG TORCH=cpu

# Triton builds what starts the fused selection with a C compiler, on the machine with the GPU.
RUN if [ "$TORCH" != cpu ]; then \
        apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
        && rm -rf /var/lib/apt/lists/*; \
    fi

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
# PyTorch from its own index, which has the CPU's wheels; then all else, which finds it there.
RUN grep -E '^torch(vision)?[<>=]' requirements.txt > /tmp/torch.txt \
    && pip install --no-cache-dir --user -r /tmp/torch.txt \
        --index-url "https://download.pytorch.org/whl/$TORCH" \
    && pip install --no-cache-dir --user -r requirements.txt

COPY --chown=user app.py README.md LICENSE ./
COPY --chown=user assets ./assets
COPY --chown=user spare_demo ./spare_demo

# Downloaded weights stay outside the image. Made here, so that the volume belongs to the user; a
# folder of the host in its place must belong to number 1000: docs/GUIDE.md says how.
RUN mkdir -p "$HF_HOME" "$GRADIO_TEMP_DIR"
VOLUME /home/user/.cache/huggingface

EXPOSE 7860
# The first start may download weights; until the page is served, a failure counts for nothing.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30m CMD python -c \
    "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['SPARE_PORT'] + '/health', timeout=4)"
CMD ["python", "app.py"]
