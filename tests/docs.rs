//! The book holds together: each link in it leads somewhere.

use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md")];
    for entry in std::fs::read_dir(root.join("docs")).expect("there is a book") {
        let path = entry.expect("the folder can be listed").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

/// The anchors of a page, as renderers of Markdown make them of headings.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter_map(|line| line.strip_prefix('#'));
    let letters = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect()
    };
    headings.map(|heading| letters(heading).replace(' ', "-")).collect()
}

/// What stands behind `](` up to `)`.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

#[test]
fn each_link_leads_somewhere() {
    let (mut seen, mut dead) = (0, Vec::new());
    for path in pages() {
        let page = std::fs::read_to_string(&path).expect("a page");
        for link in links(&page).filter(|link| !link.contains("://")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let there = match std::fs::read_to_string(&to) {
                Ok(text) => anchor.is_empty() || anchors(&text).iter().any(|known| known == anchor),
                Err(_) => anchor.is_empty() && to.exists(),
            };
            if !there {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(seen > 50, "{seen} links seen");
    assert!(dead.is_empty(), "{dead:#?}");
}
