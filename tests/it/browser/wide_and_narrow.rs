//! A user reads one page on a laptop, on a phone, in dark mode and on paper: colours have contrast, and letters are
//! large enough.

use super::look::within_its_width;
use crate::support::browser::{Browser, Screen};
use crate::support::{Profiler, needs_browser};

/// The lowest contrast between visible text and its background (WCAG 2), and the size of the smallest letters in
/// pictures.
const LEGIBLE: &str = r"
    const parse = colour => (colour.match(/[\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = element => {
        for (let at = element; at; at = at.parentElement) {
            const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
            if (a > 0.9) return [r, g, b];
        }
        return [255, 255, 255];
    };
    const contrast = (one, other) => {
        const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    };
    let least = [99, ''];
    for (const element of document.querySelectorAll('p, dt, dd, li, h1, h2, h3, h4, td, th, a, summary, button')) {
        if (!element.getClientRects().length || !element.textContent.trim()) continue;
        const ratio = contrast(parse(getComputedStyle(element).color), ground(element));
        if (ratio < least[0]) least = [ratio, element.outerHTML.slice(0, 200)];
    }
    let smallest = 99;
    for (const text of document.querySelectorAll('figure svg text')) {
        const rows = text.getClientRects();
        if (!rows.length) continue;
        const svg = text.ownerSVGElement;
        const unit = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        smallest = Math.min(smallest, parseFloat(getComputedStyle(text).fontSize) * unit);
    }
    return { least, smallest, paper: getComputedStyle(document.body).backgroundColor };
";

/// For every recorded run, the heading is the answer, and the page is legible on a laptop and on a phone, light and
/// dark.
#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_run_can_be_read_on_every_screen() {
    if !needs_browser() {
        return;
    }
    let runs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs");
    let names = std::fs::read_dir(runs).unwrap();
    let mut opened = None;
    for run in names.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let name = run.file_name().unwrap().to_str().unwrap();
        let outcome = Profiler::new()
            .args(["report", "--html", "page.html"])
            .arg(&run)
            .run()
            .success();
        let shown = Profiler::new()
            .args(["show", "--json"])
            .arg(&run)
            .run()
            .success()
            .json();
        let page = outcome.folder().join("page.html");
        let browser = match &mut opened {
            None => opened.insert(Browser::open(&page, Screen::WIDE).await),
            Some(browser) => {
                browser.turn_to(&page).await;
                browser
            }
        };
        let heading = browser
            .tell("return document.querySelector('h1').textContent.trim()")
            .await;
        let answer = shown["boundaries"][0]["answer"]["limit"].as_str().unwrap_or_default();
        let found = heading.as_str().unwrap();
        assert!(
            found.strip_prefix("Unfinished: ").unwrap_or(found).starts_with(answer),
            "{name}: {heading}, not {answer}"
        );
        assert!(found.contains(' '), "{name}: the name of the script is no finding");
        let mut papers = Vec::new();
        for screen in [Screen::WIDE, Screen::PHONE, Screen::WIDE.dark(), Screen::PHONE.dark()] {
            browser.show(screen).await;
            let legible = browser.tell(LEGIBLE).await;
            assert!(
                legible["least"][0].as_f64() >= Some(4.5),
                "{name}, {screen:?}: {legible}"
            );
            assert!(
                legible["smallest"].as_f64() >= Some(10.0),
                "{name}, {screen:?}: {legible}"
            );
            within_its_width(browser, screen).await;
            papers.push(legible["paper"].clone());
        }
        assert_eq!(papers[0], papers[1]);
        assert_ne!(papers[0], papers[2], "the dark page is dark");
        assert_eq!(browser.complaints().await, [""; 0], "{name}");
    }
    opened.unwrap().close().await;
}
