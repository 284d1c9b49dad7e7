//! Avro schemas as they are registered, with all names resolved.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A type in a schema, by its place in it: named types may hold themselves.
pub(in crate::format) type NodeId = usize;

/// A schema, ready to read values by.
#[derive(Debug)]
pub(crate) struct AvroSchema {
    nodes: Vec<Node>,
    root: NodeId,
}

/// A type and what is written beside it.
#[derive(Debug, Default)]
pub(in crate::format) struct Node {
    pub(in crate::format) shape: Shape,
    pub(in crate::format) notes: Notes,
}

/// How values of a type are encoded.
#[derive(Debug, Default)]
pub(in crate::format) enum Shape {
    #[default]
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// So many bytes.
    Fixed(usize),
    /// The symbols.
    Enum(Vec<String>),
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Record(Vec<RecordField>),
}

#[derive(Debug)]
pub(in crate::format) struct RecordField {
    pub(in crate::format) name: String,
    /// The name as a key of JSON with its colon: `"name":`.
    pub(in crate::format) key: String,
    pub(in crate::format) node: NodeId,
}

/// What a schema says of a type besides its encoding.
#[derive(Debug, Default)]
pub(in crate::format) struct Notes {
    pub(in crate::format) logical: Option<String>,
    pub(in crate::format) precision: Option<u32>,
    pub(in crate::format) scale: i32,
    /// Kafka Connect's name of the type, such as `io.debezium.time.MicroTimestamp`.
    pub(in crate::format) connect_name: Option<String>,
    /// Kafka Connect's integers that Avro does not have: `int8` and `int16`.
    pub(in crate::format) connect_type: Option<String>,
    /// The digits of a decimal, where the source system knows them.
    pub(in crate::format) connect_precision: Option<u32>,
}

impl Node {
    /// Whether values are 16 bytes that stand for the text of a UUID.
    pub(in crate::format) fn is_uuid(&self) -> bool {
        matches!(self.shape, Shape::Fixed(16)) && self.notes.logical.as_deref() == Some("uuid")
    }
}

impl AvroSchema {
    /// Reads a schema. `references` are schemas of other subjects whose types it names, those first that others name.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(crate) fn parse<'t>(
        text: &str,
        references: impl IntoIterator<Item = &'t str>,
    ) -> Result<Self, String> {
        let mut parser = Parser::default();
        for reference in references {
            parser.add(&json(reference)?, "")?;
        }
        let root = parser.add(&json(text)?, "")?;
        Ok(Self { nodes: parser.nodes, root })
    }

    pub(in crate::format) fn root(&self) -> NodeId {
        self.root
    }

    pub(in crate::format) fn node(&self, id: NodeId) -> &Node {
        // Ids are only made by the parser, of this schema.
        &self.nodes[id]
    }

    /// The fields of a type that is a record, or a record or null.
    pub(in crate::format) fn record(&self, id: NodeId) -> Option<&[RecordField]> {
        match &self.node(self.without_null(id).0).shape {
            Shape::Record(fields) => Some(fields),
            _ => None,
        }
    }

    /// The type itself where it is that or null, and whether null is allowed.
    pub(in crate::format) fn without_null(&self, id: NodeId) -> (NodeId, bool) {
        let Shape::Union(branches) = &self.node(id).shape else { return (id, false) };
        let is_null = |id: &NodeId| matches!(self.node(*id).shape, Shape::Null);
        let nullable = branches.iter().any(is_null);
        let mut others = branches.iter().filter(|id| !is_null(id));
        match (others.next(), others.next()) {
            (Some(only), None) => (*only, nullable),
            _ => (id, nullable),
        }
    }
}

fn json(text: &str) -> Result<Value, String> {
    // A name alone may be registered without quotes around it.
    serde_json::from_str(text).or_else(|e| {
        let is_name =
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b));
        if is_name { Ok(Value::from(text)) } else { Err(format!("is no JSON: {e}")) }
    })
}

#[derive(Default)]
struct Parser {
    nodes: Vec<Node>,
    /// Named types by their full names.
    names: HashMap<String, NodeId>,
}

impl Parser {
    fn push(&mut self, shape: Shape, notes: Notes) -> NodeId {
        self.nodes.push(Node { shape, notes });
        self.nodes.len() - 1
    }

