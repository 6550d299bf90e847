"""The RDF terms that Trails writes, as pyoxigraph nodes. `ontology/trails.ttl` defines each of them."""

from __future__ import annotations

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


def _trails(name: str) -> NamedNode:
    return NamedNode(TRAILS + name)


def _prov(name: str) -> NamedNode:
    return NamedNode(PROV + name)


TYPE: Final = NamedNode(RDF + "type")

# classes
SESSION: Final = _trails("Session")
TURN: Final = _trails("Turn")
SUMMARY_TURN: Final = _trails("SummaryTurn")
COMPACTION: Final = _trails("Compaction")
MODEL_CALL: Final = _trails("ModelCall")
TOOL_CALL: Final = _trails("ToolCall")
TOOL_RESULT: Final = _trails("ToolResult")
SYSTEM_PROMPT: Final = _trails("SystemPrompt")
TOMBSTONE: Final = _trails("Tombstone")
DELETION: Final = _trails("Deletion")
TAG: Final = _trails("Tag")
NOTE: Final = _trails("Note")
SCORE: Final = _trails("Score")
PRINCIPAL: Final = _trails("Principal")
AGENT: Final = _trails("Agent")
LEDGER: Final = _trails("Ledger")
EVENT: Final = _trails("Event")
EXCHANGE: Final = _trails("Exchange")
DELIVERY: Final = _trails("Delivery")
TASK_BRIEF: Final = _trails("TaskBrief")
CONTEXT_SUMMARY: Final = _trails("ContextSummary")
TRANSITION: Final = _trails("Transition")
CANCELLATION: Final = _trails("Cancellation")
SESSION_RESULT: Final = _trails("SessionResult")
ARTIFACT: Final = _trails("Artifact")
CONVERSATION: Final = _trails("Conversation")
ALIAS: Final = _trails("Alias")
MOVE: Final = _trails("Move")
DECISION: Final = _trails("Decision")
READING: Final = _trails("Reading")
RERUNNING: Final = _trails("Rerunning")
IMPORT: Final = _trails("Import")
SOURCE_FILE: Final = _trails("SourceFile")
TOOL: Final = _trails("Tool")
ENTITY: Final = _prov("Entity")
ACTIVITY: Final = _prov("Activity")

# a turn
INDEX: Final = _trails("index")
ROLE: Final = _trails("role")
BRANCH: Final = _trails("branch")
VALUE: Final = _prov("value")
TIME: Final = _prov("generatedAtTime")
ATTRIBUTED_TO: Final = _prov("wasAttributedTo")
GENERATED_BY: Final = _prov("wasGeneratedBy")
DIGEST: Final = _trails("digest")
SALT: Final = _trails("salt")
LEAF_SALT: Final = _trails("leafSalt")
ROW_SALT: Final = _trails("rowSalt")
FORK_DIGEST: Final = _trails("forkDigest")
TASK_SALT: Final = _trails("taskSalt")
TASK_DIGEST: Final = _trails("taskDigest")
SOURCE_ID: Final = _trails("sourceId")
META: Final = _trails("meta")
ALTERNATE_OF: Final = _prov("alternateOf")
DERIVED_FROM: Final = _prov("wasDerivedFrom")

QUOTED_FROM: Final = _prov("wasQuotedFrom")
QUOTED_DIGEST: Final = _trails("quotedDigest")
RESULT_DIGEST: Final = _trails("resultDigest")

# what a summary turn stands for
SUMMARISED_THROUGH: Final = _trails("summarisedThrough")
FIRST_KEPT: Final = _trails("firstKept")
TOKENS_BEFORE: Final = _trails("tokensBefore")
TOKENS_AFTER: Final = _trails("tokensAfter")
TRIGGER: Final = _trails("trigger")
SUMMARISED_FROM: Final = _trails("summarisedFrom")
SUMMARISED_TURNS: Final = _trails("summarisedTurns")

# how it was made
REQUEST: Final = _trails("request")
MAX_SUMMARY_TOKENS: Final = _trails("maxSummaryTokens")
MAX_SUMMARY_RULE: Final = _trails("maxSummaryRule")
DURATION_MS: Final = _trails("durationMs")
USED: Final = _prov("used")

