//! From a file or a command line to a checked configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use serde_saphyr::Spanned;

use super::error::{ConfigError, ErrorKind, Place, Source, quoted};
use super::file::{AcceptFile, Entries, File, ServerFile, SqlToolFile, Text};
use super::placeholder::{Piece, Placeholder, pieces};
use super::warn::{self, Warning};
use super::yaml::{self, listed};
use super::{
    Accept, CheckOverride, Config, Known, Limits, Profile, Protocol, Server, SqlTool, ToolOverride,
    World,
};
use crate::letter::Letter;
use crate::text::nearest;

/// The largest file that is read, in bytes.
pub const MAX_FILE: u64 = 1 << 20;

/// Reads a configuration file. Relative paths in it start from its folder.
///
/// # Errors
/// The file is missing, unreadable, no regular file, larger than 1 MiB or no UTF-8; or what
/// [`parse`] says.
pub fn load(path: &Path, known: &Known<'_>) -> Result<(Config, Vec<Warning>), ConfigError> {
    let name = path.display().to_string();
    let fail =
        |message: String, help: &str| ConfigError::whole(ErrorKind::Read, &name, message, help);
    let about = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => fail(
            "there is no such file".into(),
            "name another file, or give the server itself: `sealmark run -- COMMAND`",
        ),
        _ => {
            fail(format!("the file cannot be read: {error}"), "check the path and its permissions")
        }
    })?;
    if about.is_dir() {
        return Err(fail("it is a directory".into(), "name the file in it, such as sealmark.yaml"));
    }
    // A pipe or a device could give bytes without end, or none.
    if !about.is_file() {
        return Err(fail("it is no regular file".into(), "write the configuration to a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| {
            fail(format!("the file cannot be read: {error}"), "check the path and its permissions")
        })?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(fail(
            format!("the file is larger than {MAX_FILE} bytes"),
            "a configuration is small: check that it is the right file",
        ));
    }
    let text = decoded(&name, bytes)?;
    let (mut config, _) = parse(&text, &name, known)?;
    config.file = Some(path.to_owned());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    config.folder = absolute(parent.unwrap_or(Path::new(".")));
    let warnings = warn::warnings(&config);
    Ok((config, warnings))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn decoded(name: &str, bytes: Vec<u8>) -> Result<String, ConfigError> {
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let help = if utf16 { "save it as UTF-8; it is UTF-16" } else { "save it as text in UTF-8" };
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        let place = place_at(&String::from_utf8_lossy(&bytes[..at]), usize::MAX, 1);
        let source = Source { name, text: "" };
        return Err(ConfigError::at(ErrorKind::Read, source, place, "the file is no text", help));
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let source = Source { name, text: "" };
        let place = place_at(&sound, usize::MAX, 1);
        ConfigError::at(ErrorKind::Read, source, place, "the file is no UTF-8", help)
    })
}

/// The place of a byte offset in a text; past its end means its end.
fn place_at(text: &str, offset: usize, width: usize) -> Place {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Place {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        width: u32::try_from(width).unwrap_or(u32::MAX).max(1),
    }
}

/// Reads a configuration from its text, known by `name`. Relative paths start from the current
/// directory.
///
/// # Errors
/// The text is no YAML; a key is unknown, missing or doubled; a value is not what its key takes; a
/// name is unknown; a placeholder is unknown, unclosed or without a value; a feature is not in this
/// version. Each names line, column and what to write.
pub fn parse(
    text: &str,
    name: &str,
    known: &Known<'_>,
) -> Result<(Config, Vec<Warning>), ConfigError> {
    if text.len() as u64 > MAX_FILE {
        return Err(ConfigError::whole(
            ErrorKind::Read,
            name,
            format!("the text is larger than {MAX_FILE} bytes"),
            "a configuration is small: check that it is the right file",
        ));
    }
    // Byte offsets of the parser count from behind the mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source { name, text };
    let file: File = yaml::read(source)?;
    let reader = Reader { source, known };
    let config = reader.config(file)?;
    let warnings = warn::warnings(&config);
    Ok((config, warnings))
}

