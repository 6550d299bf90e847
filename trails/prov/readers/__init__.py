"""PROV documents as statements: a reader a format, and none that fetches anything or grows without a bound."""
