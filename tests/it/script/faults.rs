//! A user catches errors in a script and reads their fields.

use serde_json::json;

use super::bench::Bench;

#[test]
fn a_fault_is_caught_with_kind_message_and_hint() {
    let script = "let seen = (); try { sleep(-1); } catch (e) { seen = [e.kind, e.message, e.hint, `${e}`]; } seen";
    let text = "`sleep` takes a non-negative number of seconds, not -1";
    assert_eq!(Bench::script(script).value(), json!(["usage", text, null, text]));
}

#[test]
fn a_fault_is_the_same_through_functions_modules_and_callbacks() {
    let bench = Bench::new(&[
        (
            "main.rhai",
            "import \"m\" as m;
             fn direct() { sleep(-1) }
             let kinds = [];
             try { direct(); } catch (e) { kinds.push(e.kind); }
             try { m::f(); } catch (e) { kinds.push(e.kind); }
             try { [1].map(|x| direct()); } catch (e) { kinds.push(e.kind); }
             try { m::each(|| sleep(-1)); } catch (e) { kinds.push(e.kind); }
             kinds",
        ),
        (
            "m.rhai",
            "fn f() { sleep(-1) } fn each(what) { [1].map(|x| what.call()) }",
        ),
    ]);
    assert_eq!(bench.value(), json!(["usage", "usage", "usage", "usage"]));
}

#[test]
fn an_uncaught_fault_is_shown_at_its_call_with_its_status() {
    let bench = Bench::script("fn nap(n) { sleep(n); }\nnap(-1);");
    let diagnostic = bench.run().unwrap_err();
    assert_eq!(diagnostic.fault.kind.exit_code(), 2);
    let error = bench.shown(&diagnostic);
    assert!(error.contains("--> main.rhai:1:13"), "{error}");
    assert!(error.contains("`nap` called from main.rhai:2:1"), "{error}");
}

#[test]
fn a_result_that_json_cannot_hold_is_refused() {
    let error = Bench::script("#{ a: [1, |x| x] }").error();
    assert!(error.contains("the value at `a[1]` is a function"), "{error}");
}
