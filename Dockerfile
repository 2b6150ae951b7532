# Not yet run as a whole: there was no Docker daemon where it was written.  Its commands were run by hand, in a fresh
# virtual environment, as a user other than root and as process 1 (docs/running.md).
#
#   docker build -t cede .
#   docker run --rm -p 127.0.0.1:8000:8000 cede                              the embedded model
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/model:/model:ro" cede /model --slots 2

FROM python:3.11-slim AS build
# For the kernels; without a compiler they are left out.
RUN apt-get update && apt-get install -y --no-install-recommends g++
RUN python -m venv /opt/cede
# Before cede asks for torch: PyPI's build for Linux brings three gigabytes of CUDA libraries.
RUN /opt/cede/bin/pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY runtime runtime
COPY actors actors
COPY web web
COPY bench bench
RUN /opt/cede/bin/pip install --no-cache-dir .

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 cede
COPY --from=build /opt/cede /opt/cede
USER cede
ENV PATH="/opt/cede/bin:$PATH"
EXPOSE 8000
# cede is process 1.  The first SIGTERM lets the running requests finish (--grace, 30 s): give `docker stop --time` more.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5m \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["cede", "serve", "--host", "0.0.0.0"]