    fn add(&mut self, schema: &Value, namespace: &str) -> Result<NodeId, String> {
        match schema {
            Value::String(name) => self.named(name, namespace, Notes::default()),
            Value::Array(branches) => {
                let branches: Result<Vec<NodeId>, String> =
                    branches.iter().map(|branch| self.add(branch, namespace)).collect();
                let branches = branches?;
                if branches.is_empty()
                    || branches.iter().any(|id| matches!(self.nodes[*id].shape, Shape::Union(_)))
                {
                    return Err("has a union that is empty or holds a union".to_owned());
                }
                Ok(self.push(Shape::Union(branches), Notes::default()))
            }
            Value::Object(object) => self.object(object, namespace),
            other => Err(format!("has `{other}` where a type should be")),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId, String> {
        let name = match object.get("type") {
            Some(Value::String(name)) => name.as_str(),
            Some(nested @ (Value::Object(_) | Value::Array(_))) => return self.add(nested, namespace),
            _ => return Err("has a type without a name".to_owned()),
        };
        let part = |key: &str| object.get(key).ok_or_else(|| format!("has {name} without `{key}`"));
        let notes = notes(object);
        match name {
            "array" => {
                let items = self.add(part("items")?, namespace)?;
                Ok(self.push(Shape::Array(items), notes))
            }
            "map" => {
                let values = self.add(part("values")?, namespace)?;
                Ok(self.push(Shape::Map(values), notes))
            }
            "record" | "error" => self.record(object, namespace, notes),
            "enum" => {
                let symbols: Option<Vec<String>> = part("symbols")?
                    .as_array()
                    .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect());
                let shape = Shape::Enum(symbols.ok_or("has an enum whose `symbols` are no list")?);
                let id = self.push(shape, notes);
                self.define(object, namespace, id).map(|_| id)
            }
            "fixed" => {
                let size = part("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let id = self.push(Shape::Fixed(size.ok_or("has a fixed type without a size")?), notes);
                self.define(object, namespace, id).map(|_| id)
            }
            _ => self.named(name, namespace, notes),
        }
    }

    fn record(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        notes: Notes,
    ) -> Result<NodeId, String> {
        // Known by its name before its fields are, which may name it.
        let id = self.push(Shape::Null, notes);
        let namespace = self.define(object, namespace, id)?;
        let fields = object.get("fields").and_then(Value::as_array).ok_or("has a record without `fields`")?;
        let mut read = Vec::with_capacity(fields.len());
        for field in fields {
            let name = field.get("name").and_then(Value::as_str).ok_or("has a field without a name")?;
            let schema = field.get("type").ok_or_else(|| format!("has the field `{name}` without a type"))?;
            let node = self.add(schema, &namespace)?;
            read.push(RecordField { name: name.to_owned(), key: format!("{}:", Value::from(name)), node });
        }
        self.nodes[id].shape = Shape::Record(read);
        Ok(id)
    }

    /// Remembers a named type, and tells the namespace of what stands in it.
    fn define(&mut self, object: &Map<String, Value>, namespace: &str, id: NodeId) -> Result<String, String> {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let name = text("name").ok_or("has a named type without a name")?;
        let full = match text("namespace") {
            Some(own) if !name.contains('.') => full_name(name, own),
            _ => full_name(name, namespace),
        };
        let space = full.rsplit_once('.').map_or_else(String::new, |(space, _)| space.to_owned());
        if self.names.insert(full.clone(), id).is_some() {
            return Err(format!("defines `{full}` twice"));
        }
        Ok(space)
    }

    fn named(&mut self, name: &str, namespace: &str, notes: Notes) -> Result<NodeId, String> {
        let shape = match name {
            "null" => Shape::Null,
            "boolean" => Shape::Boolean,
            "int" => Shape::Int,
            "long" => Shape::Long,
            "float" => Shape::Float,
            "double" => Shape::Double,
            "bytes" => Shape::Bytes,
            "string" => Shape::String,
            _ => {
                let found = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
                return found
                    .copied()
                    .ok_or_else(|| format!("names the type `{name}`, which it does not define"));
            }
        };
        Ok(self.push(shape, notes))
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.trim_start_matches('.').to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

fn notes(object: &Map<String, Value>) -> Notes {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| object.get(key).and_then(Value::as_i64);
    let parameter = |key: &str| object.get("connect.parameters")?.get(key)?.as_str()?.parse::<u32>().ok();
    Notes {
        logical: text("logicalType"),
        precision: number("precision").and_then(|digits| digits.try_into().ok()),
        scale: number("scale").and_then(|digits| digits.try_into().ok()).unwrap_or(0),
        connect_name: text("connect.name"),
        connect_type: text("connect.type"),
        connect_precision: parameter("connect.decimal.precision"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AvroSchema, String> {
        AvroSchema::parse(text, [])
    }

    #[test]
    fn names_are_resolved_in_their_namespaces_and_may_name_themselves() {
        let schema = parse(
            r#"{"type": "record", "name": "List", "namespace": "a.b", "fields": [
                {"name": "next", "type": ["null", "List"]},
                {"name": "kind", "type": {"type": "enum", "name": "Kind", "namespace": "c", "symbols": ["x"]}},
                {"name": "again", "type": "c.Kind"},
                {"name": "id", "type": {"type": "fixed", "name": "a.b.Id", "size": 2}},
                {"name": "other", "type": {"type": "Id"}}]}"#,
        )
        .unwrap();
        let fields = schema.record(schema.root()).unwrap();
        assert_eq!(schema.without_null(fields[0].node), (schema.root(), true));
        assert_eq!(fields[1].node, fields[2].node);
        assert_eq!(fields[3].node, fields[4].node);
        assert_eq!(fields[1].key, r#""kind":"#);
    }

    #[test]
    fn types_of_other_subjects_are_known_by_their_names() {
        let address =
            r#"{"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]}"#;
        let user = r#"{"type": "record", "name": "User", "namespace": "shop",
            "fields": [{"name": "home", "type": "Address"}]}"#;
        assert!(AvroSchema::parse(user, [address]).is_ok());
        assert!(parse(user).unwrap_err().contains("`Address`"));
        assert!(AvroSchema::parse("shop.Address", [address]).is_ok());
    }

    #[test]
    fn what_is_no_schema_is_told() {
        for (text, part) in [
            ("{", "no JSON"),
            ("7", "`7`"),
            (r#"{"type": "array"}"#, "`items`"),
            (r#"{"type": "record", "name": "r"}"#, "`fields`"),
            (r#"{"type": "record", "fields": []}"#, "without a name"),
            (r#"[["null"]]"#, "union"),
            ("[]", "union"),
            (r#"{"type": "fixed", "name": "f", "size": -1}"#, "size"),
            (
                r#"{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "fixed", "name": "r", "size": 1}}]}"#,
                "twice",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