# the activities around a turn
MODEL: Final = _trails("model")
USAGE: Final = _trails("usage")
INPUT_TOKENS: Final = _trails("inputTokens")
OUTPUT_TOKENS: Final = _trails("outputTokens")
CACHE_READ_TOKENS: Final = _trails("cacheReadTokens")
CACHE_WRITE_TOKENS: Final = _trails("cacheWriteTokens")
CACHE_WRITE_HOUR_TOKENS: Final = _trails("cacheWriteHourTokens")
REASONING_TOKENS: Final = _trails("reasoningTokens")
TOTAL_TOKENS: Final = _trails("totalTokens")
COST: Final = _trails("cost")
STOP_REASON: Final = _trails("stopReason")
CALL_ID: Final = _trails("callId")
TOOL_NAME: Final = _trails("toolName")
ARGUMENTS: Final = _trails("arguments")
STARTED_BY: Final = _prov("wasStartedBy")
TOOL_RESULT_OF: Final = _trails("answers")
HAS_RESULT: Final = _trails("toolResult")
IS_ERROR: Final = _trails("isError")

# what is told of the model call that generated a turn
PROVIDER: Final = _trails("provider")
USED_PROMPT: Final = _trails("usedPrompt")
CONTEXT_THROUGH: Final = _trails("contextThrough")
SUMMARY_SHOWN: Final = _trails("contextSummary")
LEFT_OUT: Final = _trails("leftOut")

# what is told of the tool calls that a turn answers, and of the tools
TOOL_STARTED_AT: Final = _trails("toolStartedAt")
TOOL_ENDED_AT: Final = _trails("toolEndedAt")
TOOL_OUTCOME: Final = _trails("toolOutcome")
APPROVED_BY: Final = _trails("approvedBy")
REFUSED_BY: Final = _trails("refusedBy")
TOOL_USED: Final = _trails("tool")
TOOL_SERVER: Final = _trails("toolServer")
TOOL_VERSION: Final = _trails("toolVersion")

# what a copied turn keeps of the activities of the turn that it repeats: no activity happened again
MODEL_CALL_COPY: Final = _trails("ModelCallCopy")
TOOL_CALL_COPY: Final = _trails("ToolCallCopy")
COMPACTION_COPY: Final = _trails("CompactionCopy")
KEPT_WITH: Final = _trails("keptWith")
KEPT_START: Final = _trails("keptStart")
KEPT_END: Final = _trails("keptEnd")
KEPT_PROMPT: Final = _trails("keptPrompt")
ANSWERS_COPY: Final = _trails("answersCopy")
PREVIOUS_SUMMARY: Final = _trails("previousSummary")
CALL_DIGEST: Final = _trails("callDigest")
CALLED_IN: Final = _trails("calledIn")
CALLED_FOR: Final = _trails("calledFor")

# what follows of the order of turns, of the context of a model's call and of runs, by CONSTRUCT; none is stored
PREVIOUS_TURN: Final = _trails("previousTurn")
CONTEXT_END: Final = _trails("contextEnd")
IN_RUN: Final = _trails("inRun")

# what was done to a session, and by whom
FORKED_BY: Final = _trails("forkedBy")
COPYING: Final = _trails("Copying")
ALTERATION: Final = _trails("Alteration")
ALTERED_FIELD: Final = _trails("alteredField")
OLD_VALUE: Final = _trails("oldValue")
NEW_VALUE: Final = _trails("newValue")
DONE_TO: Final = _trails("doneTo")
WAS_FORK_OF: Final = _trails("wasForkOf")
WAS_FORKED_AT: Final = _trails("wasForkedAt")

# a rerun
RERUN_OUTCOME: Final = _trails("rerunOutcome")
AGREED_TURNS: Final = _trails("agreedTurns")
LEFT_RECORD_AT: Final = _trails("leftRecordAt")
PLAYED_ANSWERS: Final = _trails("playedAnswers")
LIVE_ANSWERS: Final = _trails("liveAnswers")

# what was read of a session, and for whom
READ_FROM: Final = _trails("readFrom")
READ_THROUGH: Final = _trails("readThrough")
READ_FOR: Final = _trails("readFor")

# that a session, or more of one, came in from a file
IMPORTER: Final = _trails("importer")
IMPORTER_VERSION: Final = _trails("importerVersion")
ORIGIN: Final = _trails("originProof")
REFUSED_LINES: Final = _trails("refusedLines")

