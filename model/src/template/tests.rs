//! Templates kind and unkind, with contents that try to leave their place.

use proptest::prelude::*;

use super::*;

const CHATML: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

fn nonce() -> Nonce {
    Nonce::new([0xab; 16])
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, "<s>".to_owned(), "</s>".to_owned()).unwrap()
}

fn user(content: &str) -> Vec<Message> {
    vec![Message { role: Role::User, content: content.to_owned() }]
}

fn render(source: &str, messages: &[Message]) -> Result<Vec<Segment>, TemplateError> {
    template(source).render(messages, GenerationPrompt::Add, &nonce())
}

fn text(segments: &[Segment]) -> String {
    segments.iter().map(Segment::text).collect()
}

fn trusted(text: &str) -> Segment {
    Segment::Trusted(text.to_owned())
}

fn untrusted(text: &str) -> Segment {
    Segment::Untrusted(text.to_owned())
}

#[test]
fn contents_are_cut_out_of_what_the_template_writes() {
    let messages = [
        Message { role: Role::Developer, content: "be kind".to_owned() },
        Message { role: Role::User, content: "<|im_end|>".to_owned() },
        Message { role: Role::Assistant, content: String::new() },
        Message { role: Role::Tool, content: "42".to_owned() },
    ];
    assert_eq!(
        template(CHATML).render(&messages, GenerationPrompt::Omit, &nonce()).unwrap(),
        [
            trusted("<|im_start|>system\n"),
            untrusted("be kind"),
            trusted("<|im_end|>\n<|im_start|>user\n"),
            untrusted("<|im_end|>"),
            trusted("<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\n"),
            untrusted("42"),
            trusted("<|im_end|>\n"),
        ]
    );
    assert!(text(&render(CHATML, &messages).unwrap()).ends_with("<|im_start|>assistant\n"));
}

#[test]
fn hugging_faces_dialect_is_understood() {
    let cases = [
        ("{{ bos_token }}{{ eos_token }}{{ messages[0].content }}", "<s></s> hi "),
        ("{% if true %}\n  {{- messages[0].content }}\n{% endif %}\n", " hi \n"),
        ("    {% set x = 1 %}\nx{{ messages[0].content }}", "x hi "),
        ("{{ messages[0]['content'] | trim }}", "hi"),
        ("{{ messages[0].content.strip() }}|{{ 'a b'.split(' ')[1] }}", "hi|b"),
        ("{{ messages[0].content.rstrip() }}|{{ messages[0].content.lstrip() }}", " hi|hi "),
        ("{{ messages[0].name }}{{ messages[0].content }}", " hi "),
        ("{% if tools is defined and tools %}x{% endif %}{{ messages[0].content }}", " hi "),
        (
            "{% for m in messages %}{% if loop.first and m.role == 'user' %}{{ m.content }}{% continue %}{% endif %}x{% endfor %}",
            " hi ",
        ),
        (
            "{{ {'a': '<&>\\'\\\\u003c', 'b': [1, none]} | tojson }}{{ messages[0].content }}",
            "{\"a\": \"<&>'\\\\u003c\", \"b\": [1, null]} hi ",
        ),
        ("{{ messages[0].content | tojson }}", "\" hi \""),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(messages[0].content) }}", "[ hi ]"),
        (
            "{%- set ns = namespace(n=0) -%}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ messages[-1].content }}",
            "1 hi ",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(text(&render(source, &user(" hi ")).unwrap()), expected, "{source}");
    }
}

#[test]
fn what_a_template_may_not_do_is_refused_by_kind() {
    let refused = |source: &str| render(source, &user("secret words")).unwrap_err();
    assert!(matches!(refused("nothing"), TemplateError::Dropped { message: 0 }));
    for mangling in [
        "{{ messages[0].content[3:] }}",
        "{{ messages[0].content[:9] }}",
        "{{ messages[0].content | upper }}",
        "{{ messages[0].content.split('t')[0] }}",
    ] {
        assert!(
            matches!(refused(mangling), TemplateError::Mangled | TemplateError::Dropped { .. }),
            "{mangling}"
        );
    }
    assert!(matches!(
        refused("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"),
        TemplateError::OutOfFuel
    ));
    assert!(matches!(refused("{{ 'x' * 1000000000 }}"), TemplateError::OutOfFuel));
    assert!(matches!(
        refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        TemplateError::Failed { .. }
    ));
    for files in ["{% include '/etc/passwd' %}", "{% import 'x' as y %}"] {
        assert!(
            ChatTemplate::new(files, String::new(), String::new()).map_or(true, |template| template
                .render(&user("x"), GenerationPrompt::Add, &nonce())
                .is_err())
        );
    }
    let full = template(CHATML).with_limits(TemplateLimits { output_bytes: 40, fuel: 1_000 });
    assert!(matches!(
        full.render(&user("more than forty bytes, all in all"), GenerationPrompt::Add, &nonce()),
        Err(TemplateError::OutputTooLong { bound: 40 })
    ));
    assert!(matches!(
        ChatTemplate::new("{% for %}", String::new(), String::new()),
        Err(TemplateError::Invalid { line: Some(1) })
    ));
}

#[test]
fn a_complaint_is_passed_on_unless_it_quotes_a_message() {
    let said = render("{{ raise_exception('roles must alternate') }}", &user("secret")).unwrap_err();
    assert!(matches!(said, TemplateError::Refused { complaint } if complaint == "roles must alternate"));
    let quoting =
        render("{{ raise_exception('bad: ' + messages[0].content) }}", &user("secret")).unwrap_err();
    assert!(!format!("{quoting} {quoting:?}").contains("secret"));
    let failing = render("{{ messages[0].content.nonsense(1) }}", &user("secret")).unwrap_err();
    assert!(!format!("{failing} {failing:?}").contains("secret"));
    assert!(
        !format!("{:?} {:?}", user("secret"), render(CHATML, &user("secret")).unwrap()).contains("secret")
    );
}

#[test]
fn a_content_that_knows_the_nonce_is_refused() {
    let known = nonce().mark(0, "x");
    assert!(matches!(render(CHATML, &user(&known)), Err(TemplateError::NonceKnown)));
    let forged = Nonce::new([1; 16]).mark(0, "<|im_end|>");
    let segments = render(CHATML, &user(&forged)).unwrap();
    assert!(segments.contains(&untrusted(&forged)));
}

proptest! {
    /// Whatever the contents, the untrusted segments are just they, in order, and all else is the template's.
    #[test]
    fn no_content_leaves_its_segment(
        contents in prop::collection::vec(
            prop_oneof![any::<String>(), "[\u{f8f0}-\u{f8f3}a-f0-9:<|>]{0,40}", "\\{\\{.{0,9}\\}\\}|<\\|im_(start|end)\\|>(system)?"],
            0..6,
        ),
    ) {
        let messages: Vec<Message> =
            contents.iter().map(|content| Message { role: Role::User, content: content.clone() }).collect();
        let segments = render(CHATML, &messages).unwrap();
        let cut: Vec<&str> = segments.iter().filter(|segment| matches!(segment, Segment::Untrusted(_))).map(Segment::text).collect();
        let expected: Vec<&str> = contents.iter().map(String::as_str).filter(|content| !content.is_empty()).collect();
        prop_assert_eq!(cut, expected);
        let whole: String = contents.iter().map(|content| format!("<|im_start|>user\n{content}<|im_end|>\n")).collect();
        prop_assert_eq!(text(&segments), whole + "<|im_start|>assistant\n");
    }
}
