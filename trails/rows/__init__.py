"""The rows of a store in SQL: sessions, turns, calls and texts, made from each commit's quads.

row_codec     between the quads of a turn or a session and its row
row_schema    the tables, and the functions that SQL calls
row_writer    brings the change of a commit into the rows
row_reader    transcripts, lists and sums out of the rows
text_index    finds turns by text
"""
