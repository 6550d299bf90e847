"""Values as text, tables and HTML for people."""
