//! What a page must do.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use uroce_testbed::error::{Error, Result};

use super::browser::Browser;

/// A large page is ready in this time on a machine that has something else to do, too. It takes a
/// small part of it on one that is idle.
const LOAD_LIMIT: Duration = Duration::from_secs(20);
/// Milliseconds that the script may take for a frame of scrolling or zooming, mostly: two frames of a
/// screen. Drawing what the script asked for is the business of the browser.
const FRAME_LIMIT: f64 = 33.0;

/// Scrolls and zooms; gives the milliseconds that the script took for each frame, sorted. Callbacks
/// of one frame run in the order in which they were asked for: one in front of those of the page, one
/// behind them.
const MEASURE: &str = "(async () => {
  const list = document.getElementById('list');
  const plot = document.getElementById('sequence');
  const box = plot.getBoundingClientRect();
  const took = [];
  const frame = (act) => new Promise((done) => {
    let start = 0;
    requestAnimationFrame(() => { start = performance.now(); });
    const asked = performance.now();
    act();
    const acted = performance.now() - asked;
    requestAnimationFrame(() => {
      took.push(performance.now() - start + acted);
      setTimeout(done);
    });
  });
  for (let i = 0; i < 30; i++) {
    await frame(() => { list.scrollTop = i * 70000; list.dispatchEvent(new Event('scroll')); });
  }
  for (let i = 0; i < 30; i++) {
    await frame(() => plot.dispatchEvent(new WheelEvent('wheel', {
      deltaY: i < 20 ? -80 : 160, clientX: box.left + 400, clientY: box.top + 80, bubbles: true, cancelable: true,
    })));
  }
  return took.sort((a, b) => a - b);
})()";

/// A small page shows what it should, and answers keys.
///
/// # Errors
/// It does not.
pub fn small(browser: &mut Browser, page: &Path) -> Result<()> {
    browser.open(page)?;
    browser.settle()?;
    expect(
        browser,
        "document.querySelectorAll('.row:not([hidden])').length > 5",
        "rows are shown",
    )?;
    expect(
        browser,
        "document.querySelectorAll('#conversations .item').length === 1",
        "one conversation",
    )?;
    expect(browser, INKED, "the plots are drawn")?;
    keys(browser)?;
    looks(browser)
}

/// Both canvases of plots have something on them.
const INKED: &str = "['sequence', 'outstanding'].every((id) => {
  const canvas = document.querySelector(`#${id} canvas`);
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return data.some((value) => value !== 0);
})";

fn keys(browser: &mut Browser) -> Result<()> {
    let selected = "document.querySelector('.row[aria-selected=true] .frame')?.textContent";
    browser.press("g")?;
    expect_value(browser, selected, &"1".into(), "g goes to the first packet")?;
    browser.press("j")?;
    browser.press("ArrowDown")?;
    expect_value(browser, selected, &"3".into(), "j and the arrow go down")?;
    browser.press("k")?;
    expect_value(browser, selected, &"2".into(), "k goes up")?;
    browser.press("G")?;
    expect_value(browser, selected, &"300".into(), "G goes to the last packet")?;
    browser.press("R")?;
    expect(
        browser,
        "document.getElementById('detail').textContent.includes('Sent again')",
        "R finds a retransmission",
    )?;
    filter(browser)?;
    browser.press("?")?;
    expect(browser, "document.getElementById('help').open", "? shows the keys")?;
    browser.press("Escape")?;
    expect(browser, "!document.getElementById('help').open", "Esc closes them")?;
    browser.press("l")?;
    expect(browser, "!document.getElementById('ladder').hidden", "l shows the ladder")?;
    browser.press("l")
}