/// A configuration from `run -- COMMAND …`: that server, everything else standard. Placeholders
/// work in every argument.
///
/// # Errors
/// There is no command, or a placeholder in it is unknown, unclosed or without a value.
pub fn from_command(argv: &[String]) -> Result<(Config, Vec<Warning>), ConfigError> {
    let joined = argv.join(" ");
    let source = Source { name: "command line", text: &joined };
    let Some((command, args)) =
        argv.split_first().filter(|(command, _)| !command.trim().is_empty())
    else {
        return Err(ConfigError::whole(
            ErrorKind::Value,
            source.name,
            "there is no command to run",
            "write it behind `--`, such as `sealmark run -- npx -y @scope/server@1.2.3`",
        ));
    };
    let reader = Reader { source, known: &Known::default() };
    let mut from = 0;
    for arg in argv {
        reader.template(arg, from..from + arg.len())?;
        from += arg.len() + 1;
    }
    let server = Server {
        command: command.clone(),
        args: args.to_vec(),
        env: Vec::new(),
        cwd: None,
        files: Vec::new(),
    };
    let config = standard(server);
    let warnings = warn::warnings(&config);
    Ok((config, warnings))
}

fn standard(server: Server) -> Config {
    Config {
        server,
        packs: None,
        tools: BTreeMap::new(),
        sql_tools: Vec::new(),
        pg: None,
        embedded: true,
        checks: BTreeMap::new(),
        profile: Profile::default(),
        world: World::default(),
        fail_under: Letter::A,
        accept: Vec::new(),
        limits: Limits::default(),
        file: None,
        folder: absolute(Path::new(".")),
        server_line: 1,
    }
}

/// Calls `each` with every text inside a JSON value.
pub(crate) fn texts_of(value: &serde_json::Value, each: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::String(text) => each(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts_of(item, each)),
        serde_json::Value::Object(map) => map.values().for_each(|value| texts_of(value, each)),
        _ => {}
    }
}

struct Reader<'a> {
    source: Source<'a>,
    known: &'a Known<'a>,
}

