"""Compares the clients with their peers, and writes a page of the results.

clients/bench/run.sh starts it, with a sidecar. BENCH_SECONDS is the length of each measurement.
"""

import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

work = Path(os.environ["BENCH_WORK"])
here = Path(__file__).parent
seconds = os.environ.get("BENCH_SECONDS", "1")
programs = {
    "Java": ["java", "-cp", f"{work}/classes:{work}/lib/*", "dev.nodelease.Bench"],
    "Python": [sys.executable, str(here / "bench.py")],
    "Node": ["node", str(work / "bench.mjs")],
}
peers = {"Java": ["hutool", "TSID Creator"], "Python": ["snowflake-id", "snowflake-id behind a lock"], "Node": ["nodejs-snowflake"]}
CAP = 4096 * 1000  # IDs per second of a node ID in the default layout
# The peer that waits when a millisecond is used up; TSID Creator makes IDs of the future.
honest = {"Java": "hutool", "Python": "snowflake-id", "Node": "nodejs-snowflake"}


# The first ID is measured with only the client's jar on the class path. With the peers' jars there, Java would search them for providers, too.
alone = {**programs, "Java": ["java", "-cp", f"{work}/client.jar", "dev.nodelease.Bench"]}
archived = ["java", f"-XX:SharedArchiveFile={work}/client.jsa", "-cp", f"{work}/client.jar", "dev.nodelease.Bench"]


