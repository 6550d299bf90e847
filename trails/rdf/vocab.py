"""The RDF terms that Trails writes, as pyoxigraph nodes. `ontology/trails.ttl` defines each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from pyoxigraph import DefaultGraph, Literal, NamedNode

TRAILS: Final = "https://w3id.org/trails#"
PROV: Final = "http://www.w3.org/ns/prov#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
XSD: Final = "http://www.w3.org/2001/XMLSchema#"

PREFIXES: Final = {"trails": TRAILS, "prov": PROV, "rdf": RDF, "rdfs": RDFS, "xsd": XSD}
"""The prefixes that every query may use without declaring them."""

CATALOG: Final = DefaultGraph()
"""The catalog: sessions, lineage, principals, labels and tombstones stand in the default graph; turns in one graph a session."""


def _terms(namespace: str) -> Callable[[str], Iterator[NamedNode]]:
    return lambda names: (NamedNode(namespace + name) for name in names.split())


_trails, _prov, _rdf, _xsd = map(_terms, (TRAILS, PROV, RDF, XSD))

(TYPE,) = _rdf("type")

# classes
SESSION, TURN, SUMMARY_TURN, COMPACTION, MODEL_CALL = _trails("Session Turn SummaryTurn Compaction ModelCall")
TOOL_CALL, TOOL_RESULT, SYSTEM_PROMPT, TOMBSTONE = _trails("ToolCall ToolResult SystemPrompt Tombstone")
DELETION, TAG, NOTE, SCORE, PRINCIPAL, AGENT, LEDGER = _trails("Deletion Tag Note Score Principal Agent Ledger")
EVENT, EXCHANGE, DELIVERY, TASK_BRIEF, CONTEXT_SUMMARY = _trails("Event Exchange Delivery TaskBrief ContextSummary")
TRANSITION, CANCELLATION, SESSION_RESULT, ARTIFACT = _trails("Transition Cancellation SessionResult Artifact")
CONVERSATION, ALIAS, MOVE, DECISION, READING, RERUNNING = _trails("Conversation Alias Move Decision Reading Rerunning")
IMPORT, SOURCE_FILE, TOOL = _trails("Import SourceFile Tool")
ENTITY, ACTIVITY = _prov("Entity Activity")

# a turn
INDEX, ROLE, BRANCH = _trails("index role branch")
VALUE, TIME, ATTRIBUTED_TO, GENERATED_BY = _prov("value generatedAtTime wasAttributedTo wasGeneratedBy")
DIGEST, SALT, LEAF_SALT, ROW_SALT, FORK_DIGEST, TASK_SALT = _trails("digest salt leafSalt rowSalt forkDigest taskSalt")
TASK_DIGEST, SOURCE_ID, META = _trails("taskDigest sourceId meta")
ALTERNATE_OF, DERIVED_FROM = _prov("alternateOf wasDerivedFrom")

(QUOTED_FROM,) = _prov("wasQuotedFrom")
QUOTED_DIGEST, RESULT_DIGEST = _trails("quotedDigest resultDigest")

# what a summary turn stands for
SUMMARISED_THROUGH, FIRST_KEPT, TOKENS_BEFORE = _trails("summarisedThrough firstKept tokensBefore")
TOKENS_AFTER, TRIGGER, SUMMARISED_FROM, SUMMARISED_TURNS = _trails("tokensAfter trigger summarisedFrom summarisedTurns")

# how it was made
REQUEST, MAX_SUMMARY_TOKENS, MAX_SUMMARY_RULE = _trails("request maxSummaryTokens maxSummaryRule")
(DURATION_MS,) = _trails("durationMs")
(USED,) = _prov("used")

# the activities around a turn
MODEL, USAGE, INPUT_TOKENS, OUTPUT_TOKENS = _trails("model usage inputTokens outputTokens")
CACHE_READ_TOKENS, CACHE_WRITE_TOKENS = _trails("cacheReadTokens cacheWriteTokens")
CACHE_WRITE_HOUR_TOKENS, REASONING_TOKENS, TOTAL_TOKENS = _trails("cacheWriteHourTokens reasoningTokens totalTokens")
COST, STOP_REASON, CALL_ID, TOOL_NAME, ARGUMENTS = _trails("cost stopReason callId toolName arguments")
(STARTED_BY,) = _prov("wasStartedBy")
TOOL_RESULT_OF, HAS_RESULT, IS_ERROR = _trails("answers toolResult isError")

# the payloads of a turn, and their bytes
PAYLOAD, PAYLOAD_REFERENCE = _trails("Payload PayloadReference")
HAS_PAYLOAD, PAYLOAD_OF, PAYLOAD_NAME = _trails("payload payloadBytes payloadName")
MEDIA_TYPE, BYTE_COUNT, BYTES_PART, PAYLOAD_DIGEST = _trails("mediaType byteCount bytesPart payloadDigest")
(CONTENT_DIGEST,) = _trails("contentDigest")

# what is told of the model call that generated a turn
PROVIDER, USED_PROMPT, CONTEXT_THROUGH, SUMMARY_SHOWN = _trails("provider usedPrompt contextThrough contextSummary")
(LEFT_OUT,) = _trails("leftOut")

# what is told of the tool calls that a turn answers, and of the tools
TOOL_STARTED_AT, TOOL_ENDED_AT, TOOL_OUTCOME, APPROVED_BY = _trails("toolStartedAt toolEndedAt toolOutcome approvedBy")
REFUSED_BY, TOOL_USED, TOOL_SERVER, TOOL_VERSION = _trails("refusedBy tool toolServer toolVersion")

# what a copied turn keeps of the activities of the turn that it repeats: no activity happened again
MODEL_CALL_COPY, TOOL_CALL_COPY, COMPACTION_COPY = _trails("ModelCallCopy ToolCallCopy CompactionCopy")
KEPT_WITH, KEPT_START, KEPT_END, KEPT_PROMPT = _trails("keptWith keptStart keptEnd keptPrompt")
ANSWERS_COPY, PREVIOUS_SUMMARY, CALL_DIGEST, CALLED_IN = _trails("answersCopy previousSummary callDigest calledIn")
(CALLED_FOR,) = _trails("calledFor")

# what follows of the order of turns, of the context of a model's call and of runs; none is stored
PREVIOUS_TURN, CONTEXT_END, IN_RUN = _trails("previousTurn contextEnd inRun")

# what was done to a session, and by whom
FORKED_BY, COPYING, ALTERATION, ALTERED_FIELD, OLD_VALUE = _trails("forkedBy Copying Alteration alteredField oldValue")
NEW_VALUE, DONE_TO, WAS_FORK_OF, WAS_FORKED_AT = _trails("newValue doneTo wasForkOf wasForkedAt")

# a rerun
RERUN_OUTCOME, AGREED_TURNS, LEFT_RECORD_AT = _trails("rerunOutcome agreedTurns leftRecordAt")
PLAYED_ANSWERS, LIVE_ANSWERS = _trails("playedAnswers liveAnswers")

# what was read of a session, and for whom
READ_FROM, READ_THROUGH, READ_FOR = _trails("readFrom readThrough readFor")

# that a session, or more of one, came in from a file
IMPORTER, IMPORTER_VERSION, ORIGIN, REFUSED_LINES = _trails("importer importerVersion originProof refusedLines")

# what principals signed
HEAD_SIGNATURE, SIGNATURE_OF, SIGNED_INDEX, SIGNED_HEAD = _trails("HeadSignature signatureOf signedIndex signedHead")
SIGNER_KEY, SIGNATURE = _trails("signerKey signature")

# a session's row
PARENT_SESSION, FORKED_AT_INDEX, FORK_HEAD, SPAWNED_BY = _trails("parentSession forkedAtIndex forkHead spawnedBy")
PARENT_SESSION_ID, FORKED_AT_INDEX_WORD = _trails(
    "parent_session_id forked_at_index"
)  # the same in words of Python: derived
SESSION_AGENT, KIND, STATE, LABEL, KEY, SYSTEM_VERSION = _trails("agent kind state label key systemVersion")
SOURCE_SESSION, SLOT, TIER, EXPIRES_AT, ENDS_BY = _trails("sourceSession slot tier expiresAt endsBy")
REQUEST_KEY, REQUEST_DIGEST, ENCRYPTION = _trails("requestKey requestDigest encryption")

# a version of a system prompt
PROMPT_OF, VERSION, EFFECTIVE_FROM = _trails("promptOf version effectiveFrom")

# what is left of a deleted session
DELETED_AT, INVALIDATED_BY, ASSOCIATED_WITH = _prov("invalidatedAtTime wasInvalidatedBy wasAssociatedWith")
(ENDED_AT,) = _prov("endedAtTime")
DELETED_TURNS, DELETED_HEAD, DELETED_AT_LOG_SIZE = _trails("deletedTurns deletedHead deletedAtLogSize")
DELETED_AT_ROOT, PENDING_SWEEP, PENDING_KEY = _trails("deletedAtRoot pendingSweep pendingKey")
PENDING: Final = frozenset({PENDING_SWEEP, PENDING_KEY})
"""What says that a deletion is not finished: its turns are still to be removed, or its key to be destroyed."""

# a session into which turns are being copied: a fork that is being detached, or an id for which a copy is being made
(UNFINISHED_COPY,) = _trails("UnfinishedCopy")

# what says of a redacted turn who took its content out
DELETED_TURN, REASON, FACTS_DIGEST, STANDS_AS = _trails("deletedTurn reason factsDigest standsAs")
REDACTED_FROM, REDACTED_PLACE, REDACTED_PART = _trails("redactedFrom redactedPlace redactedPart")

# tags and notes: they name a session, an index and a digest, never a turn's IRI
TAG_OF, TAG_NAME, TAG_LENGTH, NOTE_ON, NOTE_INDEX = _trails("tagOf tagName tagLength noteOn noteIndex")
REF, REF_MOVE, MOVE_OF, MOVED_TO, REF_ID, REF_MOVES, MOVES_DIGEST = _trails(
    "Ref RefMove moveOf movedTo refId refMoves movesDigest"
)
NAMED_DIGEST, REMOVED_FROM, REMOVED_TAG, REMOVED_NOTE = _trails("namedDigest removedFrom removedTag removedNote")

# scores: they name a session, the turns that were scored and the last one's digest
SCORED, SCORED_FROM, SCORED_UP_TO, SCORE_NAME = _trails("scored scoredFrom scoredUpTo scoreName")
SCORE_VALUE, SCORER_VERSION, REMOVED_SCORE = _trails("scoreValue scorerVersion removedScore")

# a session's ledger: what happens around its turns
LEDGER_OF, NUMBER, DIRECTION, SOURCE, EVENT_ID, CHANNEL = _trails("ledgerOf number direction source eventId channel")
ACCOUNT, PEER, QUEUE_MODE, RECEIVED_AT, WAITING = _trails("account peer queueMode receivedAt waiting")
RECORDED_AS, QUEUED_AT = _trails("recordedAs queuedAt")
STARTED_AT, GENERATED = _prov("startedAtTime generated")
HEAD_BEFORE, HEAD_AFTER, ERROR, RETRY_OF, KEPT_AS = _trails("headBefore headAfter error retryOf keptAs")
DELIVERY_OF, OUTCOME, ATTEMPT = _trails("deliveryOf outcome attempt")

# in the ledger of a session of the session tree
FROM_STATE, TO_STATE, STATUS, MEMORY_ID, ARTIFACT_OF, URI = _trails("fromState toState status memoryId artifactOf uri")
ARTIFACT_CHANGE, SHA256 = _trails("artifactChange sha256")

# session keys: conversations, aliases, moves of sessions between them; decisions of policies
(SPECIALIZATION_OF,) = _prov("specializationOf")
CURRENT_SESSION, ALIAS_OF, ALIAS_KEY, REMOVED_ALIAS = _trails("currentSession aliasOf aliasKey removedAlias")
ALIAS_WAS_OF, MOVED_SESSION, FROM_KEY, TO_KEY, WAS_CURRENT = _trails("aliasWasOf movedSession fromKey toKey wasCurrent")
BECAME_CURRENT, FORMER_LABEL, UNDOES, ACTION, ALLOWED = _trails("becameCurrent formerLabel undoes action allowed")
(RULE,) = _trails("rule")

# the entry of a session with a key: by the name that each field has in OpenClaw's SessionEntry
(LAST_USER_ACTIVITY,) = _trails("lastUserActivity")
_ENTRY_FIELDS: Final = """
    lastHeartbeatText lastHeartbeatSentAt updatedAt sessionFile spawnedBy systemSent abortedLastRun chatType
    thinkingLevel verboseLevel reasoningLevel elevatedLevel ttsAuto execHost execSecurity execAsk execNode
    responseUsage providerOverride modelOverride authProfileOverride authProfileOverrideSource
    authProfileOverrideCompactionCount groupActivation groupActivationNeedsSystemIntro sendPolicy queueMode
    queueDebounceMs queueCap queueDrop inputTokens outputTokens totalTokens modelProvider model contextTokens
    compactionCount memoryFlushAt memoryFlushCompactionCount cliSessionIds claudeCliSessionId displayName channel
    groupId subject groupChannel space origin deliveryContext lastChannel lastTo lastAccountId lastThreadId
    skillsSnapshot systemPromptReport
