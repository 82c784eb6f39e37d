//! A user opens reports in a real browser: no network requests, no console errors, every picture is drawn and answers
//! to mouse, keys and slider.

mod look;
mod scripts;
mod wide_and_narrow;

use crate::support::browser::{Browser, Screen};
use crate::support::{needs_browser, temp};

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_sees_what_a_page_does_wrong() {
    if !needs_browser() {
        return;
    }
    let folder = temp();
    let page = folder.path().join("bad.html");
    std::fs::write(
        &page,
        "<!doctype html><p>bad<img src='http://127.0.0.1:9/x.png'><script>console.error('oh');absent()</script>",
    )
    .unwrap();
    let browser = Browser::open(&page, Screen::WIDE).await;
    let complaints = browser.complaints().await.join("\n");
    assert!(
        complaints.contains("oh") && complaints.contains("absent"),
        "{complaints}"
    );
    assert_eq!(browser.requests().await, ["http://127.0.0.1:9/x.png"]);
    browser.close().await;
}
