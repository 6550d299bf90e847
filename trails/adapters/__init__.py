"""Let agent frameworks keep their sessions in Trails: one module or folder for each framework.

An adapter imports its framework, nothing else in Trails does, and `import trails` loads none of them.
"""
