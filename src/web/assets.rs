//! The stylesheet, the script and the icon.

use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

use super::plain_text::text;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");

pub(super) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

pub(super) async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

/// Returns the icon of a state, by word and shape like the states themselves: a browser's tab shows it.
pub(super) async fn icon(Path(name): Path<String>) -> Response {
    let (colour, shape) = match name.as_str() {
        "good.svg" => ("#1a7f37", "M9 17l5 5 10-12"),
        "moves.svg" => ("#0969da", "M16 8a8 8 0 0 1 8 8"),
        "back.svg" => ("#9a6700", "M16 8l9 15H7z"),
        "bad.svg" => ("#cf222e", "M10 10l12 12M22 10L10 22"),
        "waits.svg" | "rest.svg" => ("#59636e", "M9 16h14"),
        _ => return text(StatusCode::NOT_FOUND, "there is no such icon\n"),
    };
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" \
         fill=\"{colour}\"/><path d=\"{shape}\" fill=\"none\" stroke=\"#fff\" stroke-width=\"4\" stroke-linecap=\"round\" \
         stroke-linejoin=\"round\"/></svg>"
    );
    ([(header::CONTENT_TYPE, "image/svg+xml")], svg).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_stays_small() {
        assert!(SCRIPT.len() <= 10 * 1024, "{} bytes", SCRIPT.len());
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("eval("), "what is read is never run");
    }
}
