//! A Chromium without a window, driven by the DevTools protocol: it shows a page,
//! presses keys, takes pictures, and tells what the page complained about.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uroce_testbed::error::{Context, Error, Result};

use super::chromium::{ANSWER_TIMEOUT, Chromium};

/// A running browser with one page.
#[derive(Debug)]
pub struct Browser {
    chromium: Chromium,
    session: Option<String>,
    calls: u64,
    complaints: Vec<String>,
    requests: Vec<String>,
}

impl Browser {
    /// Starts a browser with a profile of its own.
    ///
    /// # Errors
    /// There is no browser, or it does not answer.
    pub fn start() -> Result<Self> {
        let mut browser = Self {
            chromium: Chromium::start()?,
            session: None,
            calls: 0,
            complaints: Vec::new(),
            requests: Vec::new(),
        };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let arguments = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", arguments)?;
        self.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// Shows `file`, and waits until its script says that it is ready. Returns how long that took.
    ///
    /// # Errors
    /// It does not get ready.
    pub fn open(&mut self, file: &Path) -> Result<Duration> {
        let start = Instant::now();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }))?;
        while self.evaluate("document.documentElement?.dataset.ready || ''")? != "yes" {
            if start.elapsed() > ANSWER_TIMEOUT {
                let failure = self.evaluate("document.body?.innerText.slice(0, 300)")?;
                return Err(Error::new(format!("the page did not get ready: {failure}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(start.elapsed())
    }

    /// The value of an expression in the page; waits for it if it is a promise.
    ///
    /// # Errors
    /// It throws.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let arguments =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", arguments)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(Error::new(format!("{expression} throws: {details}"))),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Presses and releases a key, and lets the page draw.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let arguments = json!({
                "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": virtual_key(key),
            });
            self.call("Input.dispatchKeyEvent", arguments)?;
        }
        self.settle()
    }

    /// Waits until what was asked for is drawn.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn settle(&mut self) -> Result<()> {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))";
        self.evaluate(frames).map(drop)
    }

    /// Light or dark, as the system of the user would say, and the size of the window.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn look(&mut self, scheme: &str, width: u32, height: u32) -> Result<()> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        self.settle()
    }

    /// A picture of the window, as PNG.
    ///
    /// # Errors
    /// The browser is gone.
    pub fn picture(&mut self) -> Result<Vec<u8>> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        Ok(base64(answer["data"].as_str().unwrap_or("")))
    }

    /// What the page wrote to the console, threw, or was refused by its policy.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Every request, those for files included.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    fn call(&mut self, method: &str, arguments: Value) -> Result<Value> {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": arguments });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.chromium.send(&message.to_string())?;
        loop {
            let mut answer = self.receive()?;
            if answer["id"] == self.calls {
                return match answer.get("error") {
                    Some(error) => Err(Error::new(format!("{method}: {error}"))),
                    None => Ok(answer["result"].take()),
                };
            }
            self.note(&answer);
        }
    }

    fn receive(&mut self) -> Result<Value> {
        let bytes = self.chromium.receive()?;
        serde_json::from_slice(&bytes).context(|| "chromium speaks no JSON")
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or("") {
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                self.complaints.push(parameters.to_string());
            }
            "Network.requestWillBeSent" => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap_or("?").to_owned());
            }
            _ => {}
        }
    }
}

/// The number that a dialog knows the key by; 0 for keys that no dialog takes.
fn virtual_key(key: &str) -> u32 {
    if key == "Escape" { 27 } else { 0 }
}

/// Writes a picture.
///
/// # Errors
/// The folder is not there, or full.
pub fn save(folder: &Path, name: &str, picture: &[u8]) -> Result<PathBuf> {
    let file = folder.join(name);
    std::fs::write(&file, picture).context(|| format!("could not write {}", file.display()))?;
    Ok(file)
}

/// Bytes of base64; what is no digit of it is passed over.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let shifted = chunk.iter().zip([18, 12, 6, 0]);
        let word = shifted.fold(0, |word, (digit, shift)| word | u32::from(*digit) << shift);
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_rfc_4648() {
        assert_eq!(base64("Zm9vYmFy"), b"foobar");
        assert_eq!(base64("Zm9vYg=="), b"foob");
        assert_eq!(base64(""), b"");
    }
}
