"""Sessions and whole stores from one place to another: pushed, pulled, copied."""
