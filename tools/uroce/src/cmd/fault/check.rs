//! `uroce fault check RULES|@FILE`.

use std::sync::Arc;

use clap::Args;
use uroce_device::datapath::FaultCounters;

use crate::failure::Failure;
use crate::faults;
use crate::global::Global;
use crate::report::{json, out};

const EXAMPLES: &str = "\
Examples:
  uroce fault check 'lost-ack: rx op=ack -> drop count=1; delay 2ms 1ms'
  uroce fault check @rules.toml";

/// Arguments of `uroce fault check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Rules, or a file of them: TOML if its name ends with .toml
    #[arg(required_unless_present = "fault", value_name = "RULES|@FILE")]
    rules: Vec<String>,
}

/// Prints the rules in full, each with what it means as a sentence.
///
/// # Errors
/// Exit 2 for rules that are wrong, with line and column; exit 3 for a file that cannot be read.
pub fn run(args: &CheckArgs, global: &Global) -> Result<(), Failure> {
    let texts: Vec<String> = global.fault.iter().chain(&args.rules).cloned().collect();
    let faults =
        faults::read(&texts, Some(0))?.ok_or_else(|| Failure::usage("there is no rule"))?;
    let counters = Arc::new(FaultCounters::new(faults.plan()));
    let rules = counters.rules();
    let sentences: Vec<String> = faults.plan().sentences().collect();
    if global.json {
        let rules: Vec<_> = rules
            .iter()
            .zip(&sentences)
            .map(|(rule, sentence)| {
                serde_json::json!({ "name": rule.name, "rule": rule.text, "sentence": sentence })
            })
            .collect();
        json::print(&serde_json::json!({ "version": json::VERSION, "rules": rules }));
        return Ok(());
    }
    for (number, (rule, sentence)) in (1..).zip(rules.iter().zip(&sentences)) {
        out(&format!("{number:>3}  {}\n     {sentence}\n", rule.text));
    }
    let what = if rules.len() == 1 { "1 rule is" } else { &format!("{} rules are", rules.len()) };
    out(&format!("{what} right\n"));
    Ok(())
}
