"""facet-dagster: public agent skills in, execution-validated terminal tasks out."""

__version__ = "0.1.0"
