"""Transcripts of other systems, in and out: one file a format, one merge for all."""
