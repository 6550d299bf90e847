"""Sessions by key: one conversation a key, with its settings, resets and aliases."""
