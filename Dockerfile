# The platform itself (web UI, daemon, runs). Tasks are built elsewhere, by the host's engine.
FROM python:3.11-slim-bookworm
WORKDIR /opt/facet
COPY requirements.lock ./
RUN pip install --no-cache-dir -r requirements.lock
COPY . .
RUN pip install --no-cache-dir --no-deps -e .
CMD ["facet", "ui"]