fn filter(browser: &mut Browser) -> Result<()> {
    browser.press("/")?;
    expect(browser, "document.activeElement.id === 'filter'", "/ goes to the filter")?;
    for key in ["n", "a", "k"] {
        browser.press(key)?;
    }
    let count = "document.getElementById('row-count').textContent";
    expect_value(browser, count, &"5 packets".into(), "the filter finds the NAKs")?;
    browser.press("Escape")?;
    expect_value(browser, count, &"300 packets".into(), "Esc clears the filter")?;
    expect(browser, "document.activeElement === document.body", "Esc leaves the filter")
}

/// Fields and bytes of the packet belong together; light and dark differ; nothing is wider than a
/// narrow window.
fn looks(browser: &mut Browser) -> Result<()> {
    let point = "(() => {
      const fields = [...document.querySelectorAll('.field')];
      const psn = fields.find((field) => field.querySelector('th').textContent === 'PSN');
      psn.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
      return document.querySelectorAll('.byte.marked').length;
    })()";
    expect_value(browser, point, &3.into(), "a field marks its bytes")?;
    let background = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(background)?;
    browser.look("dark", 1440, 900)?;
    let dark = browser.evaluate(background)?;
    if light == dark {
        return Err(Error::new("the page: dark looks like light"));
    }
    browser.press("t")?;
    expect_value(browser, background, &light, "t turns dark into light")?;
    browser.press("t")?;
    browser.look("light", 390, 844)?;
    expect(
        browser,
        "document.documentElement.scrollWidth <= 390",
        "a narrow window needs no scrolling to the side",
    )?;
    browser.look("light", 1440, 900)
}

/// A page of 100,000 packets is ready soon and scrolls smoothly.
///
/// # Errors
/// It is not, or does not.
pub fn large(browser: &mut Browser, page: &Path) -> Result<()> {
    let load = browser.open(page)?;
    browser.settle()?;
    let took = browser.evaluate(MEASURE)?;
    let took: Vec<f64> = took.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let part = |share: f64| took.get((took.len() as f64 * share) as usize).copied();
    let (median, most) = (part(0.5).unwrap_or(f64::MAX), part(0.95).unwrap_or(f64::MAX));
    println!(
        "large page: ready in {} ms; script for a frame: median {median:.1} ms, 95 % within {most:.1} ms",
        load.as_millis()
    );
    if load > LOAD_LIMIT || median > FRAME_LIMIT {
        let limit = LOAD_LIMIT.as_millis();
        return Err(Error::new(format!(
            "the large page is slow: ready in {} ms (limit {limit}), {median:.1} ms for a frame (limit {FRAME_LIMIT})",
            load.as_millis()
        )));
    }
    browser.press("G")?;
    expect(
        browser,
        "document.querySelector('.row[aria-selected=true]') !== null",
        "the last of many packets is shown",
    )
}

/// The browser requested the files themselves and no more, and reported no error.
///
/// # Errors
/// Something was.
pub fn silence(browser: &Browser) -> Result<()> {
    if let Some(complaint) = browser.complaints().first() {
        return Err(Error::new(format!("the page complains: {complaint}")));
    }
    match browser.requests().iter().find(|url| !url.starts_with("file:")) {
        Some(url) => Err(Error::new(format!("the page asks for {url}"))),
        None => Ok(()),
    }
}

/// Selects a retransmission and shows the time around it.
///
/// # Errors
/// The browser is gone.
pub fn zoom_to_first_repeat(browser: &mut Browser) -> Result<()> {
    for key in ["r", "+", "+", "+"] {
        browser.press(key)?;
    }
    Ok(())
}

fn expect(browser: &mut Browser, expression: &str, what: &str) -> Result<()> {
    expect_value(browser, expression, &true.into(), what)
}

fn expect_value(
    browser: &mut Browser,
    expression: &str,
    expected: &Value,
    what: &str,
) -> Result<()> {
    let found = browser.evaluate(expression)?;
    if found == *expected {
        return Ok(());
    }
    Err(Error::new(format!("the page: \"{what}\" does not hold: {found}, expected {expected}")))
}
