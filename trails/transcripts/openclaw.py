"""Import and export a whole OpenClaw state folder: `agents/{agentId}/sessions/sessions.json`, its transcripts, and `runs.json`.

Being built. It will read the folder (or one `sessions` folder, or one `sessions.json`) into sessions by key with all fields of their entries, their
transcripts (topic files as sessions of their own) and the registry of sub-agent runs, and write it back whole.
"""