def lines_of(command: list[str]) -> list[Any]:
    out = subprocess.run([*command, seconds], stdout=subprocess.PIPE, check=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def run(language: str, what: str) -> list[Any]:
    return lines_of([*(alone if what == "first" else programs)[language], what])


def together(language: str) -> float:
    """Four processes on the one sidecar, each for three seconds: their IDs from the first one's start to the last one's end, per second."""
    all = [subprocess.Popen([*programs[language], "together", seconds], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    made = [json.loads(p.communicate()[0]) for p in all]
    return sum(m[0] for m in made) * 1000 / (max(m[2] for m in made) - min(m[1] for m in made))


def spread(all: list[float], unit: float = 1e6) -> str:
    return f"{median(all) / unit:.2f} <sub>{min(all) / unit:.2f}–{max(all) / unit:.2f}</sub>"


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ")[1]
    return platform.machine()


def version(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout or done.stderr).splitlines()[0]


load = os.getloadavg()[0]
bars: list[tuple[str, str, str, bool]] = []
rows: list[str] = []
for language in programs:
    print(language, file=sys.stderr, flush=True)
    rounds = run(language, "rounds")
    column = {name: [float(r[name]) for r in rounds] for name in rounds[0]}
    firsts = [run(language, "first") for _ in range(15)]
    first = [f[0] for f in firsts]
    every = together(language)
    for name in ["next", "tryNext", "batch", *peers[language]]:
        if name in column:
            ours = {"next": "one at a time", "tryNext": "one at a time, `tryNext() ?? await next()`", "batch": "batches of 10,000"}.get(name)
            rows.append(f"| {language} | {'Nodelease, ' + ours if ours else name} | {spread(column[name])} |")
    rows.append(f"| {language} | Nodelease, four processes, batches of 10,000, together | {every / 1e6:.2f} |")
    best = max(column["next"], column["batch"], key=median) if language != "Java" else column["next"]
    label = "IDs/s, one at a time" if language == "Java" else "IDs/s, with batches"
    bars.append((f"{language}: {label}", "≥ 1 M", f"{median(best) / 1e6:.2f} M", median(best) >= 1e6))
    bars.append((f"{language}: IDs/s of four processes on one sidecar, with batches", "≥ 1 M", f"{every / 1e6:.2f} M", every >= 1e6))
    # The peer is limited to the format's cap: IDs above it are of the future.
    single = max(column["next"], column.get("tryNext", column["next"]), key=median)
    # Ours is thread-safe; the peer in Python needs a lock: both ratios.
    for what, mine, peer in [(w, m, p) for w, m in (("one at a time", single), ("with batches", column["batch"])) for p in (honest[language], honest[language] + " behind a lock") if p in column]:
        ratio = median(min(m, CAP) / min(p, CAP) for m, p in zip(mine, column[peer]))
        bars.append((f"{language}: {what}, over {peer}, both at most the cap", "≥ 0.8", f"{ratio:.2f}", ratio >= 0.8))
    bars.append((f"{language}: first ID after construction, of a new process", "≤ 50 ms", f"{median(first):.1f} ms <sub>{min(first):.1f}–{max(first):.1f}</sub>", median(first) <= 50))
    rows.append(f"| {language} | IDs per block, with batches | {median(column['per_request']):,.0f} |")
    if language == "Java":
        again = [f[1] for f in firsts]
        bars.append(("Java: the same, of a second generator in the process", "≤ 50 ms", f"{median(again):.1f} ms <sub>{min(again):.1f}–{max(again):.1f}</sub>", median(again) <= 50))
        ahead = max(column["ahead_ms"])
        beside = [lines_of([*programs["Java"], "first"])[0] for _ in range(15)]
        subprocess.run([archived[0], f"-XX:ArchiveClassesAtExit={work}/client.jsa", *archived[2:], "first", seconds], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        cds = [lines_of([*archived, "first"])[0] for _ in range(15)]
print("served", file=sys.stderr, flush=True)
served = subprocess.run([*programs["Java"], "served", "5"], stdout=subprocess.PIPE, check=True, text=True).stdout
s = json.loads(served)
bars.append(("16 clients on one sidecar that never have enough: a request for a block, p99", "≤ 50 ms", f"{s['p99']:.1f} ms", s["p99"] <= 50))
bars.append(("the same, the slowest of all", "≤ 50 ms", f"{s['max']:.1f} ms", s["max"] <= 50))

table = "\n".join(f"| {what} | {want} | {got} | {'met' if met else '**missed**'} |" for what, want, got, met in bars)
lines = "\n".join(rows)
Path(sys.argv[1]).write_text(f"""# Benchmarks: clients in other languages

Measured {datetime.date.today()} on {cpu()}, {os.cpu_count()} cores, {platform.system()}; {version('java', '-version')}, Python {platform.python_version()}, Node {version('node', '--version')}; load {load:.2f} at the start,
with `make bench-clients`.

- There was one run, with one sidecar on a Unix socket and the default layout. The sidecar ran on the same cores.
- After a round to warm up, there were five rounds of {seconds} s, in which our clients and the peers took turns. The tables have the median and <sub>smallest–largest</sub>.
- A missed bar is reported as missed.

## The bars

| | asked for | measured | |
|---|---|---|---|
{table}

Until its first ID, a new Java process spends most of the time on the classes that the JDK loads for a Unix socket. The figures are of 15 processes:

- Each jar on the class path adds time, because the JDK looks for providers in all of them. With the jars of both peers, 1.5 MB, the first ID takes {median(beside):.1f} ms <sub>{min(beside):.1f}–{max(beside):.1f}</sub>.
- With an archive of the classes (`-XX:ArchiveClassesAtExit`, then `-XX:SharedArchiveFile`), it takes {median(cds):.1f} ms <sub>{min(cds):.1f}–{max(cds):.1f}</sub>.

Each of the sixteen clients has had a block before its time is taken.

The default layout has 4,096 IDs per millisecond and node ID. So all clients of one sidecar together make 4.1 M IDs/s, however fast they are. A turn that follows a pause can also use the 250 ms before it,
because nobody used them. With turns of half a second, this allows up to 6.1 M IDs/s. For the ratios, both sides are capped at 4.1 M.

## Million IDs per second

| | | |
|---|---|---|
{lines}

When a millisecond is used up, the generators behave differently:

- TSID Creator does not wait. It goes on with the next millisecond, and was up to {ahead:,.0f} ms ahead of the clock after its turn. After a restart, it would make some of these IDs again.
- hutool waits for the clock.
- snowflake-id returns `None`, which is not counted. It is not safe for threads. For a fair comparison with our client, see the row behind a lock.

None of the peers has a lease, so two processes with one node ID make the same IDs.

Sixteen clients that never have enough (`n=1048576`) sent {s['requests']:,} requests for a block in 5 s, at least {s['least']} per client. A request took {s['p50']:.1f} ms (p50), {s['p99']:.1f} ms (p99), {s['p999']:.1f} ms (p99.9) and {s['max']:.1f} ms (slowest).
""")
