//! The configuration file.

use belay::config::{Config, ConfigError};

/// Any text is read or refused, the place of what is wrong is in it, and what was read and written is read as the same.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let config = match Config::parse(text, "belay.toml") {
        Ok(config) => config,
        Err(error) => return refused(text, &error),
    };
    let written = toml::to_string(&config).expect("a configuration can be written");
    let again = Config::parse(&written, "belay.toml").unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(again, config, "{written}");
    for source in &config.source {
        let said = source.prune_limit.trim();
        let meant = match said.strip_suffix('%') {
            Some(part) => part.trim().parse::<usize>().map(|part| part * 10),
            None => said.parse(),
        };
        assert_eq!(meant.ok(), Some(source.prune_limit(1000)), "prune_limit {said:?}");
    }
}

fn refused(text: &str, error: &ConfigError) {
    let ConfigError::Syntax { file, message } = error else { return };
    assert!(!message.is_empty());
    let mut parts = file.split(':').skip(1).map(|part| part.parse::<usize>().expect("a number"));
    let Some((line, column)) = parts.next().zip(parts.next()) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(line >= 1 && line <= lines.len(), "{error}: {} lines", lines.len());
    assert!(column >= 1 && column <= lines[line - 1].chars().count() + 1, "{error}");
}
