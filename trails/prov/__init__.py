"""W3C PROV: statements, their readers and writers, and whether they are valid.

>>> from trails.prov import validate
>>> text = b"document prefix ex <http://example.org/> specializationOf(ex:a, ex:a) endDocument"
>>> [finding.name for finding in validate(text, format="provn").findings]
['impossible-specialization-reflexive']
"""

from trails.prov.constraints import Validation
from trails.prov.exporting import draw, export
from trails.prov.findings import Finding
from trails.prov.statements import Bundle, Document, Statement, Value
from trails.prov.timing import Timing
from trails.prov.validating import validate

__all__ = ["Bundle", "Document", "Finding", "Statement", "Timing", "Validation", "Value", "draw", "export", "validate"]
