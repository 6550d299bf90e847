"""The store as it was at an earlier place of its log: which place is meant, and what stood there then."""
