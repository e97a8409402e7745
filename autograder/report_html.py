"""A report as one page of HTML: escaped, with a content policy, no script, no request, both themes.

Text of the learner's stands in the page as text only. Colours keep a contrast of 4.5 to 1 on
both backgrounds; outcome is said in words too.
"""

from html import escape
from string import Template

from autograder.printable import printable
from autograder.records import CheckResult, ManualAnswer, Outcome, Report

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
CLASSES = {Outcome.CORRECT: "ok", Outcome.INCORRECT: "bad", Outcome.NOT_ATTEMPTED: "none"}

_STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --text: #1f2328; --quiet: #57606a;
  --line: #d0d7de; --ok: #116329; --bad: #b3202a; --none: #7d4e00; }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --text: #e6edf3;
  --quiet: #9ba5b0; --line: #30363d; --ok: #56d364; --bad: #ff8a80; --none: #e3b341; } }
body { background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif;
  max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
.total { font-size: 1.25rem; } .quiet { color: var(--quiet); }
.ok { color: var(--ok); } .bad { color: var(--bad); } .none { color: var(--none); }
ul { list-style: none; padding: 0; margin: 0; }
li { border-top: 1px solid var(--line); padding: .5rem 0; }
li b { float: right; font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0 0; padding: .6rem .8rem;
  border-left: 3px solid var(--line); font: 14px/1.5 ui-monospace, monospace; }
"""

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<h1>$title</h1>
<p class="quiet">$submission</p>
<p class="total"><strong>$score</strong> of $max_score points</p>
$body
</main>
</body>
</html>
""")


def to_html(report: Report) -> str:
    """Return the whole page; everything that is not ours is escaped."""
    return _PAGE.substitute(
        policy=escape(POLICY),
        style=_STYLE,
        title=_text(report.title or report.lab),
        submission=_text(report.submission),
        score=_number(report.score),
        max_score=_number(report.max_score),
        body="\n".join(_body(report)),
    )


def _body(report: Report) -> list[str]:
    parts = [f'<p class="bad" role="alert">{_text(report.error)}</p>'] if report.error else []
    for question in dict.fromkeys(result.question for result in report.results):
        own = [result for result in report.results if result.question == question]
        score, full = sum(r.score for r in own), sum(r.max_score for r in own)
        points = f"{_number(score)} of {_number(full)}"
        parts.append(f'<h2>{_text(question)} <span class="quiet">{points}</span></h2>')
        parts.append(f"<ul>{''.join(_check(result) for result in own)}</ul>")
    if report.manual:
        parts.append("<h2>Graded by a person</h2>")
        parts.append(f"<ul>{''.join(_manual(answer) for answer in report.manual)}</ul>")
    notes = list(report.notes)
    if report.sandbox == "unsandboxed":
        notes.append("Unsandboxed: the code ran without a sandbox.")
    if notes:
        items = "".join(f"<li>{_text(note)}</li>" for note in notes)
        parts.append(f'<h2>Notes</h2><ul class="quiet">{items}</ul>')
    return parts


def _check(result: CheckResult) -> str:
    title = _text(result.title or result.name.replace("_", " "))
    points = f"<b>{_number(result.score)} / {_number(result.max_score)}</b>"
    outcome = f'<span class="{CLASSES[result.outcome]}">{result.outcome}</span>'
    output = f"<pre>{_text(result.output)}</pre>" if result.output else ""
    return f"<li>{points}{outcome}: {title}{output}</li>"


def _manual(answer: ManualAnswer) -> str:
    score = "not yet" if answer.score is None else _number(answer.score)
    text = f"<pre>{_text(answer.answer)}</pre>" if answer.answer else ""
    comment = f"<p>{_text(answer.comment)}</p>" if answer.comment else ""
    state = "answered" if answer.answer else '<span class="none">not attempted</span>'
    points = f"<b>{score} / {_number(answer.points)}</b>"
    return f"<li>{points}{_text(answer.question)}: {state}{text}{comment}</li>"


def _text(text: str) -> str:
    return escape(printable(text, 20_000), quote=True)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
