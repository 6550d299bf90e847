"""The published ontology, and what makes its shapes and its page."""
