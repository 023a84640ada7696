use super::*;

/// The example of C2SP's signed-note: a key and a note that others made.
const SPEC_KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const SPEC_NOTE: &str = "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

#[test]
fn a_note_of_others_is_verified() {
    let key = NoteKey::parse(SPEC_KEY).unwrap();
    assert_eq!(key.to_string(), SPEC_KEY);
    let note = signed_note::Note::from_bytes(SPEC_NOTE.as_bytes()).unwrap();
    let known = signed_note::VerifierList::new(vec![Box::new(key.clone())]);
    assert_eq!(note.verify(&known).unwrap().0.len(), 1);
    let changed = SPEC_NOTE.replacen("example message", "exemple message", 1);
    let note = signed_note::Note::from_bytes(changed.as_bytes()).unwrap();
    assert!(note.verify(&signed_note::VerifierList::new(vec![Box::new(key)])).is_err());
}

#[test]
fn others_verify_what_we_sign() {
    let key = LogKey::unique("test.example").unwrap();
    let text = b"some text\n";
    let note = signed_note::Note::new(text, &[key.note(text).unwrap()]).unwrap();
    let theirs = signed_note::StandardVerifier::new(&key.public().to_string()).unwrap();
    assert!(note.verify(&signed_note::VerifierList::new(vec![Box::new(theirs)])).is_ok());
    let private = key.private();
    let theirs = signed_note::StandardSigner::new(&private).unwrap();
    let signature = signed_note::Signer::sign(&theirs, text).unwrap();
    assert!(key.public().has_signed(text, &signature));
}

#[test]
fn keys_are_read_as_they_are_written_and_in_no_other_form() {
    let key = LogKey::generate("test.example/log").unwrap();
    let private = key.private();
    assert!(LogKey::parse(&private).unwrap().public() == key.public());
    assert!(LogKey::parse(&format!("{}\n", *private)).is_ok(), "as a file has it");
    let public = key.public().to_string();
    assert_eq!(NoteKey::parse(&public).unwrap(), key.public());
    for text in [&*private, &public] {
        for at in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] ^= 1;
            let changed = String::from_utf8_lossy(&changed);
            let (as_private, as_public) = (LogKey::parse(&changed), NoteKey::parse(&changed));
            assert!(as_private.is_err(), "{at}");
            // Base64 has bits that nothing depends on, and hex two cases; what is read is the same key then, or none.
            assert!(as_public.is_err() || as_public == Ok(key.public()), "{at}");
        }
    }
    for name in ["", "a b", "a+b", "a\nb", &"a".repeat(129)] {
        assert_eq!(LogKey::generate(name).err(), Some(KeyError::Name), "{name}");
    }
}
