//! The refusals of the parser of events, in words for people who write manifests.

use granit_parser::{ErrorKind, ScanError};

use super::{Span, YamlComplaint};

/// Returns the complaint for an error of the parser at `span`. It never repeats the text, which may be secret.
pub(super) fn complaint(error: &ScanError, span: Span) -> YamlComplaint {
    let (message, hint) = words(error.kind());
    let complaint = match message {
        "" => YamlComplaint::new(span, error.kind().to_string()),
        message => YamlComplaint::new(span, message),
    };
    if hint.is_empty() { complaint } else { complaint.hint(hint) }
}

/// Returns a message (empty: the parser's own will do) and a hint (empty: none).
fn words(kind: &ErrorKind) -> (&'static str, &'static str) {
    use ErrorKind as E;
    match kind {
        E::TabNotAllowed | E::TabInBlockIndentation | E::TabInIndentation | E::TabInPlainScalar => {
            ("a tab stands where only spaces may indent", "indent with spaces")
        }
        E::TabAtBlockScalarStart => ("the text begins with a tab", "indent with spaces"),
        E::MappingValueNotAllowed | E::InvalidColonPlacement => {
            ("a second `: ` in one value, or a line that is indented too far", "put a value with `: ` in quotes")
        }
        E::SimpleKeyExpected | E::ExpectedBlockMappingKey => {
            ("a key with `:` is expected here", "indent it like the keys beside it")
        }
        E::InvalidSimpleKey => ("a key must fit on one line of at most 1024 characters, with its `:`", ""),
        E::ExpectedBlockSequenceEntry => ("an item with `- ` is expected here", "indent it like the items beside it"),
        E::BlockSequenceEntryNotAllowed | E::InvalidBlockEntryWhitespace => {
            ("a list may not begin here", "begin it on a line of its own")
        }
        E::BlockEntryInFlowCollection => ("`- ` may not stand between brackets", "separate the items with commas"),
        E::ExpectedFlowMappingSeparator => ("`,` or `}` is expected here", ""),
        E::ExpectedFlowSequenceSeparator => ("`,` or `]` is expected here", ""),
        E::UnexpectedEofFlowSequence | E::UnexpectedEofFlowMapping | E::UnexpectedEofImplicitFlowMapping => {
            ("a value is missing here, or a bracket is never closed", "")
        }
        E::UnclosedFlowCollection { .. } => ("a bracket is never closed", ""),
        E::UnexpectedEofBlockMapping | E::UnexpectedEofBlockSequence | E::UnexpectedEof | E::ExpectedNodeContent => {
            ("a value is expected here", "put it in quotes if it begins with an indicator")
        }
        E::MisplacedFlowCollectionEnd | E::MismatchedFlowCollectionEnd { .. } => {
            ("the closing bracket does not fit the one that is open", "")
        }
        E::UnclosedQuotedScalar => ("a quote is never closed", ""),
        E::DocumentIndicatorInQuotedScalar => ("a quoted text goes on past the end of the document", ""),
        E::InvalidTrailingSingleQuotedScalar | E::InvalidTrailingDoubleQuotedScalar => {
            ("text stands behind the closing quote", "put all of it between the quotes")
        }
        E::UnknownQuotedScalarEscape => {
            ("not an escape that YAML knows", "write \\\\ for a backslash, or use single quotes")
        }
        E::UnknownAnchor => ("the alias has no anchor above it", "a plain text that begins with * needs quotes"),
        E::UndeclaredTagHandle => ("a tag with an unknown handle", "a plain text that begins with ! needs quotes"),
        E::DirectiveDisallowed | E::MissingDocumentEndBeforeDirective => {
            ("kubectl reads no directives", "leave out the line that begins with %")
        }
        E::UnexpectedCharacter { .. } => ("no value may begin with this character", "put the value in quotes"),
        E::InvalidIndentation | E::InvalidQuotedScalarIndent | E::InvalidFlowScalarIndent => {
            ("the line is indented too little for where it belongs", "")
        }
        E::InvalidBlockScalarIndent => ("the line is indented less than the text that it belongs to", ""),
        E::CommentNotSeparated => ("a comment needs a space before its #", ""),
        E::PlainScalarStartsWithDashFlowIndicator => ("a - alone between brackets needs quotes", ""),
        E::MissingAnchorOrAliasName => {
            ("a name is expected behind & or *", "a plain text that begins with one needs quotes")
        }
        E::MappingKeyNotAllowed => ("`? ` may not stand here", "put the value in quotes"),
        E::InvalidQuotedScalarHexEscape | E::InvalidUnicodeEscape => {
            ("the escape does not have the digits that it needs", "")
        }
        E::ZeroBlockScalarIndent | E::InvalidBlockScalarHeader => {
            ("behind | or > only a digit, + or -, and a comment may follow", "begin the text on the next line")
        }
        E::InvalidTagTerminator | E::MissingTagUri | E::UnclosedVerbatimTag | E::ExpectedTagBang => {
            ("not a tag", "a plain text that begins with ! needs quotes")
        }
        _ => ("", ""),
    }
}