# what principals signed
HEAD_SIGNATURE: Final = _trails("HeadSignature")
SIGNATURE_OF: Final = _trails("signatureOf")
SIGNED_INDEX: Final = _trails("signedIndex")
SIGNED_HEAD: Final = _trails("signedHead")
SIGNER_KEY: Final = _trails("signerKey")
SIGNATURE: Final = _trails("signature")

# a session's row
PARENT_SESSION: Final = _trails("parentSession")
FORKED_AT_INDEX: Final = _trails("forkedAtIndex")
FORK_HEAD: Final = _trails("forkHead")
SPAWNED_BY: Final = _trails("spawnedBy")
SESSION_AGENT: Final = _trails("agent")
KIND: Final = _trails("kind")
STATE: Final = _trails("state")
LABEL: Final = _trails("label")
KEY: Final = _trails("key")
SYSTEM_VERSION: Final = _trails("systemVersion")
SOURCE_SESSION: Final = _trails("sourceSession")
SLOT: Final = _trails("slot")
TIER: Final = _trails("tier")
EXPIRES_AT: Final = _trails("expiresAt")
ENDS_BY: Final = _trails("endsBy")

# a version of a system prompt
PROMPT_OF: Final = _trails("promptOf")
VERSION: Final = _trails("version")
EFFECTIVE_FROM: Final = _trails("effectiveFrom")

# what is left of a deleted session
DELETED_AT: Final = _prov("invalidatedAtTime")
INVALIDATED_BY: Final = _prov("wasInvalidatedBy")
ASSOCIATED_WITH: Final = _prov("wasAssociatedWith")
ENDED_AT: Final = _prov("endedAtTime")
DELETED_TURNS: Final = _trails("deletedTurns")
DELETED_HEAD: Final = _trails("deletedHead")
DELETED_AT_LOG_SIZE: Final = _trails("deletedAtLogSize")
DELETED_AT_ROOT: Final = _trails("deletedAtRoot")
PENDING_SWEEP: Final = _trails("pendingSweep")

# a session into which turns are being copied: a fork that is being detached, or an id for which a copy is being made
UNFINISHED_COPY: Final = _trails("UnfinishedCopy")

# what says of a redacted turn who took its content out
DELETED_TURN: Final = _trails("deletedTurn")
REASON: Final = _trails("reason")
FACTS_DIGEST: Final = _trails("factsDigest")
STANDS_AS: Final = _trails("standsAs")
REDACTED_FROM: Final = _trails("redactedFrom")
REDACTED_PLACE: Final = _trails("redactedPlace")
REDACTED_PART: Final = _trails("redactedPart")

# tags and notes: they name a session, an index and a digest, never a turn's IRI
TAG_OF: Final = _trails("tagOf")
TAG_NAME: Final = _trails("tagName")
TAG_LENGTH: Final = _trails("tagLength")
NOTE_ON: Final = _trails("noteOn")
NOTE_INDEX: Final = _trails("noteIndex")
NAMED_DIGEST: Final = _trails("namedDigest")
REMOVED_FROM: Final = _trails("removedFrom")
REMOVED_TAG: Final = _trails("removedTag")
REMOVED_NOTE: Final = _trails("removedNote")

# scores: they name a session, the turns that were scored and the last one's digest
SCORED: Final = _trails("scored")
SCORED_FROM: Final = _trails("scoredFrom")
SCORED_UP_TO: Final = _trails("scoredUpTo")
SCORE_NAME: Final = _trails("scoreName")
SCORE_VALUE: Final = _trails("scoreValue")
SCORER_VERSION: Final = _trails("scorerVersion")
REMOVED_SCORE: Final = _trails("removedScore")

