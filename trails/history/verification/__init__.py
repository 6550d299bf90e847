"""What verify needs."""
