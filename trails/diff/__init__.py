"""What differs between two transcripts: alignment, word diffs, patches. Pure functions over turns."""
