"""W3C PROV: export, import and validate provenance.

>>> from trails.provenance import validate
>>> text = b"document prefix ex <http://example.org/> specializationOf(ex:a, ex:a) endDocument"
>>> [finding.name for finding in validate(text, format="provn").findings]
['impossible-specialization-reflexive']
"""

from trails.provenance.constraints import Timing, Validation, validate
from trails.provenance.document_import import delete_document, document_bytes, documents, import_document, read_document
from trails.provenance.session_export import draw, export
from trails.provenance.statements import Bundle, Document, Statement, Value
from trails.provenance.uniqueness import Finding
from trails.rdf.activity_records import ImportedDocument
from trails.suggestions import check_functions

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

check_functions(globals())
