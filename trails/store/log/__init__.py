"""The log of a store: records of commits, decided and kept in SQL."""
