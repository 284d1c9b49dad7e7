//! Logins: Java's JAAS line, and what belongs together.

use connector_core::options::PropertyMap;

use super::Translation;

const JAAS: &str = "sasl.jaas.config";

/// A JAAS line: the last name of its module's class, and its options.
struct Jaas {
    module: String,
    options: Vec<(String, String)>,
}

impl Jaas {
    fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(super) fn apply(map: &PropertyMap, out: &mut Translation) {
    if let Some(text) = map.get(JAAS) {
        match parse(text).ok_or_else(malformed).and_then(|jaas| login(&jaas)) {
            Ok((user, password)) => {
                out.set("sasl.username", user);
                out.set("sasl.password", password);
            }
            Err(sentence) => out.refuse(JAAS, format!("the property `{JAAS}`: {sentence}")),
        }
    }
    let protocol = map.get("security.protocol").unwrap_or_default().trim().to_ascii_uppercase();
    let mechanism =
        map.get("sasl.mechanism").or_else(|| map.get("sasl.mechanisms")).unwrap_or_default().trim();
    if protocol.starts_with("SASL_") && mechanism.is_empty() {
        out.refuse(
            "security.protocol",
            "the property `security.protocol` wants a login: name `sasl.mechanism` too, such as PLAIN or SCRAM-SHA-512",
        );
    }
    if mechanism.eq_ignore_ascii_case("GSSAPI") {
        out.refuse(
            "sasl.mechanism",
            "the property `sasl.mechanism` is GSSAPI, and librdkafka is built without Kerberos here; \
             use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        );
    }
}

fn malformed() -> String {
    "it is not of the form `org…Module required name=\"value\" …;`".to_owned()
}

/// User and password.
fn login(jaas: &Jaas) -> Result<(String, String), String> {
    match jaas.module.as_str() {
        "PlainLoginModule" | "ScramLoginModule" => match (jaas.get("username"), jaas.get("password")) {
            (Some(user), Some(password)) => Ok((user.to_owned(), password.to_owned())),
            _ => Err("username and password have to be in it".to_owned()),
        },
        "OAuthBearerLoginModule" => {
            Err("this build fetches no tokens itself; give the builder a token provider (`oauth_tokens`)"
                .to_owned())
        }
        "Krb5LoginModule" => Err("librdkafka is built without Kerberos here".to_owned()),
        module => Err(format!("the module `{module}` cannot run here; use the one of PLAIN or SCRAM")),
    }
}

/// Reads `a.b.Module required name="value" other=plain;`. Within quotes a backslash keeps the next character.
fn parse(text: &str) -> Option<Jaas> {
    let text = text.trim();
    let text = text.strip_suffix(';')?;
    let (class, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let flag = rest.split(char::is_whitespace).next()?;
    if !["required", "requisite", "sufficient", "optional"].contains(&flag.to_ascii_lowercase().as_str()) {
        return None;
    }
    let mut options = Vec::new();
    let mut rest = rest[flag.len()..].trim_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        options.push((name.trim().to_owned(), value));
        rest = after.trim_start();
    }
    Some(Jaas { module: class.rsplit('.').next()?.to_owned(), options })
}

/// A value, and what follows it.
fn value(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((out, &text[at + 1..]));
        }
        out.push(if c == '\\' { chars.next()?.1 } else { c });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jaas_lines_are_read_as_java_reads_them() {
        for (text, user, password) in [
            (
                r#"org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="se;cret";"#,
                "alice",
                "se;cret",
            ),
            ("x.ScramLoginModule  REQUIRED\n username='a b' password=plain ;", "a b", "plain"),
            (r#"PlainLoginModule required username="a\"b" password="c\\d" extra="x";"#, "a\"b", "c\\d"),
            (r#"PlainLoginModule required password="=" username="订单";"#, "订单", "="),
        ] {
            assert_eq!(
                login(&parse(text).unwrap()).unwrap(),
                (user.to_owned(), password.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_jaas_line_or_no_login_of_ours_is_refused_without_its_secret() {
        for text in [
            "",
            "PlainLoginModule",
            "PlainLoginModule required username=\"a\" password=\"hunter2\"",
            "PlainLoginModule perhaps username=\"a\" password=\"hunter2\";",
            "PlainLoginModule required username=\"a\" password=\"hunter2;",
            "PlainLoginModule required password=\"hunter2\";",
            "PlainLoginModule required username= password=\"hunter2\";",
            "OAuthBearerLoginModule required clientSecret=\"hunter2\";",
            "Krb5LoginModule required keyTab=\"hunter2\";",
            "IAMLoginModule required;",
        ] {
            let map: PropertyMap = [(JAAS, text)].into_iter().collect();
            let mut out = Translation::default();
            apply(&map, &mut out);
            assert!(out.pairs.is_empty(), "{text}");
            assert_eq!(out.problems.len(), 1, "{text}");
            assert!(!out.problems[0].1.contains("hunter2"), "{:?}", out.problems);
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_there_is_a_login_or_refused(text in r#"[a-zA-Z.;="'\\ \n订]{0,60}"#) {
            if let Some(jaas) = parse(&text) {
                drop(login(&jaas));
            }
        }

        #[test]
        fn every_password_comes_out_as_it_went_in(password in ".{0,30}") {
            let quoted = password.replace('\\', r"\\").replace('"', r#"\""#);
            let text = format!(r#"x.PlainLoginModule required username="a" password="{quoted}";"#);
            proptest::prop_assert_eq!(login(&parse(&text).unwrap()).unwrap().1, password);
        }
    }

    #[test]
    fn a_login_wants_its_mechanism() {
        for (protocol, mechanism, refused) in [
            ("SASL_SSL", None, true),
            ("sasl_plaintext", None, true),
            ("SASL_SSL", Some("PLAIN"), false),
            ("SASL_SSL", Some("GSSAPI"), true),
            ("SSL", None, false),
        ] {
            let mut map: PropertyMap = [("security.protocol", protocol)].into_iter().collect();
            if let Some(mechanism) = mechanism {
                map.insert("sasl.mechanism", mechanism);
            }
            let mut out = Translation::default();
            apply(&map, &mut out);
            assert_eq!(!out.problems.is_empty(), refused, "{protocol} {mechanism:?}: {:?}", out.problems);
        }
    }
}
