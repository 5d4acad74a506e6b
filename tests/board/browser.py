# Drives a real Chromium without a window, with Python's standard library alone: messages of the DevTools protocol go
# through two pipes (--remote-debugging-pipe), each ends in a zero byte.
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
LIMIT = 300  # seconds for one answer: a busy machine is slow, not broken


def find_chromium():
    candidates = [os.environ.get("CHROMIUM")] + [shutil.which(name) for name in NAMES]
    return next((path for path in candidates if path and os.path.exists(path)), None)


class Browser:
    """One Chromium with one page. Collects what the page logs, throws and requests."""

    def __init__(self, width=1280, height=800, scale=1, theme="light", touch=False, reduced_motion=True):
        self.folder = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self.out = os.pipe()
        self.inp, from_browser = os.pipe()

        def descriptors():
            # Both are moved out of the way first: one of them may be 3 or 4 already.
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        command = [find_chromium(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                   "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync", "--no-default-browser-check", "--mute-audio",
                   "--disable-features=Translate,OptimizationHints,MediaRouter", "--hide-scrollbars",
                   "--force-color-profile=srgb", "--user-data-dir=" + self.folder, "about:blank"]
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(command, preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.count = 0
        self.events = []
        self.problems = []   # errors and warnings of the page
        self.requests = []   # addresses it asked for
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(width, height, scale, touch)
        self.emulate(theme, reduced_motion)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            answer = self.receive(end - time.monotonic())
            if answer and answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
        raise RuntimeError(f"{method}: no answer of Chromium in {LIMIT} s")

    # The next message, or None after so many seconds; what the page tells by itself is noted.
    def receive(self, seconds):
        while b"\0" not in self.rest:
            if not select.select([self.inp], [], [], max(0, seconds))[0]:
                return None
            data = os.read(self.inp, 1 << 20)
            if not data:
                self.log.flush()
                with open(self.log.name, errors="replace") as log:
                    raise RuntimeError("Chromium has ended: " + log.read()[-2000:])
            self.rest += data
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def note(self, method, parameters):
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(value.get("value", value.get("description")))
                                          for value in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        self.events.append(method)

    def resize(self, width, height, scale=1, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def emulate(self, theme, reduced_motion=True):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    # Waits until the expression is true, and returns its value.
    def wait(self, expression, what):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            value = self.evaluate(expression)
            # An element arrives as an object without members.
            if value or value == {}:
                return value
            self.receive(0.02)
        raise RuntimeError(f"waited {LIMIT} s for {what}: {expression}")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, begin, end, steps=4):
        self.mouse("mouseMoved", *begin)
        self.mouse("mousePressed", *begin, button="left", buttons=1, clickCount=1)
        for step in range(1, steps + 1):
            place = [a + (b - a) * step / steps for a, b in zip(begin, end)]
            self.mouse("mouseMoved", *place, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)

    def double_click(self, x, y):
        for count in (1, 2):
            self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)
            self.mouse("mouseReleased", x, y, button="left", clickCount=count)

    def key(self, key, text=None, modifiers=0):
        code = {"ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "Tab": 9, "Enter": 13, " ": 32}.get(key, 0)
        text = text or {"Enter": "\r"}.get(key, key if len(key) == 1 else None)
        more = {"text": text} if text else {}
        common = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    # fingers: [(x, y), …]
    def touch(self, kind, fingers):
        self.call("Input.dispatchTouchEvent", type=kind,
                  touchPoints=[{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(fingers)])

    def picture(self, path, kind="png", quality=None):
        more = {"quality": quality} if quality else {}
        answer = self.call("Page.captureScreenshot", format=kind, captureBeyondViewport=False, **more)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))
