"""W3C PROV: statements, their readers and writers, and whether they are valid.

>>> from trails.prov import validate
>>> text = b"document prefix ex <http://example.org/> specializationOf(ex:a, ex:a) endDocument"
>>> [finding.name for finding in validate(text, format="provn").findings]
['impossible-specialization-reflexive']
"""

from trails.prov.constraints import Validation
from trails.prov.exporting import draw, export
from trails.prov.findings import Finding
from trails.prov.importing import delete_document, document_bytes, documents, import_document, read_document
from trails.prov.statements import Bundle, Document, Statement, Value
from trails.prov.timing import Timing
from trails.prov.validating import validate
from trails.records.documents import ImportedDocument

__all__ = [
    "Bundle",
    "Document",
    "Finding",
    "ImportedDocument",
    "Statement",
    "Timing",
    "Validation",
    "Value",
    "delete_document",
    "document_bytes",
    "documents",
    "draw",
    "export",
    "import_document",
    "read_document",
    "validate",
]
