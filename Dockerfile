# The platform itself (web UI, daemon, runs). Tasks are built elsewhere, by the host's engine.
FROM python:3.11-slim-bookworm
# git: repositories as sources of skills
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/facet
COPY requirements.lock ./
RUN pip install --no-cache-dir -r requirements.lock
COPY . .
RUN pip install --no-cache-dir --no-deps -e .
CMD ["facet", "ui"]
