//! The system's figures about this process, under the names that every Prometheus client uses.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks a second in `/proc`: the same on every Linux that belay runs on, whatever its kernel's own rate.
const TICKS: f64 = 100.0;

/// Reads `/proc` on each scrape; unreadable values are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(times) = Times::read() {
            let counter = ConstCounter::new(times.cpu_seconds);
            let help = "Total user and system CPU time spent in seconds.";
            counter.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, counter.metric_type())?)?;
            gauge(&mut encoder, "process_start_time_seconds", "Start time of the process.", times.started)?;
            gauge(&mut encoder, "process_threads", "Number of threads.", times.threads)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (field, name, help) in [
            ("VmRSS:", "process_resident_memory_bytes", "Resident memory size in bytes."),
            ("VmSize:", "process_virtual_memory_bytes", "Virtual memory size in bytes."),
        ] {
            if let Some(kibibytes) = number_after(&status, field) {
                gauge(&mut encoder, name, help, kibibytes * 1024.0)?;
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let open = u32::try_from(open.count()).unwrap_or(u32::MAX);
            gauge(&mut encoder, "process_open_fds", "Number of open file descriptors.", f64::from(open))?;
        }
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        if let Some(most) = number_after(&limits, "Max open files") {
            gauge(&mut encoder, "process_max_fds", "Maximum number of open file descriptors.", most)?;
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

/// Returns the number that stands behind a word at the beginning of a line.
fn number_after(text: &str, word: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(word))?.split_whitespace().next()?.parse().ok()
}

struct Times {
    cpu_seconds: f64,
    threads: f64,
    /// Seconds since 1970.
    started: f64,
}

impl Times {
    fn read() -> Option<Times> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let system = fs::read_to_string("/proc/stat").ok()?;
        // The program's name stands in brackets, and may hold blanks and brackets.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Times {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            threads: field(20)?,
            started: number_after(&system, "btime")? + field(22)? / TICKS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_told_as_it_is() {
        let times = Times::read().unwrap();
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let booted = number_after(&fs::read_to_string("/proc/stat").unwrap(), "btime").unwrap();
        let age = booted + uptime - times.started;
        assert!((-2.0..86_400.0).contains(&age), "the process is {age} s old");
        assert!(times.threads >= 1.0);
    }
}
