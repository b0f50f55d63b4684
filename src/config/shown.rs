//! The server section as reports show it (methodology 12): as written, without anything secret.

use serde::Serialize;

use super::Server;
use super::placeholder::{Piece, Placeholder, pieces};
use super::secrets::{HIDDEN, hide_shapes, secret_flag, secret_name};

/// What stands in the place of `${canary:NAME}`.
pub const CANARY: &str = "<canary>";

/// The server section as shown. No credential of the configuration, no canary and no home path of
/// the user is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// The command.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables with their values, in the order of the file.
    pub env: Vec<(String, String)>,
    /// The working directory, if one is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Names of the files with the length of their content in bytes, as written.
    pub files: Vec<(String, usize)>,
}

pub(crate) fn server(server: &Server, home: Option<&str>) -> Shown {
    Shown {
        command: text(&server.command, home),
        args: arguments(&server.args, home),
        env: server
            .env
            .iter()
            .map(|(name, value)| (name.clone(), named(name, value, home)))
            .collect(),
        cwd: server.cwd.as_deref().map(|cwd| text(cwd, home)),
        files: server.files.iter().map(|(name, content)| (name.clone(), content.len())).collect(),
    }
}

fn arguments(args: &[String], home: Option<&str>) -> Vec<String> {
    let mut out = Vec::with_capacity(args.len());
    let mut before: Option<&str> = None;
    for arg in args {
        let shown = match before.take() {
            Some(flag) if is_header(flag) => header(arg, home),
            Some(flag) if secret_flag(flag) && !arg.starts_with('-') => hidden(arg, home),
            _ => argument(arg, home),
        };
        if arg.starts_with('-') && !arg.contains('=') {
            before = Some(arg);
        }
        out.push(shown);
    }
    out
}

fn is_header(flag: &str) -> bool {
    matches!(flag, "-H" | "--header" | "--headers")
}

/// `Name: value` is shown by its name alone.
fn header(text: &str, home: Option<&str>) -> String {
    match text.split_once(':') {
        Some((name, _)) => format!("header:{}", name.trim()),
        None => hidden(text, home),
    }
}

/// An argument: `--name=value`, `NAME=value`, or a plain one.
fn argument(arg: &str, home: Option<&str>) -> String {
    let Some((name, value)) = arg.split_once('=') else { return text(arg, home) };
    let plain = name.trim_start_matches('-');
    let is_name = !plain.is_empty()
        && plain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !is_name {
        text(arg, home)
    } else if is_header(name) {
        format!("{name}={}", header(value, home))
    } else if secret_name(name) {
        format!("{name}={}", hidden(value, home))
    } else {
        format!("{name}={}", argument(value, home))
    }
}

/// The value of a variable or flag of that name.
pub(crate) fn named(name: &str, value: &str, home: Option<&str>) -> String {
    if secret_name(name) { hidden(value, home) } else { argument(value, home) }
}

/// A value known to be secret: only its placeholders are shown, and the scheme before one.
fn hidden(value: &str, home: Option<&str>) -> String {
    each_piece(value, |literal| match literal.trim() {
        "" | "Bearer" | "Basic" | "Token" => literal.to_owned(),
        _ => text_without_holes(literal, home, true),
    })
}

/// A value not known to be secret: what looks like a credential is hidden.
fn text(value: &str, home: Option<&str>) -> String {
    // Shapes first on the whole, since a URL's password may stand between placeholders.
    let value = hide_shapes(value);
    each_piece(&value, |literal| text_without_holes(literal, home, false))
}

fn text_without_holes(literal: &str, home: Option<&str>, secret: bool) -> String {
    if secret {
        return HIDDEN.to_owned();
    }
    match home.map(|home| home.trim_end_matches('/')).filter(|home| home.len() > 1) {
        Some(home) => without_home(literal, home),
        None => literal.to_owned(),
    }
}

/// Each home path becomes `~`, where it ends with the text, a separator or another end of a path.
fn without_home(text: &str, home: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(home) {
        let after = &rest[at + home.len()..];
        let ends = after.chars().next().is_none_or(|c| !c.is_alphanumeric() && !"_-.".contains(c));
        out.push_str(&rest[..at]);
        out.push_str(if ends { "~" } else { home });
        rest = after;
    }
    out + rest
}

fn each_piece(text: &str, literal: impl Fn(&str) -> String) -> String {
    // A text that is no template was refused when the configuration was read.
    let Ok(pieces) = pieces(text) else { return HIDDEN.to_owned() };
    pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Literal { raw } => literal(raw),
            Piece::Hole { placeholder: Placeholder::Canary(_), .. } => CANARY.to_owned(),
            Piece::Hole { raw, .. } => raw.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Option<&str> = Some("/home/ann");

    fn args(args: &[&str]) -> Vec<String> {
        arguments(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>(), HOME)
    }

    #[test]
    fn placeholders_stay_and_canaries_are_named_as_such() {
        assert_eq!(named("ROOT", "${sandbox}/x", HOME), "${sandbox}/x");
        assert_eq!(named("API_KEY", "${canary:API_KEY}", HOME), "<canary>");
        assert_eq!(named("AUTH", "Bearer ${env:TOKEN}", HOME), "Bearer ${env:TOKEN}");
    }

    #[test]
    fn credentials_by_name_and_by_shape_are_hidden() {
        assert_eq!(named("API_KEY", "abc", HOME), "<hidden>");
        assert_eq!(named("AUTHOR", "abc", HOME), "abc");
        assert_eq!(named("URL", "https://u:p@h/x", HOME), "https://<hidden>@h/x");
        assert_eq!(named("X", "sk-abcdefghijklmnop1234", HOME), "<hidden>");
    }

    #[test]
    fn arguments_are_judged_with_the_flag_before_them() {
        assert_eq!(
            args(&["--api-key", "abc", "--token=abc", "-v", "plain", "--no-auth", "server.js"]),
            ["--api-key", "<hidden>", "--token=<hidden>", "-v", "plain", "--no-auth", "server.js"],
        );
        assert_eq!(
            args(&[
                "-e",
                "API_KEY=abc",
                "--env=DB_PASSWORD=x",
                "-H",
                "X-Any: y",
                "postgres://a:b@h/d"
            ]),
            [
                "-e",
                "API_KEY=<hidden>",
                "--env=DB_PASSWORD=<hidden>",
                "-H",
                "header:X-Any",
                "postgres://<hidden>@h/d"
            ],
        );
    }

    #[test]
    fn the_home_of_the_user_is_a_tilde() {
        assert_eq!(
            args(&["/home/ann/x", "/home/anna/x", "--d=/home/ann"]),
            ["~/x", "/home/anna/x", "--d=~"]
        );
    }
}
