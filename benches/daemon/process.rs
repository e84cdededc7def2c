//! What this process has used, as Linux counts it.

/// The processor time, in milliseconds.
#[allow(dead_code, reason = "several programs share this file")]
pub fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    // Linux counts in hundredths of a second everywhere where belay runs.
    ticks * 10.0
}

/// The most memory so far, in MiB.
pub fn most_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
