"""The published vocabulary: the terms of `trails.ttl` as values, the page about them, and the shapes made from them."""
