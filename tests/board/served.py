# What the scripts of this folder share: a board that serves a folder, what they wait for in its page, and a list of
# failed checks.
import re
import signal
import subprocess

DRAWN = "performance.getEntriesByName('board-first-curve').length > 0"
CHART = "[...curves.charts.values()][0]"
QUIET = "[...curves.charts.values()].every((chart) => !chart.isVisible || (!chart.loading && !chart.isDirty))"
failures = []


def check(is_right, what):
    if not is_right:
        print("FAIL " + what, flush=True)
        failures.append(what)


class Board:
    """`bevatron board` on a free port, for as long as the block lasts."""

    def __init__(self, bevatron, folder, *more):
        command = [bevatron, "board", "--logdir", folder, "--port", "0", *(more or ["--no-cache"])]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            found = re.match(r"board: (http://\S+)", line)
            if found:
                self.url = found.group(1)
                return
        raise RuntimeError("board did not print its address")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
