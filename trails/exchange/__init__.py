"""Import and export sessions of other systems."""
