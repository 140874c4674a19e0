# The gateway alone: no compiler, no pip, no shell script, no writable file. Runs with --read-only and without capabilities.
# The base is named by tag, since a digest belongs to the registry you pull from; pin yours with
#   docker build --build-arg BASE=python:3.14-slim-bookworm@sha256:… .
ARG BASE=python:3.14-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv --without-pip /opt/vllm-gateway \
 && pip --python /opt/vllm-gateway/bin/python install --require-hashes --no-deps --only-binary :all: -r requirements.lock \
 && pip install --require-hashes --no-deps --only-binary :all: -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway ./gateway
RUN pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /wheels . \
 && pip --python /opt/vllm-gateway/bin/python install --no-deps --no-index /wheels/*.whl

FROM ${BASE}
RUN rm -rf /usr/local/bin/pip* /usr/local/bin/idle* /usr/local/lib/python3.*/ensurepip /usr/local/lib/python3.*/site-packages/*
COPY --from=build /opt/vllm-gateway /opt/vllm-gateway
ENV PATH=/opt/vllm-gateway/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /etc/vllm-gateway
USER 10001:10001
STOPSIGNAL SIGTERM
# The ops listener must be GATEWAY_LISTENERS__OPS=127.0.0.1:9090 for this check.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 9090, timeout=2); c.request('GET', '/livez'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["vllm-gateway"]
CMD ["serve"]
