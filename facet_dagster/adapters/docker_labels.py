"""Labels of everything we make on the engine: whose it is and what it was made for."""

DEPLOYMENT = "facet.deployment"
OWNER = "facet.owner"  # the process
RUN = "facet.run"  # one sandbox of it
SUBJECT = "facet.subject"  # the seed
ATTEMPT = "facet.attempt"
