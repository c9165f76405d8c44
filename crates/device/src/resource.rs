//! The objects of a device, one at a time, with the words of `rdma resource show`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceKind {
    /// The device itself.
    Device,
    /// Its counters.
    Counters,
    /// A queue pair.
    Qp,
    /// A completion queue.
    Cq,
    /// A memory region.
    Mr,
    /// A protection domain.
    Pd,
    /// A shared receive queue.
    Srq,
    /// A connection, or a listener.
    CmId,
}

impl ResourceKind {
    /// All of them.
    pub const ALL: [ResourceKind; 8] = [
        ResourceKind::Device,
        ResourceKind::Counters,
        ResourceKind::Qp,
        ResourceKind::Cq,
        ResourceKind::Mr,
        ResourceKind::Pd,
        ResourceKind::Srq,
        ResourceKind::CmId,
    ];

    /// The word of `rdma resource show`.
    pub const fn name(self) -> &'static str {
        match self {
            ResourceKind::Device => "dev",
            ResourceKind::Counters => "counters",
            ResourceKind::Qp => "qp",
            ResourceKind::Cq => "cq",
            ResourceKind::Mr => "mr",
            ResourceKind::Pd => "pd",
            ResourceKind::Srq => "srq",
            ResourceKind::CmId => "cm_id",
        }
    }
}

/// An object with its named values. As text it is one line of words: the kind, then pairs of name
/// and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    kind: ResourceKind,
    values: Vec<(Cow<'static, str>, String)>,
}

/// Why a line is no object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadResource {
    /// A sort that this version does not know.
    #[error("nothing is called {0:?} here: the other process may be newer")]
    UnknownKind(String),
    /// A name without a value.
    #[error("{0:?} has no value")]
    NoValue(String),
}

impl Resource {
    pub(crate) fn new(kind: ResourceKind) -> Self {
        Resource { kind, values: Vec::new() }
    }

    /// One more value. White space in it would end it, so it is replaced.
    pub(crate) fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl fmt::Display,
    ) -> Self {
        let value = value.to_string();
        let value = if value.is_empty() { "-".to_owned() } else { harmless(&value) };
        self.values.push((name.into(), value));
        self
    }

    /// As [`with`](Self::with), if there is a value.
    pub(crate) fn with_some(self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Kind of the object.
    pub fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// The value with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// All values with their names, in the order in which they are shown.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_ref(), value.as_str()))
    }
}

/// Text of another process, made safe for a terminal: letters, digits and signs, and `_` for
/// anything that could move the cursor or imitate something else.
pub(crate) fn harmless(text: &str) -> String {
    let is_odd = |c: char| !c.is_ascii_graphic() && !c.is_alphanumeric();
    text.replace(is_odd, "_")
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        self.values().try_for_each(|(name, value)| write!(f, " {name} {value}"))
    }
}

impl FromStr for Resource {
    type Err = BadResource;

    fn from_str(line: &str) -> Result<Self, BadResource> {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let kind = ResourceKind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| BadResource::UnknownKind(name.to_owned()))?;
        let mut values = Vec::new();
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| BadResource::NoValue(name.to_owned()))?;
            values.push((Cow::Owned(harmless(name)), harmless(value)));
        }
        Ok(Resource { kind, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a61_what_another_process_says_cannot_change_a_terminal() {
        let line = "qp \u{1b}[2J\u{202e} \u{1b}[31mEVIL\u{7}\u{9b}x lqpn \u{fe0f}5";
        let read: Resource = line.parse().expect("words");
        assert_eq!(read.to_string(), "qp _[2J_ _[31mEVIL__x lqpn _5");
    }

    #[test]
    fn what_is_written_is_read() {
        for kind in ResourceKind::ALL {
            let made = Resource::new(kind).with("lqpn", 17).with_some("srqn", Some(3));
            let text = made.to_string();
            assert_eq!(text, format!("{} lqpn 17 srqn 3", kind.name()));
            assert_eq!(text.parse(), Ok(made));
        }
    }

    #[test]
    fn a_value_is_one_word() {
        let made = Resource::new(ResourceKind::Device)
            .with("name", "my\tnic \n1")
            .with("netdev", "")
            .with_some("slot", None::<u8>);
        assert_eq!(made.to_string(), "dev name my_nic__1 netdev -");
        assert_eq!((made.get("netdev"), made.get("slot")), (Some("-"), None));
    }

    #[test]
    fn lines_of_others_are_refused_in_words() {
        let unknown = "tunnel a b".parse::<Resource>().expect_err("unknown");
        assert_eq!(unknown, BadResource::UnknownKind("tunnel".to_owned()));
        let odd = "qp lqpn".parse::<Resource>().expect_err("odd");
        assert_eq!(odd, BadResource::NoValue("lqpn".to_owned()));
        assert!("".parse::<Resource>().is_err());
    }
}
