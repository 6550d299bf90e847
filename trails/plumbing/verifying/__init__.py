"""Whether what is stored is whole and was not altered: the whole store (`audit`), and each session (`checking`)."""
