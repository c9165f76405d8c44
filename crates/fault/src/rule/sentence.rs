//! A rule in words.

use std::time::Duration;

use super::matcher::{PsnMatch, QueuePairMatch};
use super::quantity::{NumberRange, ShowRate, ShowTime};
use super::{Action, Answer, Matcher, Options, Rule};
use crate::Direction;

impl Rule {
    /// What the rule does to which packets, as one sentence.
    pub(crate) fn sentence(&self) -> String {
        let direction = match self.matcher.direction {
            Some(Direction::Tx) => "packets that leave",
            Some(Direction::Rx) => "packets that arrive",
            None => "packets of both directions",
        };
        let conditions = conditions(&self.matcher);
        let conditions = if conditions.is_empty() {
            String::new()
        } else {
            format!(", {}", conditions.join(", "))
        };
        let actions = self.actions.iter().map(in_words).collect::<Vec<_>>().join(", and ");
        let options = option_words(&self.options);
        let options =
            if options.is_empty() { String::new() } else { format!(" ({})", options.join("; ")) };
        format!("Of {direction}{conditions}: {actions}{options}.")
    }
}

fn range_words(noun: &str, range: NumberRange) -> String {
    format!("{noun} {range}")
}

fn conditions(matcher: &Matcher) -> Vec<String> {
    let mut words = Vec::new();
    let mut put = |text: Option<String>| words.extend(text);
    put(matcher.operations.as_ref().map(|set| format!("operation {set}")));
    put(matcher.part.map(|part| format!("{part} of their message")));
    put(matcher.queue_pair.map(|queue_pair| match queue_pair {
        QueuePairMatch::Number(number) => format!("to queue pair {number:#x}"),
        QueuePairMatch::Index(index) => {
            format!("to queue pair no. {} to appear", u64::from(index) + 1)
        }
    }));
    put(matcher.psn.map(|psn| match psn {
        PsnMatch::Number(_) => format!("PSN {psn}"),
        PsnMatch::Offset(_) => format!("PSN {psn} from the first one"),
        PsnMatch::Every(period) => format!("each PSN no. {period}, counted from the first one"),
    }));
    put(matcher.iteration.map(|range| range_words("the PSN seen for time no.", range)));
    put(matcher.message.map(|range| range_words("message no.", range)));
    put(matcher.packet.map(|range| range_words("packet no.", range)));
    put(matcher.length.map(|range| format!("with {range} bytes of payload")));
    put(matcher.either.map(|prefix| format!("from or to {prefix}")));
    put(matcher.source.map(|prefix| format!("from {prefix}")));
    put(matcher.destination.map(|prefix| format!("to {prefix}")));
    put(matcher.ecn.map(|ecn| format!("ECN field {ecn}")));
    put(matcher.syndrome.map(|range| range_words("syndrome", range)));
    words
}

fn in_words(action: &Action) -> String {
    match *action {
        Action::Drop => "drop".to_owned(),
        Action::Pass => "let pass".to_owned(),
        Action::Duplicate(copies) => format!("add copies: {copies}"),
        Action::Delay { time, jitter: Duration::ZERO } => format!("delay by {}", ShowTime(time)),
        Action::Delay { time, jitter } => {
            let (time, jitter) = (ShowTime(time), ShowTime(jitter));
            format!("delay by {time}, more or less by up to {jitter}")
        }
        Action::Hold { others, limit } => {
            format!("hold until {others} others have passed, at most {}", ShowTime(limit))
        }
        Action::Rate { bits_per_second, queue } => {
            let rate = ShowRate(bits_per_second);
            format!("send at {rate} per second with {queue} bytes waiting at most")
        }
        Action::Mark => "mark \"congestion experienced\"".to_owned(),
        Action::Corrupt { area, byte, bit } => {
            let bit = bit.map_or("a bit".to_owned(), |bit| format!("bit {bit}"));
            let byte = byte.map_or("any byte".to_owned(), |byte| format!("byte {byte}"));
            format!("turn {bit} of {byte} round ({})", area.name())
        }
        Action::Truncate(bytes) => format!("cut to {bytes} bytes"),
        Action::Set { field, value } => format!("set {} to {value}", field.name()),
        Action::KeepIcrc => "leave the ICRC as it was".to_owned(),
        Action::FixIcrc => "make the ICRC right".to_owned(),
        Action::Answer(Answer::Cnp) => "send a CNP back".to_owned(),
        Action::Answer(answer) => format!("answer in place of the receiver with {answer}"),
        Action::Mute(time) => {
            format!("drop, with all that follow between the same addresses for {}", ShowTime(time))
        }
        Action::Stop => "end all rules".to_owned(),
    }
}

fn option_words(options: &Options) -> Vec<String> {
    let mut words = Vec::new();
    let mut put = |text: Option<String>| words.extend(text);
    put(options.probability.map(|p| format!("{} % of them at random", p.percent())));
    put(options.bursts.map(|model| {
        let (to_bad, to_good) = (model.to_bad.percent(), model.to_good.percent());
        format!("in bursts: {to_bad} % begin one, {to_good} % end it")
    }));
    put(options.skip.map(|skip| format!("not the first {skip}")));
    put(options.every.map(|every| format!("one of {every}")));
    put(options.count.map(|count| format!("at most {count}")));
    put(options.from.map(|from| format!("from {} on", ShowTime(from))));
    put(options.until.map(|until| format!("until {}", ShowTime(until))));
    put(options.then.as_ref().map(|then| format!("then \"{then}\" begins")));
    put(options.also.then(|| "later rules see them too".to_owned()));
    put(options.quiet.then(|| "without events".to_owned()));
    words
}
