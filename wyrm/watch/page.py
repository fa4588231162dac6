"""The page that shows runs, as one HTML document."""

from __future__ import annotations

from functools import cache

from wyrm.view.html import asset, html_page

_BODY = """
<header class="bar">
  <h1>Training</h1>
  <span id="connection" class="connection">Connecting</span>
  <span class="space"></span>
  <div id="axes" class="together" role="group" aria-label="Horizontal axis">
    <button data-axis="step">Step</button>
    <button data-axis="epoch">Epoch</button>
    <button data-axis="elapsed">Time</button>
  </div>
  <button id="log" aria-pressed="false">Log scale</button>
  <label for="smoothing">Smoothing <input id="smoothing" type="range" min="0" max="0.99" step="0.01" value="0">
    <output id="smoothing-value" class="number" for="smoothing">0.00</output></label>
  <button id="theme" class="icon"></button>
</header>
<p id="trouble" role="alert" hidden></p>
<main class="watch">
  <aside class="panel" aria-labelledby="runs-title">
    <h2 id="runs-title">Runs</h2>
    <ul id="runs"></ul>
    <p id="empty" class="muted" hidden>No run yet. A training with <code>watch=True</code> appears here by itself.</p>
  </aside>
  <div>
    <section id="no-rows" class="panel nothing" hidden>
      <h2>No rows yet</h2>
      <p>The curves appear when a run that is ticked on the left has trained its first steps.</p>
    </section>
    <section id="curves" class="grid" aria-label="Curves"></section>
    <div id="panels" class="stack" hidden></div>
  </div>
</main>
<div id="live" class="only-read" role="status" aria-live="polite"></div>
<noscript>This page needs JavaScript.</noscript>
"""
_SCRIPTS = ("watch_store.js", "watch_chart.js", "watch_modules.js", "watch_histograms.js", "watch_main.js")


@cache
def page() -> str:
    """Return the page, which asks the server that it comes from for the runs."""
    return html_page(
        "Training",
        body=_BODY,
        data={},
        styles=[asset("wyrm.watch", "uPlot.min.css"), asset("wyrm.watch", "watch.css")],
        libraries=[asset("wyrm.watch", "uPlot.iife.min.js")],
        scripts=[asset("wyrm.watch", name) for name in _SCRIPTS],
        connects=True,
    )
