//! A user looks at a whole page: it logs nothing, loads nothing, stays within its width, and its pictures answer.

use std::path::Path;

use serde_json::Value;

use crate::support::browser::{Browser, Screen, key};

/// The state of each picture: its visible marks, the length of its text alternative, and whether its places can be
/// focused.
const PICTURES: &str = "return [...document.querySelectorAll('figure')].map(figure => ({
    id: figure.id,
    marks: [...figure.querySelectorAll('svg')].filter(svg => svg.getClientRects().length)
        .reduce((sum, svg) => sum + svg.querySelectorAll('path, line, rect, circle, polyline, polygon').length, 0),
    words: figure.querySelector('[id$=-words]').textContent.trim().length,
    answers: figure.querySelector('.stage[tabindex]') !== null,
    slider: figure.querySelector('input[type=range]') !== null,
}))";

/// Opens a report and checks all of it; returns the ids of its pictures.
pub async fn look(page: &Path) -> Vec<String> {
    let browser = Browser::open(page, Screen::WIDE).await;
    let pictures = browser.tell(PICTURES).await;
    let pictures = pictures.as_array().unwrap();
    for picture in pictures {
        let id = picture["id"].as_str().unwrap();
        assert!(picture["marks"].as_u64() > Some(0), "{id} shows nothing");
        assert!(picture["words"].as_u64() > Some(20), "{id} is not said in words");
        if picture["slider"] == true {
            slides(&browser, id).await;
        }
        if picture["answers"] == true {
            answers(&browser, id).await;
        }
    }
    for screen in [Screen::WIDE, Screen::PHONE, Screen::WIDE.dark(), Screen::PHONE.dark()] {
        browser.show(screen).await;
        within_its_width(&browser, screen).await;
    }
    assert_eq!(browser.complaints().await, [""; 0]);
    assert_eq!(browser.requests().await, [""; 0]);
    browser.close().await;
    let ids = pictures
        .iter()
        .map(|picture| picture["id"].as_str().unwrap().to_owned());
    ids.collect()
}

/// The keys reach the first place, which is read out; the mouse shows a tip at the same place.
async fn answers(browser: &Browser, id: &str) {
    let focus = format!(
        "const stage = document.querySelector('#{id} .stage'); stage.scrollIntoView({{ block: 'center', behavior: 'instant' }}); stage.focus(); return null"
    );
    let _ = browser.tell(&focus).await;
    browser.press(key::RIGHT).await;
    let state = answered(browser, id).await;
    let read = state["live"].as_str().unwrap();
    assert!(read.starts_with("1 of "), "{id}: {read}");
    let by_keys = state["tip"].clone();
    assert!(!by_keys.as_str().unwrap().is_empty(), "{id}");
    let at = state["ring"].clone();
    browser.press(key::ESCAPE).await;
    assert_eq!(answered(browser, id).await["tip"], "", "{id}: hidden by Escape");
    hover(browser, &at).await;
    let tip = answered(browser, id).await["tip"].clone();
    assert!(!tip.as_str().unwrap().is_empty(), "{id}: nothing under the mouse");
    browser.hover(2, 2).await;
}

/// The slider's keys choose another panel, and its name is announced.
async fn slides(browser: &Browser, id: &str) {
    let state = format!(
        "const figure = document.getElementById('{id}');
         const seen = [...figure.querySelectorAll('.view')].findIndex(view => !view.hidden);
         return [seen, figure.querySelector('output').textContent, figure.querySelector('input').getAttribute('aria-valuetext')]"
    );
    let before = browser.tell(&state).await;
    let focus = format!("document.querySelector('#{id} input[type=range]').focus(); return null");
    let _ = browser.tell(&focus).await;
    browser.press(key::RIGHT).await;
    let after = browser.tell(&state).await;
    assert!(
        before[0] != after[0] && before[1] != after[1],
        "{id}: {before} and then {after}"
    );
    assert_eq!(after[1], after[2], "{id}: the value is read out");
}

async fn hover(browser: &Browser, at: &Value) {
    let pixel = |index: usize| at[index].as_f64().unwrap().round() as i64;
    browser.hover(pixel(0), pixel(1)).await;
}

/// The visible tip, the text read out, and the centre of the ring.
async fn answered(browser: &Browser, id: &str) -> Value {
    let script = format!(
        "const figure = document.getElementById('{id}');
         const [tip, ring] = ['.tip', '.ring'].map(name => figure.querySelector(name));
         if (!ring.hidden) ring.scrollIntoView({{ block: 'center', behavior: 'instant' }});
         const box = ring.getBoundingClientRect();
         return {{ tip: tip.hidden ? '' : tip.textContent, live: figure.querySelector('[aria-live]').textContent,
                   ring: [box.x + box.width / 2, box.y + box.height / 2] }}"
    );
    browser.tell(&script).await
}

/// Fails if the page scrolls sideways.
pub async fn within_its_width(browser: &Browser, screen: Screen) {
    let widths = browser
        .tell("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        .await;
    assert_eq!(widths[0], widths[1], "{screen:?}");
}
