"""Reading: sessions, statistics, prices, names."""
