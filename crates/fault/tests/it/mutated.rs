//! No text makes the reader of rules panic, and what it takes it writes so that it takes it again.

#[path = "../../../analyze/tests/it/mutation/mod.rs"]
mod mutation;

use mutation::each;
use uroce_fault::Plan;

const RULES: [&str; 10] = [
    "tx qp=0 psn=+4 iter=1..3 -> drop",
    "rx op=ack -> drop p=0.05 seed=7",
    "rx op=read-resp part=middle -> drop every=10 count=20",
    "tx op=write part=last -> hold=3",
    "any -> drop ge=0.01,0.3,1,0 from=2s until=5s",
    "tx op=send msg=3 -> corrupt=payload@17",
    "rx op=send -> answer:rnr:12 count=5",
    "lost-rtu: tx op=rtu -> drop count=1 then=late; late: tx op=send -> delay=200ms~50ms count=1",
    "rx op=ack -> set:syndrome=0x62 count=1",
    "drop 1%; delay 10ms 1ms",
];

const TABLES: [&str; 2] = [
    "[[fault]]\non = \"tx\"\nop = \"write\"\ndo = [\"drop\"]\ncount = 3\n",
    "[[fault]]\nname = \"a\"\non = \"rx\"\npsn = \"+1..+4\"\ndo = \"delay=1ms\"\np = 0.5\nseed = 1\n",
];

fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn rules() {
    each(20_000, &seeds(&RULES), |bytes, _| {
        let text = String::from_utf8_lossy(bytes);
        match text.parse::<Plan>() {
            Ok(plan) => {
                let again: Plan = plan.to_string().parse().expect("what it wrote itself");
                assert_eq!(again, plan, "{text}");
                assert!(plan.sentences().all(|sentence| !sentence.is_empty()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[test]
fn tables() {
    each(5_000, &seeds(&TABLES), |bytes, _| {
        let text = String::from_utf8_lossy(bytes);
        match Plan::from_toml(&text) {
            Ok(plan) => {
                let again: Plan = plan.to_string().parse().expect("what it wrote itself");
                assert_eq!(again, plan, "{text}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
