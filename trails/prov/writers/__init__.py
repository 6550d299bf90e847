"""PROV statements as documents: a writer a format, each of which writes a statement at a time and keeps none."""
