//! Each message, whole and with one thing wrong, as serde's derive reads it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::FromJson;
use crate::{Reply, Request};

/// What may stand where something else should.
fn odd_values() -> [Value; 14] {
    [
        json!(null),
        json!(true),
        json!(-1),
        json!(300),
        json!(70_000),
        json!(5_000_000_000_u64),
        json!(u64::MAX),
        json!(1.0),
        json!("x"),
        json!("é"),
        json!(""),
        json!([]),
        json!([1, 2, 3]),
        json!({}),
    ]
}

fn access() -> Value {
    json!({"read": true, "write": false, "atomic": true, "flush": false, "persist": false, "bind": true})
}

fn receives() -> Value {
    json!([{"wr_id": 1, "pieces": [{"region": 1, "offset": 2, "length": 3, "lkey": 4}]}, {"wr_id": 2, "pieces": []}])
}

fn link() -> Value {
    json!({
        "address": "fd00::1", "qpn": 17, "mtu": 5, "rq_psn": 1, "sq_psn": 2, "access": access(),
        "min_rnr_timer": 12, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7, "max_rd_atomic": 1,
        "max_dest_rd_atomic": 16, "qkey": 0x1111,
    })
}

fn work() -> Value {
    json!({
        "wr_id": u64::MAX, "operation": "compare_swap", "imm": 7, "va": 1, "rkey": 2, "srqn": 0,
        "pieces": [{"region": 1, "offset": 2, "length": 3, "lkey": null}],
        "compare_add": 3, "swap": 4, "fence": true, "solicited": false, "signaled": true,
    })
}

fn requests() -> Vec<Value> {
    let connections = [
        json!({"do": "listen", "space": "udp"}),
        json!({"do": "connect", "address": "192.0.2.1", "port": 4791, "qp": 1, "private": "00ff"}),
        json!({"do": "accept", "id": 1, "qp": 2, "private": ""}),
        json!({"do": "establish", "id": 1, "qp": 2}),
        json!({"do": "reject", "id": 1, "private": "a5"}),
        json!({"do": "disconnect", "id": 1}),
        json!({"do": "events", "wait_ms": 10}),
    ];
    let mut all = vec![
        json!({"do": "hello", "version": 3, "token": "t"}),
        json!({"do": "clear"}),
        json!({"do": "region", "domain": 1, "length": 4096, "access": access()}),
        json!({"do": "deregister", "region": 1}),
        json!({"do": "fill", "region": 1, "offset": 2, "bytes": "0123"}),
        json!({"do": "look", "region": 1, "offset": 2, "length": 3}),
        json!({"do": "queue_pair", "kind": "rc", "domain": 0, "send_wr": 1, "recv_wr": 2, "shared": 3, "extended": true}),
        json!({"do": "connect", "qp": 1, "link": link(), "until": "rts"}),
        json!({"do": "modify", "qp": 1, "state": "sqd"}),
        json!({"do": "query", "qp": 1}),
        json!({"do": "receive", "qp": 1, "receives": receives()}),
        json!({"do": "shared_queue", "domain": 0, "recv_wr": 16}),
        json!({"do": "receive_shared", "shared": 1, "receives": receives()}),
        json!({"do": "send", "qp": 1, "work": work()}),
        json!({"do": "flush", "qp": 1, "wr_id": 2, "va": 3, "rkey": 4, "length": 5, "placement": 1, "selectivity": 0}),
        json!({"do": "atomic_write", "qp": 1, "wr_id": 2, "va": 3, "rkey": 4, "value": 5}),
        json!({"do": "window", "domain": 1}),
        json!({"do": "bind", "qp": 1, "wr_id": 2, "window": 3, "region": 4, "offset": 5, "length": 6, "key": 7, "access": access()}),
        json!({"do": "xrc_queue", "qp": 1, "domain": 2, "recv_wr": 3}),
        json!({"do": "start_adding", "region": 1, "offset": 8}),
        json!({"do": "stop_adding"}),
        json!({"do": "poll", "qp": 1, "count": 2, "wait_ms": 3}),
        json!({"do": "notify", "qp": 1, "solicited": true}),
        json!({"do": "woken", "qp": 1, "wait_ms": 3}),
        json!({"do": "events", "wait_ms": 3}),
        json!({"do": "counters"}),
    ];
    for kind in ["uc", "ud", "xrc_send", "xrc_receive"] {
        all.push(json!({"do": "queue_pair", "kind": kind, "domain": 0, "send_wr": 1, "recv_wr": 2, "shared": null, "extended": false}));
    }
    for state in ["reset", "init", "rtr", "sqe", "err"] {
        all.push(json!({"do": "modify", "qp": 1, "state": state}));
    }
    for operation in ["send", "write", "read", "fetch_add", "send_invalidate", "local_invalidate"] {
        let mut work = work();
        work["operation"] = operation.into();
        all.push(json!({"do": "send", "qp": 1, "work": work}));
    }
    all.push(json!({"do": "cm", "what": {"do": "listen", "space": "tcp"}}));
    all.extend(connections.map(|what| json!({"do": "cm", "what": what})));
    all
}

