"""Examples of every command, as its help shows them: real command lines, the plainest first."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "demo": ("trails demo", "trails demo --create", "trails demo --sample-path"),
    "guide": ("trails guide", "trails guide python", "trails guide errors/head-conflict"),
    "help": ("trails help", "trails help fork", "trails help inbox receive"),
    "init": ("trails init", "trails init --store ~/work.trails"),
    "import": (
        "trails import ~/.claude/projects --create",
        "trails import session.jsonl --growing",
        "trails import chats.zip --format chatgpt --redact-secrets",
    ),
    "create": ("trails create --id trip --label trip", "trails create --principal alice --system 'Be brief.'"),
    "append": ("trails append trip user 'Plan a trip'", "trails append trip assistant - < answer.txt"),
    "list": (
        "trails list",
        "trails list --since 7d --project website",
        "trails list --sort tokens --limit 10",
        "trails list --meta team=search --json",
    ),
    "show": ("trails show trip", "trails show trip@4", "trails show trip --full"),
    "log": ("trails log", "trails log trip --limit 20", "trails log trip --graph"),
    "search": (
        "trails search 'alias'",
        "trails search --tool bash",
        "trails search error --role tool --json",
    ),
    "diff": (
        "trails diff trip dinner",
        "trails diff trip@4 dinner -y",
        "trails diff trip dinner --format html -o diff.html",
    ),
    "compare": (
        "trails compare trip",
        "trails compare trip --group-by meta.model --groups-only",
        "trails compare trip --sort-by tokens --descending --plot forest.svg",
        "trails compare trip --as-of paper.checkpoint",
        "trails compare --meta task=sums --group-by meta.arm --test tokens --method paired",
    ),
    "tree": ("trails tree", "trails tree trip"),
    "branches": ("trails branches trip", "trails branches trip --json"),
    "head": ("trails head trip", "trails head trip --moves"),
    "tail": ("trails tail", "trails tail trip -n 5", "trails tail --follow"),
    "replay": ("trails replay trip", "trails replay trip --up-to 4 --json"),
    "context": ("trails context trip --max-tokens 8000", "trails context trip --query 'And then?' --format openai"),
    "blame": ("trails blame dinner", "trails blame dinner --range 2:6"),
    "bisect": ("trails bisect trip -- sh -c '! grep -q bus'", "trails bisect trip --good 2 --bad 40 -- ./check.sh"),
    "tags": ("trails tags", "trails tags trip"),
    "notes": ("trails notes trip", "trails notes trip 3"),
    "scores": ("trails scores trip", "trails scores --name accuracy --json"),
    "agreement": (
        "trails agreement accuracy agent:grader alice",
        "trails agreement accuracy agent:grader alice --json",
    ),
    "stats": ("trails stats", "trails stats --by model --since 30d", "trails stats --by project --tsv"),
    "cost": (
        "trails cost --prices prices.toml",
        "trails cost --by day --since 30d",
        "trails cost --by session --limit 10",
    ),
    "rerun": (
        "trails rerun trip -- ./agent.py",
        "trails rerun trip --model live --times 50 --name arm-b --json -- ./agent.py",
    ),
    "push": ("trails push trip --to ~/team.trails", "trails push --all --to ~/team.trails --dry-run"),
    "mirror": (
        "trails mirror ./agents.trails http://localhost:7878",
        "trails mirror ./agents.trails http://localhost:8890/sparql --server virtuoso --follow",
    ),
    "copy": ("trails copy ./.trails /mnt/disk/work.trails", "trails copy ~/work.trails monday.nq.gz"),
    "pull": ("trails pull trip --from ~/team.trails", "trails pull trip --from ~/team.trails --restore"),
    "fork": ("trails fork trip", "trails fork trip --at 3 --label dinner", "trails fork v1 --id other --principal bob"),
    "label": ("trails label 0b5f dinner", "trails label trip --clear"),
    "tag": ("trails tag v1 trip@4", "trails tag v1 --remove"),
    "note": ("trails note trip 3 'Who depends on it?'", "trails note --remove 4d2c"),
    "score": ("trails score trip accuracy 0.75 --by agent:grader", "trails score trip#3 tone polite --by alice"),
    "take": (
        "trails take trip dinner --dry-run",
        'trails take trip dinner --summary "They chose the Italian place."',
    ),
    "cherry-pick": (
        "trails cherry-pick trip@3 --onto dinner",
        "trails cherry-pick trip@3:6 --onto dinner --whole-calls",
    ),
    "compact": (
        "trails compact trip --summary summary.txt --keep-turns 10",
        "trails compact trip --summary - < summary.txt",
    ),
    "detach": ("trails detach dinner", "trails detach dinner --by alice"),
    "flatten": ("trails flatten dinner", "trails flatten dinner --id copy"),
    "delete": ("trails delete trip", "trails delete trip --children cascade --reason 'asked to'"),
    "query": (
        "trails query tool-calls -p session=trip",
        "trails query 'SELECT ?s { ?s a trails:Session }' --json",
        "trails query token-usage-by-model --format csv",
    ),
    "queries": ("trails queries", "trails queries influences"),
    "verify": (
        "trails verify",
        "trails verify trip",
        "trails verify --checkpoint monday.checkpoint --verifier log.key.pub",
    ),
    "validate": ("trails validate", "trails validate history.provn", "trails validate --timed --json"),
    "audit": ("trails audit trip", "trails audit report --all --fail-on integrity", "trails audit pack trip trip.zip"),
    "info": ("trails info", "trails info --json"),
    "export": ("trails export trip --format pi -o trip.jsonl", "trails export trip --format trig"),
    "prov": ("trails prov trip --format provn", "trails prov trip --format svg -o trip.svg"),
    "documents": ("trails documents", "trails documents --json"),
    "completion": ("trails completion bash", "trails completion fish"),
    "scan": ("trails scan", "trails scan trip", "trails scan --all"),
    "redact": (
        "trails redact trip 4 --reason 'a password'",
        "trails redact --matching 'hunter2' --dry-run",
    ),
    "delete-document": (
        "trails delete-document history.provn",
        "trails delete-document history.provn --reason 'not ours'",
    ),
    "inbox list": ("trails inbox list trip", "trails inbox list trip --json"),
    "inbox receive": (
        "trails inbox receive trip 'Is it done?'",
        "trails inbox receive trip - --source mail < mail.txt",
    ),
    "inbox process": ("trails inbox process trip -- ./answer.sh", "trails inbox process trip --limit 1 -- ./answer.sh"),
    "inbox exchanges": ("trails inbox exchanges trip", "trails inbox exchanges trip --state failed"),
    "inbox events": ("trails inbox events trip", "trails inbox events trip --json"),
    "inbox retry": ("trails inbox retry trip 6", "trails inbox retry trip 6 --json"),
    "inbox fail": ("trails inbox fail trip 6", "trails inbox fail trip 6 --error 'nobody is there'"),
    "inbox drop": ("trails inbox drop trip 5", "trails inbox drop trip 5 --reason 'sent by mistake' --yes"),
    "inbox delivered": (
        "trails inbox delivered trip 3 --outcome sent",
        "trails inbox delivered trip 3 --outcome failed --reason 'mailbox full'",
    ),
    "runs list": ("trails runs list", "trails runs list --active --session trip"),
    "runs show": ("trails runs show 7f3a", "trails runs show 7f3a --json"),
    "runs tree": ("trails runs tree", "trails runs tree --stuck 30", "trails runs tree --top tokens"),
    "keys list": ("trails keys list", "trails keys list --active 60", "trails keys list --agent main --search group"),
    "keys policy": ("trails keys policy check agent:main:telegram:group:5", "trails keys policy show"),
    "proof checkpoint": (
        "trails proof checkpoint --new-key example.com/trails --key log.key",
        "trails proof checkpoint --key log.key -o monday.checkpoint",
    ),
    "proof cosign": (
        "trails proof cosign --new-key example.org/witness --key witness.key",
        "trails proof cosign monday.checkpoint --key witness.key --verifier log.key.pub -o monday.seen",
    ),
    "proof timestamp": ("trails proof timestamp request monday.seen -o monday.tsq", "trails proof timestamp --help"),
    "proof sign": ("trails proof sign --new-key alice --key alice.key", "trails proof sign trip --key alice.key"),
    "proof make": (
        "trails proof make trip 0 --checkpoint monday.checkpoint -o turn.proof",
        "trails proof make --checkpoint tuesday.checkpoint --since monday.checkpoint -o growth.proof",
    ),
    "proof check": (
        "trails proof check turn.proof --verifier log.key.pub",
        "trails proof check growth.proof --kept monday.checkpoint",
    ),
    "doctor": ("trails doctor", "trails doctor --json"),
    "store backup": (
        "trails store backup ./monday.backup",
        "trails --store ~/work.trails store backup /media/usb/work.backup",
    ),
    "store restore": (
        "trails store restore ./monday.backup --store ./restored",
        "trails store restore ./monday.backup --json",
    ),
    "store dump": ("trails store dump monday.nq.gz", "trails store dump monday.nq --force"),
    "store load": (
        "trails store load monday.nq.gz --store ./loaded",
        "trails store load monday.nq.gz --json",
    ),
    "store upgrade": ("trails store upgrade", "trails store upgrade --backup ./before.backup"),
    "store vacuum": ("trails store vacuum", "trails --store ~/work.trails store vacuum"),
    "store discard": (
        "trails store discard 'postgresql://localhost/agents?store=team'",
        "trails store discard 'postgresql://localhost/agents?store=team' --json",
    ),
    "store prune": ("trails store prune --older-than 90d --dry-run", "trails store prune --keep-count 500 --yes"),
}
"""Command lines by what is typed for a command."""


def shown(command: str) -> str:
    """Return the end of a command's help: its examples, as they are."""
    lines = "\n".join(f"  {each}" for each in EXAMPLES[command])
    return f"\b\nExamples:\n{lines}"