"""
_RENAMED_FIELDS: Final = {
    "spawnedBy": "spawnedByKey",
    "queueMode": "sessionQueueMode",
    "inputTokens": "sessionInputTokens",
    "outputTokens": "sessionOutputTokens",
    "totalTokens": "sessionTotalTokens",
    "model": "sessionModel",
    "channel": "sessionChannel",
}
ENTRY_FIELDS: Final = {name: NamedNode(TRAILS + _RENAMED_FIELDS.get(name, name)) for name in _ENTRY_FIELDS.split()}

# a run of a sub-agent
RUN, RUN_ID, CHILD_KEY, REQUESTER_KEY = _trails("Run runId childKey requesterKey")
REQUESTER_DISPLAY_KEY, REQUESTER_CHANNEL = _trails("requesterDisplayKey requesterChannel")
REQUESTER_RECIPIENT, REQUESTER_ACCOUNT = _trails("requesterRecipient requesterAccount")
REQUESTER_THREAD, TASK, RUN_LABEL, RUN_MODEL = _trails("requesterThread task runLabel runModel")
RUN_THINKING, RUN_TIMEOUT, REGISTERED_AT, ARCHIVE_AT = _trails("runThinking runTimeoutSeconds registeredAt archiveAt")
RUN_OUTCOME, RUN_ERROR, RUN_EXTRA, REVISION, CLEANUP = _trails("runOutcome runError runExtra revision cleanup")
CLEANUP_HANDLED, CLEANUP_COMPLETED_AT, ANNOUNCED_AS = _trails("cleanupHandled cleanupCompletedAt announcedAs")
ANNOUNCED_HOW, KEPT_BECAUSE, REMOVED_RUN = _trails("announcedHow keptBecause removedRun")

# a PROV document that was brought in
PROV_DOCUMENT, FILE_NAME, FILE_SIZE, FILE_PART = _trails("ProvDocument fileName fileSize filePart")
PROV_FORMAT, STATEMENT_COUNT, IS_VALID, BROKEN_RULE = _trails("provFormat statementCount isValid brokenRule")
(REMOVED_DOCUMENT,) = _trails("removedDocument")

# the registers of a store
INCIDENT, CLOSING = _trails("Incident Closing")
HOLD, RETENTION_RULE = _trails("Hold RetentionRule")
HELD_SESSION, HELD_UNTIL, KEPT_FOR = _trails("heldSession heldUntil keptFor")
OF_PRINCIPAL, OF_LABEL, OF_META, OF_QUERY, OF_KIND = _trails("ofPrincipal ofLabel ofMeta ofQuery ofKind")
INCIDENT_IN, INCIDENT_KIND, AWARE_AT, DUE_BY, CLOSES = _trails("incidentIn incidentKind awareAt dueBy closes")
RECORD_READING, THROUGH, QUERY_NAME, QUERY_DIGEST, READ_COUNT = _trails(
    "RecordReading through queryName queryDigest readCount"
)
BACKUP, BACKUP_PLACE, HELD_ERASURE, HELD_BY, ERASURE = _trails("Backup backupPlace HeldErasure heldBy erasure")
EXPORT, EXPORT_FORMAT, EXPORTED_HEAD, AT_LOG_SIZE, AT_LOG_HEAD, DISCLOSED_TO = _trails(
    "Export exportFormat exportedHead atLogSize atLogHead disclosedTo"
)
PROCESSING_PURPOSE, PURPOSE_OF, PURPOSE, LEGAL_BASIS = _trails("ProcessingPurpose purposeOf purpose legalBasis")

# what a statement of a PROV export rests on
EVIDENCE, EVIDENCE_SOURCE, EVIDENCE_FILE, EVIDENCE_RULE = _trails("evidence evidenceSource evidenceFile evidenceRule")

# datatypes
(REDACTED,) = _trails("Redacted")
(JSON,) = _rdf("JSON")
STRING, INTEGER, DECIMAL, DOUBLE, BOOLEAN, DATE_TIME = _xsd("string integer decimal double boolean dateTime")


def integer(number: int) -> Literal:
    """Return a whole number as a literal.

    Not by `Literal(number)`: the engine (0.5.13) has Python write the number, and where Ctrl-C comes at that moment, it
    swallows that and goes on with "<unprintable int object>" as the literal's text.
    """
    return Literal(str(number), datatype=INTEGER)