fn replies() -> Vec<Value> {
    let extensions = json!({
        "atomics_with_cpu": true, "windows": false, "invalidate": true, "xrc": false, "flush": true,
        "persist": false, "atomic_write": true,
    });
    let card = json!({
        "version": 3, "device": "uroce0", "firmware": "1", "vendor": [1, 2], "system": "Linux",
        "address": "10.0.0.1", "mtu": 5, "max_dest_rd_atomic": 16, "max_rd_atomic": 15, "atomics": true,
        "shared_queues": false, "no_cm": "no library", "ack_delay": 15, "extensions": extensions,
    });
    let completion = json!({
        "wr_id": 1, "status": 2, "opcode": 3, "byte_len": 4, "imm": 5, "invalidated": null, "src_qp": 7, "flags": 8,
    });
    let event = json!({
        "kind": 4, "id": 1, "status": -110, "private": "00", "responder_resources": 1, "initiator_depth": 2,
    });
    vec![
        json!({"is": "welcome", "card": card}),
        json!({"is": "done"}),
        json!({"is": "refused", "why": "because"}),
        json!({"is": "region", "region": 1, "va": 2, "lkey": 3, "rkey": 4}),
        json!({"is": "queue_pair", "qp": 1, "qpn": 2}),
        json!({"is": "shared", "shared": 1}),
        json!({"is": "window", "window": 1, "rkey": 2}),
        json!({"is": "xrc_queue", "shared": 1, "number": 2}),
        json!({"is": "added", "count": 1}),
        json!({"is": "state", "state": "rtr"}),
        json!({"is": "memory", "bytes": "00a5"}),
        json!({"is": "completions", "completions": [completion, completion]}),
        json!({"is": "cm_id", "id": 1, "port": 2}),
        json!({"is": "cm_events", "events": [event]}),
        json!({"is": "events", "events": [{"kind": 1, "qp": 2}, {"kind": 1, "qp": null}]}),
        json!({"is": "counters", "counters": [{"name": "a", "value": 1}], "missing": null}),
    ]
}

/// Every value that is `whole` with one thing changed: a part replaced, left out, or added.
fn changed(whole: &Value) -> Vec<Value> {
    let mut all = odd_values().to_vec();
    match whole {
        Value::Object(fields) => {
            for (name, value) in fields {
                let mut without = fields.clone();
                without.remove(name);
                all.push(without.clone().into());
                all.extend(changed(value).into_iter().map(|changed| {
                    let mut other = fields.clone();
                    other.insert(name.clone(), changed);
                    other.into()
                }));
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                all.extend(changed(value).into_iter().map(|changed| {
                    let mut other = values.clone();
                    other[at] = changed;
                    other.into()
                }));
            }
        }
        _ => {}
    }
    all
}

/// Every object inside `whole` with a field too many.
fn extended(whole: &Value) -> Vec<Value> {
    let mut all = vec![];
    match whole {
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("more".to_owned(), json!(1));
            all.push(more.into());
            for (name, value) in fields {
                all.extend(extended(value).into_iter().map(|extended| {
                    let mut other = fields.clone();
                    other.insert(name.clone(), extended);
                    other.into()
                }));
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                all.extend(extended(value).into_iter().map(|extended| {
                    let mut other = values.clone();
                    other[at] = extended;
                    other.into()
                }));
            }
        }
        _ => {}
    }
    all
}

/// What the derive reads is read, and nothing else.
fn check<M: FromJson + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(whole: &Value) {
    let read = M::from_json(whole.clone()).unwrap_or_else(|error| panic!("{whole}: {error}"));
    assert_eq!(&serde_json::to_value(&read).expect("JSON"), whole);
    for value in changed(whole) {
        let twin = serde_json::from_value::<M>(value.clone()).ok();
        assert_eq!(M::from_json(value.clone()).ok(), twin, "{value}");
    }
    for value in extended(whole) {
        assert!(M::from_json(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn requests_are_read_as_by_serde() {
    requests().iter().for_each(check::<Request>);
}

#[test]
fn replies_are_read_as_by_serde() {
    replies().iter().for_each(check::<Reply>);
}

#[test]
fn an_error_names_the_field() {
    let error = |value| Request::from_json(value).expect_err("wrong").to_string();
    let far = json!({"do": "receive", "qp": 1, "receives": [{"wr_id": -1, "pieces": []}]});
    assert_eq!(error(far), "`receives`: `wr_id`: not a number of type u64");
    assert_eq!(error(json!({"do": "query"})), "`qp`: missing");
    assert_eq!(error(json!({"do": "query", "qp": 1, "more": 2})), "`more`: unknown");
    assert_eq!(error(json!({"do": "format_disk"})), "unknown name `format_disk`");
    assert_eq!(error(json!([])), "not an object");
}
