"""Validate a folder as an RO-Crate: `python validate_crate.py FOLDER PROFILE...`.

The interpreter has roc-validator and rocrate. Nothing is fetched: the context is that of rocrate, for RO-Crate 1.3.
The terms that we use mean the same in 1.1 and 1.2, but for the types of Bioschemas, which 1.3 has in a folder of their own.
It prints JSON: of each profile the issues of level REQUIRED, and what the package rocrate reads of the crate.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import requests
import rocrate
from rocrate.rocrate import ROCrate
from rocrate_validator import models, services
from rocrate_validator.utils.document_loader import install_document_loader

_CONTEXT = (Path(rocrate.__file__).with_name("data") / "ro-crate.jsonld").read_bytes()
_CONTEXT_1_2 = _CONTEXT.replace(b'"https://bioschemas.org/terms/', b'"https://bioschemas.org/')


class _Canned(requests.adapters.BaseAdapter):
    """What answers in the place of the network."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        known = str(request.url).startswith("https://w3id.org/ro/crate/1.")
        response = requests.Response()
        response.request, response.url, response.status_code = request, str(request.url), 200 if known else 404
        response.headers["Content-Type"] = "application/ld+json"
        response.raw = io.BytesIO(_CONTEXT_1_2 if known else b"")
        return response

    def close(self) -> None:
        pass


def main(folder: str, profiles: list[str]) -> dict[str, Any]:
    requests.Session.get_adapter = lambda *_, **__: _Canned()  # type: ignore[method-assign] # no network
    install_document_loader()
    issues = {}
    for profile in profiles:
        level = models.Severity.REQUIRED
        settings = services.ValidationSettings(
            rocrate_uri=folder, profile_identifier=profile, requirement_severity=level, no_cache=True
        )
        result = services.validate(settings)
        issues[profile] = [
            f"{each.check.identifier} {each.violatingEntity}: {each.message}" for each in result.get_issues()
        ]
    crate = ROCrate(folder)
    actions = crate.get_by_type("CreateAction")
    return {"issues": issues, "actions": sorted(each.id for each in actions), "files": len(crate.data_entities)}


if __name__ == "__main__":
    json.dump(main(sys.argv[1], sys.argv[2:]), sys.stdout)
