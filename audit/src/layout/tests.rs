use super::*;

#[test]
fn paths_are_those_of_tlog_tiles() {
    for (number, width, path) in [
        (0, 256, "tile/0/000"),
        (999, 1, "tile/0/999.p/1"),
        (1_000, 256, "tile/0/x001/000"),
        (1_234_067, 8, "tile/0/x001/x234/067.p/8"),
    ] {
        assert_eq!(tile_path(0, number, width), path);
        assert_eq!(entries_path(number, width), path.replacen("tile/0", "tile/entries", 1));
        let theirs = tlog_tiles::Tile::new(8, 0, number, u32::try_from(width).unwrap(), false).path();
        assert_eq!(theirs.replacen("tile/8/", "tile/", 1), path);
    }
}

#[test]
fn a_bundle_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tile/entries/000.p");
    std::fs::create_dir_all(&path).unwrap();
    let write = |bytes: &[u8]| std::fs::write(path.join("2"), bytes).unwrap();
    let read = || read_entries(folder.path(), 0, 2);
    let mut good = Vec::new();
    push_entry(&mut good, b"one");
    push_entry(&mut good, b"");
    write(&good);
    assert_eq!(read().unwrap(), [b"one".to_vec(), Vec::new()]);
    for bad in [&good[..good.len() - 1], &good[..5], &[0, 9, 1], &[good.as_slice(), &[0]].concat()] {
        write(bad);
        assert!(matches!(read(), Err(AuditError::Broken(broken)) if broken.why == Why::Form), "{bad:?}");
    }
    write(&vec![0; TILE_WIDTH * (LEAF_BYTES_MAX + 2) + 1]);
    assert!(read().is_err(), "more than a bundle can have");
    // The full one serves where the partial one was removed.
    std::fs::remove_dir_all(&path).unwrap();
    let full: Vec<u8> = (0..256).flat_map(|_| [0, 1, 7]).collect();
    std::fs::write(folder.path().join("tile/entries/000"), full).unwrap();
    assert_eq!(read().unwrap(), [[7], [7]]);
}
