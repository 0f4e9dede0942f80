# The platform itself: web UI, daemon, code server, runs. Tasks are built elsewhere, by an engine. docs/deployment.md
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
# git: repositories as sources of skills
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/facet
COPY pyproject.toml requirements.lock ./
# Torch without the libraries of a GPU, from its own index, or from wheels that were put into deploy/wheels.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# The lock names tools of the tests as well: it only says which version of what the platform needs.
RUN --mount=type=bind,source=deploy/wheels,target=/wheels \
    --mount=type=cache,target=/root/.cache/pip \
    python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
      > /tmp/dependencies && \
    pip install --no-compile --find-links /wheels ${TORCH_INDEX:+--extra-index-url ${TORCH_INDEX}} \
      --constraint requirements.lock --requirement /tmp/dependencies && rm /tmp/dependencies
COPY README.md LICENSE dagster.yaml workspace.yaml ./
COPY deploy/*.yaml deploy/
COPY deploy/k8s/dagster.yaml deploy/k8s/
COPY examples examples/
COPY facet_dagster facet_dagster/
COPY facet_harbor facet_harbor/
COPY facet_trainer facet_trainer/
COPY assets assets/
COPY resources resources/
COPY sensors sensors/
RUN --mount=type=cache,target=/root/.cache/pip pip install --no-deps --editable .
# An ordinary user. Volumes take the owner of the folder that they cover.
RUN useradd --uid 10001 --create-home facet && install -d -o facet -g facet /data /tmp/facet-slots
USER facet
ENV FACET_HOME=/data PYTHONDONTWRITEBYTECODE=1
# Gives what it starts the environment of Dagster's processes, with passwords from files.
ENTRYPOINT ["python3", "-m", "facet_dagster.within"]
CMD ["facet", "ui"]
