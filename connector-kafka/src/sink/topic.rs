//! Which topic a table's rows go to, and topics that are created.

use connector_core::{Error, ErrorKind, Result, TableId};
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    types::RDKafkaErrorCode as Code,
};

use super::Creation;
use crate::{
    client::{ClientSettings, Context, creation_error},
    error,
};

/// Creates a topic. That it is there already, as another writer was faster, is no error.
///
/// # Errors
/// What the cluster says: `PermissionDenied`, `OptionInvalid`. Blocks as long as a request may take.
pub(super) fn create(settings: &ClientSettings, name: &str, creation: &Creation) -> Result<()> {
    let context = settings.context();
    let admin: AdminClient<Context> = settings
        .config(&[])
        .create_with_context(context.clone())
        .map_err(|e| creation_error(&e, &context))?;
    let mut topic = NewTopic::new(name, creation.partitions, TopicReplication::Fixed(creation.replicas));
    for (key, value) in creation.properties.iter() {
        topic = topic.set(key, value);
    }
    let limit = Some(settings.request_timeout);
    let options = AdminOptions::new().request_timeout(limit).operation_timeout(limit);
    // The answer comes by the client's own thread.
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|e| {
        Error::new(ErrorKind::Unavailable, "no runtime to wait for an answer in").with_source(e)
    })?;
    let results = runtime
        .block_on(admin.create_topics([&topic], &options))
        .map_err(|e| error::from_kafka(&e, &context.last_text()))?;
    for result in results {
        match result {
            Ok(_) => tracing::info!(topic = name, "the topic was created"),
            Err((_, Code::TopicAlreadyExists)) => {}
            Err((_, code)) => {
                return Err(refusal(code).with_operation("kafka.create_topic").with_context("topic", name));
            }
        }
    }
    Ok(())
}

/// Why a topic was not created.
fn refusal(code: Code) -> Error {
    match code {
        // The table's words for the first are about reading.
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "this user may not create the topic, which is missing and `create_topic_enabled` asks for: create it, or give \
                 the user the right to: {code}"
            ),
        ),
        code => error::from_code(code, ""),
    }
}

/// A topic's name, with `${database}` and `${table}` in it or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicTemplate {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Database,
    Table,
}

impl TopicTemplate {
    /// Takes a template apart.
    ///
    /// # Errors
    /// A sentence about a placeholder that is not known or not closed.
    pub(crate) fn parse(template: &str) -> std::result::Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| format!("`topic_name`: a placeholder in `{template}` has no closing brace"))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(match name {
                "database" => Part::Database,
                "table" => Part::Table,
                other => {
                    return Err(format!(
                        "`topic_name`: `${{{other}}}` is not known; there are ${{database}} and ${{table}}"
                    ));
                }
            });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The topic, when it is the same for all tables.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The topic of a table.
    ///
    /// # Errors
    /// A sentence, when the name that comes out is none that Kafka allows.
    pub(crate) fn topic(&self, table: &TableId) -> std::result::Result<String, String> {
        let mut topic = String::new();
        for part in &self.parts {
            topic.push_str(match part {
                Part::Text(text) => text,
                Part::Database => &table.database,
                Part::Table => &table.table,
            });
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if topic.is_empty() || topic == "." || topic == ".." || topic.len() > 249 || !topic.chars().all(legal)
        {
            return Err(format!(
                "`{topic}` cannot be a topic's name: Kafka allows 249 letters, digits, `.`, `_` and `-`"
            ));
        }
        Ok(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(template: &str, table: &TableId) -> std::result::Result<String, String> {
        TopicTemplate::parse(template)?.topic(table)
    }

    #[test]
    fn placeholders_stand_for_the_tables_names() {
        let table = TableId::new("shop", "orders");
        assert_eq!(topic("all", &table).unwrap(), "all");
        assert_eq!(topic("cdc.${database}.${table}-v1", &table).unwrap(), "cdc.shop.orders-v1");
        assert_eq!(topic("${table}", &table).unwrap(), "orders");
        assert_eq!(TopicTemplate::parse("all").unwrap().constant(), Some("all"));
        assert_eq!(TopicTemplate::parse("a${table}").unwrap().constant(), None);
    }

    #[test]
    fn who_may_not_create_a_topic_is_told_the_option() {
        for code in [Code::TopicAuthorizationFailed, Code::ClusterAuthorizationFailed] {
            let error = refusal(code);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{code:?}");
            assert!(error.message().contains("`create_topic_enabled`"), "{code:?}: {error}");
        }
        assert_eq!(refusal(Code::PolicyViolation).kind(), ErrorKind::PermissionDenied);
        assert_eq!(refusal(Code::InvalidPartitions).kind(), ErrorKind::OptionInvalid);
    }

    #[test]
    fn what_cannot_be_a_topic_is_said() {
        let table = TableId::new("", "订单");
        assert!(topic("${table}", &table).unwrap_err().contains("订单"));
        assert!(topic("${database}", &table).unwrap_err().contains("cannot be"));
        assert!(topic("${schema}", &table).unwrap_err().contains("${schema}"));
        assert!(topic("a${table", &table).unwrap_err().contains("closing brace"));
        assert!(topic(&"x".repeat(250), &table).is_err());
    }
}
