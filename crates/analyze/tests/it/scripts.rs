//! The scripts of a page, run by Node.js on pages of captures that were made by hand. Skipped where
//! there is none. What needs a browser is checked by `interop page`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use uroce_analyze::view::{ViewConfig, Viewer};
use uroce_analyze::{DissectorConfig, Filter};

use crate::talk::{ACK, RNR, SEQUENCE_NAK, Talk};

/// Those that draw nothing, and the plot, which draws on what it is given.
const SCRIPTS: &str = concat!(
    include_str!("../../src/view/assets/data.js"),
    include_str!("../../src/view/assets/format.js"),
    include_str!("../../src/view/assets/capture.js"),
    include_str!("../../src/view/assets/filter.js"),
    include_str!("../../src/view/assets/selection.js"),
    include_str!("../../src/view/assets/sequence.js"),
    include_str!("../../src/view/assets/sequence-plot.js"),
);

/// What the expression `wanted` has for a value, with `capture` for the page of `talk`; `None` without
/// Node.js.
fn value_of(talk: &Talk, wanted: &str) -> Option<Value> {
    let config = ViewConfig { compress: false, ..ViewConfig::default() };
    let mut viewer = Viewer::new(config, DissectorConfig::default(), Filter::default());
    talk.each(|frame| viewer.handle_frame(frame));
    let mut html = vec![];
    viewer.finish("t", &[]).write_to(&mut html).expect("a vector takes everything");
    let html = String::from_utf8(html).expect("text");
    let section = |id: &str| {
        let (_, behind) = html.split_once(&format!("id=\"{id}\">")).expect("it is there");
        behind.split_once("</script>").expect("the element ends").0.to_owned()
    };
    let (meta, columns) = (section("meta"), section("columns"));
    node(&format!(
        "'use strict';\n{SCRIPTS}\nconst meta = {meta};
        const capture = new Capture(meta, columnsOf(meta, fromBase64('{columns}')));
        const rows = Uint32Array.from({{ length: capture.count }}, (_, row) => row);
        console.log(JSON.stringify({wanted}));"
    ))
}

fn node(program: &str) -> Option<Value> {
    let mut command = Command::new("node");
    command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "CI has Node.js: {error}");
            eprintln!("skipped: there is no Node.js here");
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(program.as_bytes()).expect("it reads the program");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Asserts that `wanted` is the JSON `expected`.
fn expect(talk: &Talk, wanted: &str, expected: &str) {
    if let Some(value) = value_of(talk, wanted) {
        assert_eq!(value.to_string(), expected, "{wanted}");
    }
}

/// Three SENDs, of which the second was lost and sent again.
fn loss() -> Talk {
    let mut talk = Talk::new();
    [0, 2].into_iter().for_each(|psn| talk.send(psn));
    talk.answer(1, SEQUENCE_NAK);
    [1, 2].into_iter().for_each(|psn| talk.send(psn));
    talk.answer(2, ACK);
    talk
}

fn spoil(talk: &mut Talk, index: usize) {
    let frame = &mut talk.frames[index].1;
    let last = frame.len() - 1;
    frame[last] ^= 0xff;
}

