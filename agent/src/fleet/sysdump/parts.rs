//! The parts of a node's archive. A node must not fill the reader's disk, nor write outside of its folder: all that
//! `epguard sysdump` never writes is refused.

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;

/// The folder in a node's archive.
const FOLDER: &str = "epguard-sysdump/";
/// The most parts. A node has about thirty.
const PARTS: usize = 100;
/// The longest name of a part.
const NAME: usize = 80;

/// Names and contents. Errors: the content is no archive, or has something else than a bounded number of plain files.
pub fn read(content: &[u8]) -> Result<BTreeMap<String, &[u8]>> {
    let mut parts = BTreeMap::new();
    let mut archive = tar::Archive::new(content);
    // Headers are taken as they stand, without those of long names or sparse files, which have a size of their own.
    for entry in archive.entries().context("no archive came")?.raw(true) {
        let entry = entry.context("its archive is broken")?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        ensure!(kind.is_file(), "its archive has {name:?}, which is no plain file");
        let name = match name.strip_prefix(FOLDER) {
            Some(name) if is_plain(name) => name.to_owned(),
            _ => bail!("its archive has {name:?}, which is no part of a sysdump"),
        };
        let from = usize::try_from(entry.raw_file_position())?;
        let to = from.saturating_add(usize::try_from(entry.size())?);
        let part = content.get(from..to).context("its archive is cut off")?;
        ensure!(parts.len() < PARTS, "its archive has more than {PARTS} parts");
        if let Some(known) = parts.insert(name, part) {
            bail!("its archive has a part of {} octets twice", known.len());
        }
    }
    Ok(parts)
}

fn is_plain(name: &str) -> bool {
    let is_known = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    !name.is_empty() && name.len() <= NAME && !name.starts_with('.') && name.bytes().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, EntryType, Header};

    fn archive(entries: &[(&str, EntryType)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, kind) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(4);
            header.set_cksum();
            tar.append(&header, &b"here"[..]).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn only_plain_files_of_the_folder_are_parts() {
        let good = archive(&[
            ("epguard-sysdump/a.txt", EntryType::Regular),
            ("epguard-sysdump/b.txt", EntryType::Regular),
        ]);
        assert_eq!(
            read(&good).unwrap().into_iter().collect::<Vec<_>>(),
            [("a.txt".to_owned(), &b"here"[..]), ("b.txt".to_owned(), b"here")]
        );
        for (name, kind) in [
            ("epguard-sysdump/a.txt", EntryType::GNUSparse),
            ("epguard-sysdump/a.txt", EntryType::Symlink),
            ("epguard-sysdump/a.txt", EntryType::Link),
            ("epguard-sysdump/a.txt", EntryType::GNULongName),
            ("epguard-sysdump/a.txt", EntryType::XHeader),
            ("epguard-sysdump/a.txt", EntryType::Directory),
            ("epguard-sysdump/../../a.txt", EntryType::Regular),
            ("epguard-sysdump/.a", EntryType::Regular),
            ("epguard-sysdump/\u{1b}", EntryType::Regular),
            ("/etc/passwd", EntryType::Regular),
            ("a.txt", EntryType::Regular),
        ] {
            assert!(read(&archive(&[(name, kind)])).is_err(), "{name} {kind:?}");
        }
    }

    #[test]
    fn an_archive_has_few_parts_and_each_once() {
        let names: Vec<String> = (0..=PARTS).map(|number| format!("epguard-sysdump/{number}")).collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_str(), EntryType::Regular)).collect();
        assert!(read(&archive(&entries[..PARTS])).is_ok());
        assert!(read(&archive(&entries)).is_err());
        assert!(read(&archive(&[entries[0], entries[0]])).is_err());
        let whole = archive(&entries[..1]);
        assert!(read(&whole[..514]).is_err());
        assert!(read(b"no archive").is_err());
    }
}
