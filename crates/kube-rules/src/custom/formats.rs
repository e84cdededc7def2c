//! The formats of texts. Unknown ones, and those of books, cards and colours, are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::civil::Date;

use super::super::read::is_base64;
use super::super::times;

/// Returns true when a text is of a format.
pub fn is_of(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => times::read(text).is_some(),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "byte" => is_base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "duration" => is_duration(text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_uri(text),
        _ => true,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let split = |separator: char, length: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, length))
    };
    split(':', 2, &[6, 8, 20]) || split('-', 2, &[6, 8, 20]) || split('.', 4, &[3, 4, 10])
}

fn is_uuid(format: &str, text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    let placed = text.char_indices().filter(|(_, c)| *c == '-').all(|(at, _)| matches!(at, 8 | 13 | 18 | 23));
    let version = match format {
        "uuid3" => Some('3'),
        "uuid4" => Some('4'),
        "uuid5" => Some('5'),
        _ => None,
    };
    digits.len() == 32
        && placed
        && digits.iter().all(char::is_ascii_hexdigit)
        && version.is_none_or(|version| digits.get(12) == Some(&version))
}

/// `1h30m`, `-1.5s`; also one number with the name of a unit, `3 days`.
fn is_duration(text: &str) -> bool {
    const LONG: [&str; 10] = ["nano", "micro", "milli", "second", "sec", "minute", "min", "hour", "hr", "day"];
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut left = rest;
    let mut some = false;
    while let Some(end) = left.find(|c: char| !c.is_ascii_digit() && c != '.') {
        if end == 0 || !left[..end].bytes().any(|b| b.is_ascii_digit()) {
            return false;
        }
        let unit_from = left[end..].trim_start();
        let unit_end = unit_from.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit_from.len());
        let unit = &unit_from[..unit_end];
        let known = matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" | "d" | "w")
            || LONG.iter().chain(&["week", "wk"]).any(|name| unit == *name || unit.strip_suffix('s') == Some(name));
        if !known {
            return false;
        }
        some = true;
        left = &unit_from[unit_end..];
    }
    some && left.is_empty()
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| c.is_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    !text.is_empty() && text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.ends_with('>')) {
        (Some(start), true) => &text[start + 1..text.len() - 1],
        _ => text,
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        let plain =
            |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>()[],;:".contains(c));
        plain(local) && plain(domain) && !local.starts_with('.') && !local.ends_with('.') && !local.contains('@')
    })
}

/// A path from the root, or an address with a scheme.
fn is_uri(text: &str) -> bool {
    let plain = !text.contains(|c: char| c.is_control() || c == ' ');
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    plain && (scheme || text.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn texts_are_of_their_formats() {
        let good = [
            ("date", "2020-02-29"),
            ("date-time", "2020-01-01T00:00:00Z"),
            ("duration", "1h30m"),
            ("duration", "3 days"),
            ("mac", "00:11:22:aa:bb:cc"),
            ("cidr", "10.0.0.0/8"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
            ("email", "a@b.c"),
            ("hostname", "a.b"),
            ("uri", "https://a/b"),
            ("byte", "YQ=="),
            ("unheard-of", "?"),
        ];
        let bad = [
            ("date", "2020-02-30"),
            ("duration", "1"),
            ("duration", "h"),
            ("mac", "00:11"),
            ("cidr", "10.0.0.0/33"),
            ("uuid4", "123e4567-e89b-12d3-a456-426614174000"),
            ("email", "a b@c"),
            ("hostname", "-a"),
            ("uri", "x y"),
        ];
        assert!(good.iter().all(|(format, text)| is_of(format, text)), "{good:?}");
        assert!(bad.iter().all(|(format, text)| !is_of(format, text)), "{bad:?}");
    }
}
