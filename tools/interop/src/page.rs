//! The page of `uroce view` in a real browser: it draws, answers keys, complains of nothing, makes no
//! request, and stays quick with 100,000 packets.

mod browser;
mod checks;
mod chromium;

use std::path::{Path, PathBuf};
use std::time::Instant;

use browser::{Browser, save};
use clap::Args;
use uroce_analyze::view::{ViewConfig, Viewer};
use uroce_analyze::{CaptureReader, DissectorConfig, Filter};
use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Result};
use uroce_testbed::workspace;

/// Packets of the large page.
const MANY: usize = 100_000;

/// Options of `page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Leave the pages, and pictures of them, in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Makes pages and looks at them with a browser.
///
/// # Errors
/// The browser does not start, or the page is not as it should be.
pub fn run(arguments: &PageArgs) -> Result<()> {
    let temporary = std::env::temp_dir().join(format!("uroce-pages-{}", std::process::id()));
    let _guard = Guard::new(Leftover::Folder(temporary.clone()));
    let folder = arguments.keep.clone().unwrap_or(temporary);
    std::fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    let folder = folder.canonicalize().context(|| "the folder of the pages")?;
    let small = folder.join("small.html");
    write_page(&small, "writes.pcap", &traffic(2000)?)?;
    let lossy = folder.join("loss.html");
    let capture = workspace::root().join("pcaps/loss.pcap");
    let bytes = std::fs::read(&capture).context(|| "pcaps/loss.pcap")?;
    write_page(&lossy, "loss.pcap", &bytes)?;
    let large = folder.join("large.html");
    write_page(&large, "many.pcap", &traffic(MANY)?)?;

    let mut browser = Browser::start()?;
    browser.look("light", 1440, 900)?;
    checks::small(&mut browser, &lossy)?;
    checks::large(&mut browser, &large)?;
    checks::silence(&browser)?;
    match arguments.keep {
        Some(_) => take_pictures(&mut browser, &small, &lossy, &folder),
        None => Ok(()),
    }
}

/// A capture of at least `packets` packets.
fn traffic(packets: usize) -> Result<Vec<u8>> {
    uroce_tests::traffic::capture(packets).context(|| "a capture could not be made")
}

/// Writes the page of a capture.
fn write_page(file: &Path, title: &str, capture: &[u8]) -> Result<()> {
    let start = Instant::now();
    let mut viewer =
        Viewer::new(ViewConfig::default(), DissectorConfig::default(), Filter::default());
    let mut reader = CaptureReader::new(capture).context(|| title.to_owned())?;
    while let Some(frame) = reader.next_frame().context(|| title.to_owned())? {
        viewer.handle_frame(&frame);
    }
    let packets = viewer.packets();
    let mut html = Vec::new();
    viewer.finish(title, &[]).write_to(&mut html).context(|| "a page")?;
    std::fs::write(file, &html).context(|| format!("could not write {}", file.display()))?;
    println!(
        "{title}: {packets} packets, {} KiB of page, made in {} ms",
        html.len() / 1024,
        start.elapsed().as_millis()
    );
    Ok(())
}

fn take_pictures(browser: &mut Browser, small: &Path, lossy: &Path, folder: &Path) -> Result<()> {
    browser.look("light", 1280, 800)?;
    browser.open(lossy)?;
    browser.press("r")?;
    save(folder, "view-light.png", &browser.picture()?)?;
    browser.look("dark", 1280, 800)?;
    browser.open(small)?;
    checks::zoom_to_first_repeat(browser)?;
    browser.press("l")?;
    save(folder, "view-dark.png", &browser.picture()?)?;
    browser.look("light", 390, 844)?;
    browser.open(lossy)?;
    save(folder, "view-narrow.png", &browser.picture()?)?;
    println!("pictures are in {}", folder.display());
    Ok(())
}