impl Reader<'_> {
    fn fail<T>(
        &self,
        kind: ErrorKind,
        at: &Spanned<T>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> ConfigError {
        let place = yaml::place(self.source, at.referenced);
        ConfigError::at(kind, self.source, place, message, help)
    }

    fn value<T>(&self, at: &Spanned<T>, message: impl Into<String>, help: &str) -> ConfigError {
        self.fail(ErrorKind::Value, at, message, help)
    }

    fn later<T>(&self, at: &Spanned<T>, what: &str, help: &str) -> ConfigError {
        let message = format!("{what} is not in this version");
        self.fail(ErrorKind::NotInThisVersion, at, message, help)
    }

    fn config(&self, file: File) -> Result<Config, ConfigError> {
        let server_line = u32::try_from(file.server.referenced.line()).unwrap_or(1);
        let server = self.server(&file.server)?;
        if let Some(world) = file.world.as_ref().filter(|world| world.value == World::Sealed) {
            return Err(self.later(world, "the sealed world", "write `world: open`, or remove it"));
        }
        let profile = file.profile.unwrap_or_default();
        let mut limits = Limits::default();
        if profile == Profile::Deep {
            limits.probe_string = Limits::DEEP_PROBE_STRING;
        }
        limits.set(&file.limits.unwrap_or_default(), &file.timeouts.unwrap_or_default()).map_err(
            |bad| {
                let help = format!("write {}", bad.range);
                self.value(&Spanned::new((), bad.at, bad.at), "the value is out of range", &help)
            },
        )?;
        let accept = file.accept.unwrap_or_default();
        Ok(Config {
            packs: file.packs.map(|packs| self.packs(&packs)).transpose()?,
            tools: self.tools(file.tools.unwrap_or_default())?,
            sql_tools: self.sql_tools(file.sql_tools.as_deref())?,
            checks: self.checks(file.checks.unwrap_or_default())?,
            accept: accept.into_iter().map(|entry| self.accept(entry)).collect::<Result<_, _>>()?,
            profile,
            fail_under: file.fail_under.unwrap_or(Letter::A),
            limits,
            server_line,
            ..standard(server)
        })
    }

    fn server(&self, file: &Spanned<ServerFile>) -> Result<Server, ConfigError> {
        let ServerFile { command, args, env, cwd, files, url, headers, start, protocol } =
            &file.value;
        if let (Some(Text(command)), Some(_)) = (command, url) {
            let help =
                "keep `command` for a stdio server; a command that opens a url goes to `start`";
            return Err(self.value(command, "the server has both a `command` and a `url`", help));
        }
        const HTTP: &str = "test the server over stdio, with `command`; HTTP comes with pack http";
        if let Some(Text(url)) = url {
            return Err(self.later(url, "`url`, an HTTP server,", HTTP));
        }
        if let Some(start) = start {
            return Err(self.later(start, "`start`, the command of an HTTP server,", HTTP));
        }
        if headers.is_some() {
            return Err(self.later(file, "`headers`, of an HTTP server,", HTTP));
        }
        if let Some(protocol) = protocol.as_ref().filter(|p| p.value != Protocol::Auto) {
            let help = "write `protocol: auto`, or remove it";
            return Err(self.later(protocol, "forcing an era of the protocol", help));
        }
        let Some(Text(command)) = command else {
            let help = "add `command:`, the program that starts the server";
            return Err(self.fail(ErrorKind::Key, file, "the server has no command", help));
        };
        if command.value.trim().is_empty() {
            return Err(self.value(command, "the command is empty", "name the program to start"));
        }
        let mut server = Server {
            command: self.text(command)?,
            args: Vec::new(),
            env: Vec::new(),
            cwd: cwd.as_ref().map(|Text(cwd)| self.text(cwd)).transpose()?,
            files: Vec::new(),
        };
        for Text(arg) in args.iter().flatten() {
            server.args.push(self.text(arg)?);
        }
        for (name, Text(value)) in env.iter().flat_map(|Entries(entries)| entries) {
            if name.value.is_empty() || name.value.contains(['=', '\0']) {
                let help = "use a name such as `API_KEY`";
                return Err(self.value(name, "this cannot be the name of a variable", help));
            }
            server.env.push((name.value.clone(), self.text(value)?));
        }
        for (name, Text(content)) in files.iter().flat_map(|Entries(entries)| entries) {
            let path = Path::new(&name.value);
            let below = path.components().all(|part| matches!(part, Component::Normal(_)));
            if name.value.is_empty() || !below || name.value.contains(['\\', '\0', ':']) {
                let help = "use a name such as `settings.json`; the file is written to ${files}";
                return Err(self.value(name, "this cannot be the name of a file", help));
            }
            server.files.push((name.value.clone(), self.text(content)?));
        }
        Ok(server)
    }

    /// The text of a scalar, after its placeholders were checked.
    fn text(&self, text: &Spanned<String>) -> Result<String, ConfigError> {
        if text.value.contains('\0') {
            let help = "remove it: no argument, variable or path can hold one";
            return Err(self.value(text, "the text holds a NUL character", help));
        }
        self.template(&text.value, self.range(text))?;
        Ok(text.value.clone())
    }

    /// The bytes of the source a value was read from.
    fn range<T>(&self, at: &Spanned<T>) -> std::ops::Range<usize> {
        let span = at.defined.span();
        let from = span.byte_offset().and_then(|from| usize::try_from(from).ok()).unwrap_or(0);
        let len = span.byte_len().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
        from..from.saturating_add(len)
    }

    fn template(&self, text: &str, range: std::ops::Range<usize>) -> Result<(), ConfigError> {
        // In the source, a text may be quoted or folded; what is written there of the placeholder
        // is found by looking for it.
        let fail = |raw: &str, message: String, help: String, kind| {
            let written = self.source.text.get(range.clone()).unwrap_or("");
            let needle = if written.contains(raw) { raw } else { "${" };
            let at = range.start + written.find(needle).unwrap_or(0);
            let place = place_at(self.source.text, at, raw.chars().count());
            ConfigError::at(kind, self.source, place, message, help)
        };
        let pieces = pieces(text).map_err(|(fault, raw)| {
            let kind = match fault {
                super::Fault::Later(_) => ErrorKind::NotInThisVersion,
                _ => ErrorKind::Placeholder,
            };
            fail(raw, fault.to_string(), fault.help(), kind)
        })?;
        for piece in pieces {
            let Piece::Hole { raw, placeholder: Placeholder::Env(name) } = piece else { continue };
            let problem = match std::env::var(&name) {
                Ok(value) if !value.contains('\0') => continue,
                Err(std::env::VarError::NotPresent) => "is not set",
                _ => "is no UTF-8 text",
            };
            return Err(fail(
                raw,
                format!("the variable {name} {problem} in this environment"),
                format!("set {name} before the run, or use `${{canary:{name}}}`"),
                ErrorKind::Placeholder,
            ));
        }
        Ok(())
    }

    fn packs(&self, packs: &Spanned<Vec<Text>>) -> Result<Vec<String>, ConfigError> {
        if packs.value.is_empty() {
            let help = "name at least one, or remove the key to run all that apply";
            return Err(self.value(packs, "the list of packs is empty", help));
        }
        let mut seen = BTreeSet::new();
        for Text(pack) in &packs.value {
            let name = pack.value.as_str();
            if self.known.later_packs.contains(&name) {
                let help = format!("remove it; the packs here are {}", listed(self.known.packs));
                return Err(self.later(pack, &format!("pack {name}"), &help));
            }
            if !self.known.packs.contains(&name) {
                let help = self.suggestion(name, self.known.packs, "packs");
                return Err(self.value(pack, format!("unknown pack {}", quoted(name)), &help));
            }
            if !seen.insert(name) {
                return Err(self.value(
                    pack,
                    format!("pack {name} is named twice"),
                    "name it once",
                ));
            }
        }
        Ok(packs.value.iter().map(|Text(pack)| pack.value.clone()).collect())
    }

    fn suggestion(&self, name: &str, known: &[&str], what: &str) -> String {
        match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.len() <= 20 => format!("the {what} are {}", listed(known)),
            None => "`sealmark list-checks` names them all".to_owned(),
        }
    }

    fn known_check(&self, id: &Spanned<String>) -> Result<(), ConfigError> {
        let ids: Vec<&str> = self.known.checks.iter().map(|(id, ..)| *id).collect();
        if ids.contains(&id.value.as_str()) {
            return Ok(());
        }
        let help = self.suggestion(&id.value, &ids, "checks");
        Err(self.value(id, format!("unknown check {}", quoted(&id.value)), &help))
    }

    fn checks(
        &self,
        checks: Entries<super::file::CheckFile>,
    ) -> Result<BTreeMap<String, CheckOverride>, ConfigError> {
        let mut out = BTreeMap::new();
        for (id, check) in checks.0 {
            self.known_check(&id)?;
            if check.enabled.is_none() && check.severity.is_none() {
                let help = "set `enabled` or `severity`, or remove the entry";
                return Err(self.value(&id, "the entry changes nothing", help));
            }
            out.insert(
                id.value,
                CheckOverride { enabled: check.enabled, severity: check.severity },
            );
        }
        Ok(out)
    }

    fn tools(
        &self,
        tools: Entries<super::file::ToolFile>,
    ) -> Result<BTreeMap<String, ToolOverride>, ConfigError> {
        let mut out = BTreeMap::new();
        for (name, tool) in tools.0 {
            let given = tool.arguments.unwrap_or_default().0;
            if tool.class.is_none() && given.is_empty() {
                let help = "set `class` or `arguments`, or remove the entry";
                return Err(self.value(&name, "the entry changes nothing", help));
            }
            let mut arguments = serde_json::Map::new();
            for (argument, value) in given {
                let mut checked = Ok(());
                // The span of a list or map is its first character.
                let from = self.range(&value).start;
                texts_of(&value.value, &mut |text| {
                    if checked.is_ok() {
                        checked = self.template(text, from..self.source.text.len());
                    }
                });
                checked?;
                arguments.insert(argument.value, value.value);
            }
            out.insert(name.value, ToolOverride { class: tool.class, arguments });
        }
        Ok(out)
    }

    fn sql_tools(&self, entries: Option<&[SqlToolFile]>) -> Result<Vec<SqlTool>, ConfigError> {
        let mut out: Vec<SqlTool> = Vec::new();
        for SqlToolFile { tool: Text(tool), argument: Text(argument) } in entries.unwrap_or(&[]) {
            for text in [tool, argument] {
                if text.value.trim().is_empty() {
                    let help = "name the tool and its argument as the server lists them";
                    return Err(self.value(text, "the name is empty", help));
                }
            }
            if out.iter().any(|known| known.tool == tool.value) {
                let help = "name each tool once";
                return Err(self.value(tool, "the tool is named twice", help));
            }
            out.push(SqlTool { tool: tool.value.clone(), argument: argument.value.clone() });
        }
        Ok(out)
    }

    fn accept(&self, entry: AcceptFile) -> Result<Accept, ConfigError> {
        let AcceptFile { check: Text(check), rule, reason: Text(reason), until: Text(until) } =
            entry;
        self.known_check(&check)?;
        if reason.value.trim().is_empty() {
            let help = "say why the failure is accepted; the report shows it";
            return Err(self.value(&reason, "the reason is empty", help));
        }
        if let Some(Text(rule)) = rule.as_ref().filter(|Text(rule)| rule.value.trim().is_empty()) {
            let help = "name the rule of the failure, or remove the key to accept any";
            return Err(self.value(rule, "the rule is empty", help));
        }
        let date = until.value.parse::<jiff::civil::Date>().ok();
        // The parser also takes forms without hyphens and with a time.
        let Some(date) = date.filter(|date| date.to_string() == until.value) else {
            let message = format!("{} is no date", quoted(&until.value));
            return Err(self.value(
                &until,
                message,
                "write it as year-month-day, such as 2027-01-31",
            ));
        };
        Ok(Accept {
            line: u32::try_from(check.referenced.line()).unwrap_or(0),
            check: check.value,
            rule: rule.map(|Text(rule)| rule.value),
            reason: reason.value,
            until: date,
        })
    }
}
