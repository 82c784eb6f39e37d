//! What the mouse is told between the probes: what is proven, what is only predicted, and where answers contradict each other.

use std::collections::BTreeSet;

use crate::support::browser::{Browser, Screen};
use crate::support::{Profiler, needs_browser};

/// A boundary of which a part is predicted, and one whose answers contradict each other.
const TWO: &str = r#"
    let one = boundary(#{ input: [1, 1000], output: [1, 1000] }, #{});
    one.record(#{ input: 300, output: 300 }, "ok");
    one.record(#{ input: 700, output: 700 }, "oom");
    report(one);
    let other = boundary(#{ input: [1, 1000], output: [1, 1000] }, #{});
    other.record(#{ input: 600, output: 600 }, "ok");
    other.record(#{ input: 400, output: 400 }, "oom");
    report(other);
"#;

/// What the mouse is told at every place of a grid over the picture, coordinates left out.
async fn told(browser: &Browser, id: &str) -> BTreeSet<String> {
    let script = format!(
        "const figure = document.getElementById('{id}');
         const stage = figure.querySelector('.stage');
         const svg = [...stage.querySelectorAll('svg')].find(svg => svg.getClientRects().length);
         const data = JSON.parse(figure.querySelector('script.data').textContent);
         const {{ frames: [frame], size }} = data.views[0].wide;
         const box = svg.getBoundingClientRect();
         const unit = box.width / size[0];
         const all = new Set();
         for (let column = 0.5; column < 40; column += 1) for (let row = 0.5; row < 40; row += 1) {{
             const clientX = box.x + unit * (frame.left + frame.width * column / 40);
             const clientY = box.y + unit * (frame.top + frame.height * row / 40);
             stage.dispatchEvent(new PointerEvent('pointermove', {{ clientX, clientY, pointerType: 'mouse' }}));
             if (!figure.querySelector('.ring').hidden) continue;
             all.add([...figure.querySelectorAll('.tip tr')].slice(1).map(row => row.textContent).join('; '));
         }}
         return [...all]"
    );
    let all = browser.tell(&script).await;
    all.as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_predicted_or_contradictory_is_never_called_proven() {
    if !needs_browser() {
        return;
    }
    let run = Profiler::new()
        .file("s.rhai", TWO)
        .args(["run", "s.rhai", "--out", "out"])
        .run()
        .success();
    let browser = Browser::open(&run.folder().join("out/report.html"), Screen::WIDE).await;
    let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        told(&browser, "figure-boundary-1").await,
        all(&[
            "open: no probe proves what happens here",
            "predicted to fit, not proven",
            "proven to fail byinput=700 output=700 oom (fails)",
            "proven to fit byinput=300 output=300 fits",
        ])
    );
    let other = told(&browser, "figure-boundary-2").await;
    assert!(other.contains("in the band: answers contradict"), "{other:?}");
    assert_eq!(browser.complaints().await, [""; 0]);
    browser.close().await;
}
