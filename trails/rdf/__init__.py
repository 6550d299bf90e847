"""How each kind of value is kept: between frozen values and quads, both ways. Pure."""