#[test]
fn a_wrong_icrc_is_damage_only_where_others_are_right() {
    let tones = "[...rows].map((row) => capture.tone(row))";
    let remarks = "[...rows].map((row) => capture.remarks(row).some((text) => text.startsWith('ICRC wrong')))";
    let mut before_the_card = Talk::new();
    for psn in 0..3 {
        before_the_card.send(psn);
        before_the_card.answer(psn, ACK);
    }
    (0..6).for_each(|index| spoil(&mut before_the_card, index));
    expect(&before_the_card, tones, r#"["","","","","",""]"#);
    expect(&before_the_card, remarks, "[true,true,true,true,true,true]");
    expect(&before_the_card, "filterRows(capture, rows, 'damaged').length", "0");
    let mut damaged = Talk::new();
    for psn in 0..3 {
        damaged.send(psn);
        damaged.answer(psn, ACK);
    }
    spoil(&mut damaged, 4);
    expect(&damaged, tones, r#"["","","","","nak",""]"#);
    expect(&damaged, "[...filterRows(capture, rows, 'damaged')]", "[4]");
    expect(&damaged, "[...filterRows(capture, rows, 'icrc')]", "[4]");
}

#[test]
fn the_filter_finds_what_a_row_says() {
    let again = "[...filterRows(capture, rows, 'again')].map((row) => capture.remarks(row)[0])";
    let Some(found) = value_of(&loss(), again) else { return };
    let texts: Vec<_> =
        found.as_array().expect("a list").iter().map(|text| text.as_str()).collect();
    assert_eq!(texts.len(), 2, "{found}");
    assert!(texts.iter().all(|text| text.is_some_and(|text| text.starts_with("again: "))));
    expect(&loss(), "filterRows(capture, rows, '-again').length", "4");
}

#[test]
fn an_answer_to_nothing_moves_neither_the_staircase_nor_the_axis() {
    let mut talk = Talk::new();
    for psn in 0..3 {
        talk.send(psn);
        talk.answer(psn, ACK);
    }
    talk.answer(200_000, ACK);
    talk.send(3);
    talk.answer(3, ACK);
    let of = |what: &str| {
        format!("((sequence) => {what})(new Sequence(capture, 0, capture.senderOf(0)))")
    };
    expect(&talk, "capture.has(6, 'unsolicited')", "true");
    expect(&talk, &of("sequence.acknowledged.map((step) => step[1])"), "[1,2,3,4]");
    expect(&talk, &of("[sequence.top, sequence.psns.length]"), "[4,9]");
    expect(&talk, &of("Math.max(...sequence.psns)"), "3");
}

#[test]
fn a_conversation_is_chosen_at_its_own_packet_and_drawn_alone() {
    let mut talk = loss();
    talk.net = 1;
    for psn in 0..4 {
        talk.send(psn);
        talk.answer(psn, ACK);
    }
    let chosen = |what: &str| {
        format!(
            "((selection) => {{ selection.chooseConversation(0); selection.chooseEvery(true);
            selection.chooseConversation(1); {what} }})(new Selection(capture))"
        )
    };
    expect(&talk, &chosen("return [selection.row, selection.rows.length];"), "[6,14]");
    let moved = "selection.move(1); return [selection.row, selection.conversation];";
    expect(&talk, &chosen(moved), "[7,1]");
    let ladder = "selection.chooseLadder(true); return [...selection.rows];";
    expect(&talk, &chosen(ladder), "[6,7,8,9,10,11,12,13]");
    let back = "selection.chooseLadder(true); selection.chooseLadder(false); return selection.rows.length;";
    expect(&talk, &chosen(back), "14");
}

#[test]
fn a_wait_is_drawn_also_from_inside() {
    let mut talk = Talk::new();
    talk.send(0);
    talk.answer(0, RNR);
    talk.wait(700_000);
    talk.send(0);
    talk.answer(0, ACK);
    // From 0.2 ms to 0.3 ms of a wait that takes 0.64 ms, on a plot of 100 by 100 pixels.
    let bars = "((bars, painter) => {
        painter.sequence = new Sequence(capture, 0, capture.senderOf(0));
        const [area, view] = [{ x: 0, y: 0, width: 100, height: 100 }, { begin: 2e5, end: 3e5 }];
        const x = (time) => (time - view.begin) / 1e5 * 100;
        const plot = { area, view, x };
        painter.fit(plot);
        painter.drawPackets(plot, { fillRect: (...bar) => bars.push(bar) });
        return bars.filter(([x, y, width]) => x === 0 && width === 100 && y > 0 && y < 100).length;
    })([], new SequencePainter(capture, null, { color: () => '' }))";
    expect(&talk, bars, "1");
}

#[test]
fn times_begin_with_the_earliest_packet() {
    let mut talk = loss();
    talk.frames[0].0 += 15_000;
    expect(&talk, "[...capture.times]", "[5000,0,10000,20000,30000,40000]");
    expect(&talk, "capture.meta.start", "\"1000020000\"");
}
