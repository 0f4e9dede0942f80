"""Labels of everything we make on the engine: the owning process, one sandbox of it, and what it was made for."""

OWNER = "facet.owner"
RUN = "facet.run"
SUBJECT = "facet.subject"
