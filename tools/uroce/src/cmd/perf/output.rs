//! What a run prints, as tables or as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pingpong::Pinged;
use super::session::PerfSession;
use crate::failure::Failure;
use crate::peak::Bandwidth;
use crate::progress::{Progress, spinner};
use crate::report::banner::{self, EndFields, Limit, Parameters};
use crate::report::{json, out, table};
use crate::usage::Usage;

/// How often the sign of life moves: rarely, since it takes time from what is measured.
const TICK: Duration = Duration::from_millis(500);

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// perftest's tables.
    Table,
    /// JSON, all at the end.
    Json,
    /// Not at all: the second end of a local run.
    Silent,
}

/// Collects and prints results.
pub struct Output {
    form: Form,
    results: Vec<json::PerfResult>,
    busy: Progress,
    usage: Usage,
}

impl Output {
    /// Nothing printed yet.
    pub fn new(form: Form) -> Self {
        // On stderr, and only if that is a terminal.
        let busy = match form {
            Form::Silent => Progress::hidden(),
            Form::Table | Form::Json => Progress::new(TICK),
        };
        Output { form, results: Vec::new(), busy, usage: Usage::now() }
    }

    fn print(&self, text: &str) {
        if self.form == Form::Table {
            self.busy.suspend(|| out(text));
        }
    }

    /// A size is being measured: a sign of life for those who wait.
    pub fn measuring(&self, session: &PerfSession, size: u64) {
        let plan = &session.plan;
        let goal = match plan.duration {
            Some(duration) => format!("for {} s", duration.as_secs()),
            None => format!("{} messages", plan.iters),
        };
        let message = format!("{} of {size} bytes, {goal}; Ctrl-C stops", plan.name());
        self.busy.show(move |drawn, _| spinner(drawn, &message));
    }

    /// A server waits.
    pub fn waiting(&self) {
        self.print(banner::WAITING);
    }

    /// Parameters and both ends; after the keys are known.
    pub fn start(&mut self, session: &PerfSession) {
        self.usage = Usage::now();
        let plan = &session.plan;
        let shown = EndFields {
            reads: plan.has_response() && plan.args.verb == super::args::Verb::Read,
            memory: matches!(plan.args.verb, super::args::Verb::Write | super::args::Verb::Read),
        };
        self.print(&parameters(session).block());
        self.print(&banner::end_lines("local", &session.local, shown));
        self.print(&banner::end_lines("remote", &session.remote, shown));
        self.print(table::RULE);
        self.print(&header(session));
    }

    /// A size of a bandwidth test.
    pub fn bandwidth(&mut self, session: &PerfSession, row: &Bandwidth) {
        self.print(&table::bandwidth_row(row, session.plan.args.report_gbits));
        self.results.push(json::PerfResult::Bandwidth(row.into()));
    }

    /// A size of a latency test.
    pub fn latency(&mut self, session: &PerfSession, row: &Pinged) {
        let (latencies, per_second) = (&row.latencies, row.per_second());
        let samples = samples(session, row);
        if session.plan.duration.is_some() {
            let average = latencies.average();
            self.print(&table::timed_latency_row(row.size, row.counted, average, per_second));
        } else {
            self.samples(session, samples.as_deref());
            self.print(&table::latency_row(row.size, row.counted, &latencies.into()));
        }
        if session.plan.args.percentiles {
            self.print(&percentiles(row));
        }
        let result = json::LatencyResult::new(row.size, row.counted, per_second, latencies);
        self.results.push(json::PerfResult::Latency(result.with_samples(samples)));
    }

    fn samples(&self, session: &PerfSession, samples: Option<&[f64]>) {
        if let Some(samples) = samples.filter(|_| self.form == Form::Table) {
            self.print(&table::sample_lines(samples));
            self.print(table::RULE);
            self.print(&header(session));
        }
    }

    /// True if anything was measured.
    pub fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// The end of the table, or all of the JSON, with why the run failed.
    pub fn finish(
        self,
        session: &PerfSession,
        verified: Option<bool>,
        partial: bool,
        failure: Option<&Failure>,
    ) {
        self.busy.clear();
        self.print(table::RULE);
        if self.form == Form::Json {
            let report = json::PerfReport {
                version: json::VERSION,
                test_info: test_info(session),
                results: self.results,
                usage: self.usage.elapsed(),
                setup: session.setup,
                counters: counters(session),
                verified,
                partial,
            };
            json::print_with(&report, failure);
        }
    }
}

/// What `-U` and `-H` ask for, each in its order.
fn samples(session: &PerfSession, row: &Pinged) -> Option<Vec<f64>> {
    let mut samples = row.latencies.samples()?;
    if session.plan.args.report_histogram {
        samples.sort_unstable_by(f64::total_cmp);
    }
    Some(samples)
}

fn header(session: &PerfSession) -> String {
    match (session.plan.is_lat(), session.plan.duration) {
        (false, _) => table::bandwidth_header(session.plan.args.report_gbits),
        (true, Some(_)) => table::TIMED_LATENCY_HEADER.to_owned(),
        (true, None) => table::LATENCY_HEADER.to_owned(),
    }
}

fn percentiles(row: &Pinged) -> String {
    let points = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99];
    let shown = points.map(|p| format!("p{p} {:.2}", row.latencies.percentile(p)));
    format!(" usec: {}\n", shown.join("  "))
}

fn parameters(session: &PerfSession) -> Parameters {
    let plan = &session.plan;
    let sends = session.is_client() || plan.args.bidirectional || plan.is_lat();
    let depth = match (sends, plan.receives()) {
        (true, _) => Some(("TX depth", plan.tx_depth)),
        (false, true) => Some(("RX depth", plan.rx_depth)),
        (false, false) => None,
    };
    let size = plan.largest();
    Parameters {
        title: plan.title(),
        device: session.context.name().to_owned(),
        qps: plan.args.qp,
        connection: plan.connection(),
        srq: plan.args.use_srq,
        depth,
        cq_mod: (!plan.is_lat()).then(|| plan.cq_mod(size)),
        mtu: session.mtu.bytes(),
        gid_index: plan.args.gid_index,
        limit: if plan.has_response() {
            Limit::OutstandingReads(plan.outs)
        } else {
            Limit::Inline(plan.args.inline_size)
        },
    }
}

fn counters(session: &PerfSession) -> BTreeMap<&'static str, u64> {
    let mut counters = BTreeMap::new();
    counters.extend(session.context.counters().into_iter().filter(|(_, value)| *value != 0));
    counters
}

fn test_info(session: &PerfSession) -> json::TestInfo {
    let plan = &session.plan;
    json::TestInfo {
        test: plan.name(),
        role: if session.is_client() { "client" } else { "server" },
        device: session.context.name().to_owned(),
        local: session.context.address().to_string(),
        remote: session.remote.first().map(|k| k.gid.to_ip().to_string()).unwrap_or_default(),
        connection: plan.connection(),
        qps: plan.args.qp,
        mtu: session.mtu.bytes(),
        tx_depth: plan.tx_depth,
        cq_mod: plan.cq_mod(plan.largest()),
        inline: plan.args.inline_size,
        bidirectional: plan.args.bidirectional,
    }
}
