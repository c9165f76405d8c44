//! What the devices of all processes said about themselves, for `uroce res` and `uroce stat`.

use std::path::Path;

use serde_json::{Value, json};
use uroce_device::{DeviceReport, Resource, ResourceKind, Silent, SilentReason, device_reports};

use crate::failure::Failure;
use crate::global::Global;
use crate::report::{json, out};

/// The answers.
#[derive(Debug)]
pub struct Survey {
    /// Those who told what they have.
    pub reports: Vec<DeviceReport>,
    silent: Vec<Silent>,
    /// The process that was asked about.
    pid: Option<u32>,
}

impl Survey {
    /// Asks all devices, or those of one process, or those that `-d` or `--address` names.
    ///
    /// # Errors
    /// Exit 3 when the system does not show who is there.
    pub fn take(global: &Global, pid: Option<u32>) -> Result<Survey, Failure> {
        let hidden = |error| {
            Failure::environment(format!("the system does not tell who has a device open: {error}"))
                .help("mount /proc")
        };
        let mut survey = Survey { reports: Vec::new(), silent: Vec::new(), pid };
        for answer in device_reports().map_err(hidden)? {
            match answer {
                Ok(report) => survey.reports.push(report),
                Err(silent) => survey.silent.push(silent),
            }
        }
        if let Some(pid) = pid {
            survey.reports.retain(|report| report.pid == pid);
            survey.silent.retain(|silent| silent.pid == pid.to_string());
        }
        survey.reports.retain(|report| is_wanted(global, &report.resources[0]));
        Ok(survey)
    }

    /// The processes of devices that did not tell what they have.
    pub fn silent(&self) -> impl Iterator<Item = &str> {
        self.silent.iter().map(|silent| silent.pid.as_str())
    }

    /// One line for each object of a sort; of its values those that `wanted` takes.
    pub fn print_lines(&self, kind: ResourceKind, wanted: impl Fn(&str) -> bool) {
        for (report, resource) in self.of_kind(kind) {
            out(&line(report, resource, &wanted));
        }
    }

    /// The objects of a sort as a list called `name`.
    pub fn print_json(&self, name: &str, kind: ResourceKind) {
        let all: Vec<_> =
            self.of_kind(kind).map(|(report, resource)| as_json(report, resource)).collect();
        json::print(&json!({ "version": json::VERSION, name: all }));
    }

    fn of_kind(&self, kind: ResourceKind) -> impl Iterator<Item = (&DeviceReport, &Resource)> {
        self.reports.iter().flat_map(move |report| {
            let found = report.resources.iter().filter(move |found| found.kind() == kind);
            found.map(move |resource| (report, resource))
        })
    }

    /// Tells who did not answer. Devices of other users are no failure, since nobody asked for them by name.
    ///
    /// # Errors
    /// Exit 3 if the process that was asked about is of another user.
    pub fn finish(&self) -> Result<(), Failure> {
        if let (Some(_), [], [silent, ..]) = (self.pid, &self.reports[..], &self.silent[..])
            && matches!(silent.reason, SilentReason::OtherUser(_))
        {
            return Err(Failure::environment(silent).help("use sudo"));
        }
        for silent in &self.silent {
            eprintln!("note: {silent}");
        }
        if self.reports.is_empty() && self.silent.is_empty() {
            eprintln!("note: {}", self.nothing());
        }
        Ok(())
    }
}

impl Survey {
    /// Why there is nothing to show.
    fn nothing(&self) -> String {
        match self.pid {
            Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => {
                format!("there is no process {pid}")
            }
            Some(pid) => format!("process {pid} has no device open here (or no such one)"),
            None => "no process has a device open here (or no such one)".to_owned(),
        }
    }
}

/// The device is the one that the options of every command name, or they name none.
fn is_wanted(global: &Global, device: &Resource) -> bool {
    let (name, address) = (device.get("name"), device.get("address"));
    let by_name =
        global.ib_dev.as_deref().is_none_or(|wanted| [name, address].contains(&Some(wanted)));
    by_name && global.address.is_none_or(|wanted| address == Some(&wanted.to_string()))
}

fn line(report: &DeviceReport, resource: &Resource, wanted: impl Fn(&str) -> bool) -> String {
    let device = report.resources[0].get("name").unwrap_or("-");
    let mut line = format!("link {device}/1");
    for (name, value) in resource.values().filter(|(_, value)| wanted(value)) {
        line += &format!(" {name} {value}");
    }
    line + &format!(" pid {} comm {}\n", report.pid, report.comm)
}

/// Its values, and whose it is.
pub fn as_json(report: &DeviceReport, resource: &Resource) -> Value {
    let mut object = json!({
        "ifname": report.resources[0].get("name"),
        "pid": report.pid,
        "user": report.user,
        "comm": report.comm,
    });
    for (name, value) in resource.values() {
        object[name] = value.parse::<u64>().map_or_else(|_| value.into(), Value::from);
    }
    object
}
