//! A real browser without a window, spoken to over the pipe of the DevTools protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest time of the browser for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// A browser with one page.
pub struct Chromium {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    /// The browser's complaints: scripts that failed, resources that the policy kept from being loaded.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Chromium {
    /// Starts it; `None` if there is none on this machine.
    pub fn start() -> Option<Chromium> {
        let name = ["chromium", "chromium-browser"].into_iter().find(|name| {
            let asked = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        })?;
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken over the descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", name])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--lang=en"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = process.stdin.take().unwrap();
        let mut pipe = BufReader::new(process.stdout.take().unwrap());
        let (tell, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let told = serde_json::from_slice(&message).map(|message| tell.send(message));
                if !matches!(told, Ok(Ok(()))) {
                    return;
                }
                message.clear();
            }
        });
        let (asked, session, complaints) = (0, None, Vec::new());
        let mut browser = Chromium { process, to, from, asked, session, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Asks for something and returns the answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let asked = self.asked;
        let mut message = json!({"id": asked, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let answer = self.hear(method, |told| told["id"] == asked);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn hear(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let told =
                self.from.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|error| panic!("{what}: the browser: {error}"));
            let details = &told["params"];
            match told["method"].as_str() {
                Some("Runtime.exceptionThrown") => self.complaints.push(details["exceptionDetails"].to_string()),
                Some("Log.entryAdded") if details["entry"]["level"] == "error" => {
                    self.complaints.push(details["entry"].to_string());
                }
                _ => {}
            }
            if is_it(&told) {
                return told;
            }
        }
    }

    /// Opens a page and waits until all of it is there.
    pub fn open(&mut self, address: &str) {
        self.asked += 1;
        let message =
            json!({"id": self.asked, "method": "Page.navigate", "params": {"url": address}, "sessionId": self.session});
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        self.hear(address, |told| told["method"] == "Page.loadEventFired");
    }

    /// Returns the value of an expression in the page; a promise is waited for.
    pub fn ask(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression:.200}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub fn until(&mut self, expression: &str) {
        let waiting = format!(
            "new Promise((done, fail) => {{ const end = Date.now() + 90000; const look = () => {{ if ({expression}) done(true); \
             else if (Date.now() > end) fail(new Error('never: ' + document.body.innerText)); else setTimeout(look, 50); }}; \
             look(); }})"
        );
        self.ask(&waiting);
    }

    /// Another screen.
    pub fn screen(&mut self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Sets the reader's preference for dark colours.
    pub fn dark(&mut self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Sets if scripts of pages are run.
    pub fn scripts(&mut self, run: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !run}));
    }

    /// Returns a picture of what is seen, as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        use base64::Engine as _;
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