# a session's ledger: what happens around its turns
LEDGER_OF: Final = _trails("ledgerOf")
NUMBER: Final = _trails("number")
DIRECTION: Final = _trails("direction")
SOURCE: Final = _trails("source")
EVENT_ID: Final = _trails("eventId")
CHANNEL: Final = _trails("channel")
ACCOUNT: Final = _trails("account")
PEER: Final = _trails("peer")
QUEUE_MODE: Final = _trails("queueMode")
RECEIVED_AT: Final = _trails("receivedAt")
WAITING: Final = _trails("waiting")
RECORDED_AS: Final = _trails("recordedAs")
QUEUED_AT: Final = _trails("queuedAt")
STARTED_AT: Final = _prov("startedAtTime")
GENERATED: Final = _prov("generated")
HEAD_BEFORE: Final = _trails("headBefore")
HEAD_AFTER: Final = _trails("headAfter")
ERROR: Final = _trails("error")
RETRY_OF: Final = _trails("retryOf")
KEPT_AS: Final = _trails("keptAs")
DELIVERY_OF: Final = _trails("deliveryOf")
OUTCOME: Final = _trails("outcome")
ATTEMPT: Final = _trails("attempt")

# in the ledger of a session of the session tree
FROM_STATE: Final = _trails("fromState")
TO_STATE: Final = _trails("toState")
STATUS: Final = _trails("status")
MEMORY_ID: Final = _trails("memoryId")
ARTIFACT_OF: Final = _trails("artifactOf")
URI: Final = _trails("uri")
ARTIFACT_CHANGE: Final = _trails("artifactChange")
SHA256: Final = _trails("sha256")

# session keys: conversations, aliases, moves of sessions between them; decisions of policies
SPECIALIZATION_OF: Final = _prov("specializationOf")
CURRENT_SESSION: Final = _trails("currentSession")
ALIAS_OF: Final = _trails("aliasOf")
ALIAS_KEY: Final = _trails("aliasKey")
REMOVED_ALIAS: Final = _trails("removedAlias")
ALIAS_WAS_OF: Final = _trails("aliasWasOf")
MOVED_SESSION: Final = _trails("movedSession")
FROM_KEY: Final = _trails("fromKey")
TO_KEY: Final = _trails("toKey")
WAS_CURRENT: Final = _trails("wasCurrent")
BECAME_CURRENT: Final = _trails("becameCurrent")
FORMER_LABEL: Final = _trails("formerLabel")
UNDOES: Final = _trails("undoes")
ACTION: Final = _trails("action")
ALLOWED: Final = _trails("allowed")
RULE: Final = _trails("rule")

# the entry of a session with a key: by the name that each field has in OpenClaw's SessionEntry
LAST_USER_ACTIVITY: Final = _trails("lastUserActivity")
ENTRY_FIELDS: Final = {
    name: _trails(term)
    for name, term in (
        ("lastHeartbeatText", "lastHeartbeatText"),
        ("lastHeartbeatSentAt", "lastHeartbeatSentAt"),
        ("updatedAt", "updatedAt"),
        ("sessionFile", "sessionFile"),
        ("spawnedBy", "spawnedByKey"),
        ("systemSent", "systemSent"),
        ("abortedLastRun", "abortedLastRun"),
        ("chatType", "chatType"),
        ("thinkingLevel", "thinkingLevel"),
        ("verboseLevel", "verboseLevel"),
        ("reasoningLevel", "reasoningLevel"),
        ("elevatedLevel", "elevatedLevel"),
        ("ttsAuto", "ttsAuto"),
        ("execHost", "execHost"),
        ("execSecurity", "execSecurity"),
        ("execAsk", "execAsk"),
        ("execNode", "execNode"),
        ("responseUsage", "responseUsage"),
        ("providerOverride", "providerOverride"),
        ("modelOverride", "modelOverride"),
        ("authProfileOverride", "authProfileOverride"),
        ("authProfileOverrideSource", "authProfileOverrideSource"),
        ("authProfileOverrideCompactionCount", "authProfileOverrideCompactionCount"),
        ("groupActivation", "groupActivation"),
        ("groupActivationNeedsSystemIntro", "groupActivationNeedsSystemIntro"),
        ("sendPolicy", "sendPolicy"),
        ("queueMode", "sessionQueueMode"),
        ("queueDebounceMs", "queueDebounceMs"),
        ("queueCap", "queueCap"),
        ("queueDrop", "queueDrop"),
        ("inputTokens", "sessionInputTokens"),
        ("outputTokens", "sessionOutputTokens"),
        ("totalTokens", "sessionTotalTokens"),
        ("modelProvider", "modelProvider"),
        ("model", "sessionModel"),
        ("contextTokens", "contextTokens"),
        ("compactionCount", "compactionCount"),
        ("memoryFlushAt", "memoryFlushAt"),
        ("memoryFlushCompactionCount", "memoryFlushCompactionCount"),
        ("cliSessionIds", "cliSessionIds"),
        ("claudeCliSessionId", "claudeCliSessionId"),
        ("displayName", "displayName"),
        ("channel", "sessionChannel"),
        ("groupId", "groupId"),
        ("subject", "subject"),
        ("groupChannel", "groupChannel"),
        ("space", "space"),
        ("origin", "origin"),
        ("deliveryContext", "deliveryContext"),
        ("lastChannel", "lastChannel"),
        ("lastTo", "lastTo"),
        ("lastAccountId", "lastAccountId"),
        ("lastThreadId", "lastThreadId"),
        ("skillsSnapshot", "skillsSnapshot"),
        ("systemPromptReport", "systemPromptReport"),
    )
}

