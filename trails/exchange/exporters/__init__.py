"""Sessions and their forks in the forms that other programs take, each a writer over one reading of the family."""