# a run of a sub-agent
RUN: Final = _trails("Run")
RUN_ID: Final = _trails("runId")
CHILD_KEY: Final = _trails("childKey")
REQUESTER_KEY: Final = _trails("requesterKey")
REQUESTER_DISPLAY_KEY: Final = _trails("requesterDisplayKey")
REQUESTER_CHANNEL: Final = _trails("requesterChannel")
REQUESTER_RECIPIENT: Final = _trails("requesterRecipient")
REQUESTER_ACCOUNT: Final = _trails("requesterAccount")
REQUESTER_THREAD: Final = _trails("requesterThread")
TASK: Final = _trails("task")
RUN_LABEL: Final = _trails("runLabel")
RUN_MODEL: Final = _trails("runModel")
RUN_THINKING: Final = _trails("runThinking")
RUN_TIMEOUT: Final = _trails("runTimeoutSeconds")
REGISTERED_AT: Final = _trails("registeredAt")
ARCHIVE_AT: Final = _trails("archiveAt")
RUN_OUTCOME: Final = _trails("runOutcome")
RUN_ERROR: Final = _trails("runError")
RUN_EXTRA: Final = _trails("runExtra")
REVISION: Final = _trails("revision")
CLEANUP: Final = _trails("cleanup")
CLEANUP_HANDLED: Final = _trails("cleanupHandled")
CLEANUP_COMPLETED_AT: Final = _trails("cleanupCompletedAt")
ANNOUNCED_AS: Final = _trails("announcedAs")
ANNOUNCED_HOW: Final = _trails("announcedHow")
KEPT_BECAUSE: Final = _trails("keptBecause")
REMOVED_RUN: Final = _trails("removedRun")

# a PROV document that was brought in
PROV_DOCUMENT: Final = _trails("ProvDocument")
FILE_NAME: Final = _trails("fileName")
FILE_SIZE: Final = _trails("fileSize")
FILE_PART: Final = _trails("filePart")
PROV_FORMAT: Final = _trails("provFormat")
STATEMENT_COUNT: Final = _trails("statementCount")
IS_VALID: Final = _trails("isValid")
BROKEN_RULE: Final = _trails("brokenRule")
REMOVED_DOCUMENT: Final = _trails("removedDocument")

# what a statement of a PROV export rests on
EVIDENCE: Final = _trails("evidence")
EVIDENCE_SOURCE: Final = _trails("evidenceSource")
EVIDENCE_FILE: Final = _trails("evidenceFile")
EVIDENCE_RULE: Final = _trails("evidenceRule")

# datatypes
REDACTED: Final = _trails("Redacted")
JSON: Final = NamedNode(RDF + "JSON")
STRING: Final = NamedNode(XSD + "string")
INTEGER: Final = NamedNode(XSD + "integer")
DECIMAL: Final = NamedNode(XSD + "decimal")
DOUBLE: Final = NamedNode(XSD + "double")
BOOLEAN: Final = NamedNode(XSD + "boolean")
DATE_TIME: Final = NamedNode(XSD + "dateTime")


def integer(number: int) -> Literal:
    """Return a whole number as a literal.

    Not by `Literal(number)`: the engine (0.5.13) has Python write the number, and where Ctrl-C comes at that moment, it
    swallows that and goes on with "<unprintable int object>" as the literal's text.
    """
    return Literal(str(number), datatype=INTEGER)
