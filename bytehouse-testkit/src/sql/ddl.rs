//! `CREATE`, `DROP`, `TRUNCATE`, `RENAME` and `ALTER`.

use super::ast::{
    AlterAction, ClusterBy, ColumnDecl, CreateTable, DefaultKind, EngineDecl, Expr, PartitionAction,
    PartitionName, Place, Statement,
};
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::exception::{Result, exception};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement> {
        self.advance();
        if self.keywords("DATABASE") {
            let if_not_exists = self.keywords("IF NOT EXISTS");
            let name = self.identifier()?;
            if self.keywords("ENGINE") {
                self.symbol("=");
                let engine = self.identifier()?;
                if !["Cnch", "Atomic", "Ordinary", "Memory"]
                    .iter()
                    .any(|known| engine.eq_ignore_ascii_case(known))
                {
                    return Err(exception!(UNKNOWN_STORAGE, "Unknown database engine: {engine}"));
                }
            }
            if self.keywords("COMMENT") {
                self.text_literal()?;
            }
            return Ok(Statement::CreateDatabase { name, if_not_exists });
        }
        if self.keywords("TABLE") {
            return Ok(Statement::CreateTable(Box::new(self.create_table()?)));
        }
        for word in
            ["OR", "TEMPORARY", "VIEW", "MATERIALIZED", "DICTIONARY", "FUNCTION", "USER", "ROLE", "LIVE"]
        {
            if self.is_keyword(0, word) {
                return Err(exception!(NOT_IMPLEMENTED, "CREATE {word} is not known to the double"));
            }
        }
        Err(self.unexpected("DATABASE or TABLE"))
    }

    fn create_table(&mut self) -> Result<CreateTable> {
        let mut table =
            CreateTable { if_not_exists: self.keywords("IF NOT EXISTS"), ..CreateTable::default() };
        table.name = self.table_name()?;
        if self.keywords("UUID") {
            self.text_literal()?;
        }
        self.refuse_on_cluster()?;
        if self.symbol("(") {
            self.table_elements(&mut table)?;
        }
        if self.keywords("AS") {
            if self.is_keyword(0, "SELECT") {
                return Err(exception!(
                    NOT_IMPLEMENTED,
                    "CREATE TABLE … AS SELECT is not known to the double"
                ));
            }
            table.like = Some(self.table_name()?);
        }
        while self.table_clause(&mut table)? {}
        Ok(table)
    }

    fn refuse_on_cluster(&self) -> Result<()> {
        if self.is_keyword(0, "ON") && self.is_keyword(1, "CLUSTER") {
            return Err(exception!(NOT_IMPLEMENTED, "ON CLUSTER is not known to the double"));
        }
        Ok(())
    }

    fn table_elements(&mut self, table: &mut CreateTable) -> Result<()> {
        loop {
            if self.symbol(")") {
                return Ok(());
            }
            if self.is_keyword(0, "INDEX") && matches!(self.peek_at(1), TokenKind::Ident { .. }) {
                let mark = self.mark();
                self.advance();
                self.identifier()?;
                self.expression()?;
                self.expect_keywords("TYPE")?;
                self.expression()?;
                if self.keywords("GRANULARITY") {
                    self.unsigned()?;
                }
                table.indexes.push(self.text_since(mark).to_owned());
            } else if self.keywords("PRIMARY KEY") {
                table.primary_key = Some(self.expression()?);
            } else if self.is_keyword(0, "CONSTRAINT") || self.is_keyword(0, "PROJECTION") {
                return Err(exception!(
                    NOT_IMPLEMENTED,
                    "constraints and projections are not known to the double"
                ));
            } else {
                table.columns.push(self.column()?);
            }
            if !self.symbol(",") {
                return self.expect_symbol(")");
            }
        }
    }

    pub(super) fn column(&mut self) -> Result<ColumnDecl> {
        let mut name = self.identifier()?;
        while self.symbol(".") {
            name = format!("{name}.{}", self.identifier()?);
        }
        let mut column = ColumnDecl {
            name,
            type_text: None,
            nullable: None,
            default: None,
            comment: String::new(),
            codec: String::new(),
        };
        let attribute = ["DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "COMMENT", "CODEC"];
        if matches!(self.peek(), TokenKind::Ident { .. })
            && !attribute.iter().any(|word| self.is_keyword(0, word))
        {
            column.type_text = Some(self.type_text()?);
        }
        loop {
            let kind = if self.keywords("NOT NULL") {
                column.nullable = Some(false);
                continue;
            } else if self.keywords("NULL") {
                column.nullable = Some(true);
                continue;
            } else if self.keywords("COMMENT") {
                column.comment = self.text_literal()?;
                continue;
            } else if self.is_keyword(0, "CODEC") {
                let mark = self.mark();
                self.type_text()?;
                column.codec = self.text_since(mark).to_owned();
                continue;
            } else if self.keywords("DEFAULT") {
                DefaultKind::Default
            } else if self.keywords("MATERIALIZED") {
                DefaultKind::Materialized
            } else if self.keywords("ALIAS") {
                DefaultKind::Alias
            } else {
                break;
            };
            column.default = Some((kind, self.expression()?));
        }
        for word in ["TTL", "EPHEMERAL", "REPLACE_IF_NOT_NULL", "AUTO_INCREMENT", "KV", "BLOOM", "PRIMARY"] {
            if self.is_keyword(0, word) {
                return Err(exception!(NOT_IMPLEMENTED, "{word} of a column is not known to the double"));
            }
        }
        Ok(column)
    }

    /// One clause behind the columns; false when none stands here.
    fn table_clause(&mut self, table: &mut CreateTable) -> Result<bool> {
        if self.keywords("ENGINE") {
            self.symbol("=");
            let name = self.identifier()?;
            let mut args = Vec::new();
            if self.symbol("(") && !self.symbol(")") {
                args = self.list(Self::expression)?;
                self.expect_symbol(")")?;
            }
            table.engine = Some(EngineDecl { name, args });
        } else if self.keywords("ORDER BY") {
            table.order_by = Some(self.key_expression()?);
        } else if self.keywords("PARTITION BY") {
            table.partition_by = Some(self.expression()?);
        } else if self.keywords("PRIMARY KEY") {
            table.primary_key = Some(self.key_expression()?);
        } else if self.keywords("UNIQUE KEY") {
            table.unique_key = Some(self.key_expression()?);
        } else if self.keywords("CLUSTER BY") {
            table.cluster_by = Some(self.cluster_by()?);
        } else if self.keywords("SAMPLE BY") {
            table.sample_by = Some(self.expression()?);
        } else if self.keywords("TTL") {
            table.ttl = Some(self.ttl()?);
        } else if self.keywords("SETTINGS") {
            table.settings = self.settings()?;
        } else if self.keywords("COMMENT") {
            table.comment = self.text_literal()?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `a`, `(a, b)` or `a, b`: the last is the vendor's way for unique keys.
    fn key_expression(&mut self) -> Result<Expr> {
        let mut items = self.list(Self::expression)?;
        if items.len() == 1 {
            return Ok(items.remove(0));
        }
        Ok(Expr::call("tuple", items))
    }

    fn cluster_by(&mut self) -> Result<ClusterBy> {
        let expression = self.keywords("EXPRESSION");
        let expr = self.key_expression()?;
        self.expect_keywords("INTO")?;
        let buckets = self.unsigned()?;
        self.expect_keywords("BUCKETS")?;
        let mark = self.mark();
        if self.keywords("SPLIT_NUMBER") {
            self.unsigned()?;
        }
        self.keywords("WITH_RANGE");
        Ok(ClusterBy { expr, expression, buckets, tail: self.text_since(mark).to_owned() })
    }

    /// A TTL is kept as text: nothing expires in the double.
    fn ttl(&mut self) -> Result<String> {
        let mark = self.mark();
        let mut depth = 0usize;
        loop {
            let clause = [
                "SETTINGS",
                "COMMENT",
                "UNIQUE",
                "CLUSTER",
                "SAMPLE",
                "PARTITION",
                "PRIMARY",
                "ORDER",
                "ENGINE",
            ];
            match self.peek() {
                TokenKind::End => break,
                TokenKind::Symbol("(") => depth += 1,
                TokenKind::Symbol(")") => {
                    depth = depth.checked_sub(1).ok_or_else(|| self.unexpected("a TTL expression"))?;
                }
                TokenKind::Symbol(";") => break,
                TokenKind::Ident { text, quoted: false }
                    if depth == 0 && clause.iter().any(|word| text.eq_ignore_ascii_case(word)) =>
                {
                    break;
                }
                _ => {}
            }
            self.advance();
        }
        let text = self.text_since(mark).to_owned();
        if text.is_empty() || depth > 0 { Err(self.unexpected("a TTL expression")) } else { Ok(text) }
    }

    pub(super) fn drop(&mut self) -> Result<Statement> {
        self.advance();
        if self.keywords("DATABASE") {
            let if_exists = self.keywords("IF EXISTS");
            return Ok(Statement::DropDatabase { name: self.identifier()?, if_exists });
        }
        self.expect_keywords("TABLE")?;
        let if_exists = self.keywords("IF EXISTS");
        let name = self.table_name()?;
        self.refuse_on_cluster()?;
        let _tables_go_at_once_anyway = self.keywords("NO DELAY") || self.keywords("SYNC");
        Ok(Statement::DropTable { name, if_exists })
    }

    pub(super) fn truncate(&mut self) -> Result<Statement> {
        self.advance();
        self.keywords("TABLE");
        let if_exists = self.keywords("IF EXISTS");
        let name = self.table_name()?;
        self.refuse_on_cluster()?;
        Ok(Statement::TruncateTable { name, if_exists })
    }

    pub(super) fn rename(&mut self) -> Result<Statement> {
        self.expect_keywords("RENAME TABLE")?;
        let pairs = self.list(|p| {
            let from = p.table_name()?;
            p.expect_keywords("TO")?;
            Ok((from, p.table_name()?))
        })?;
        self.refuse_on_cluster()?;
        Ok(Statement::RenameTable(pairs))
    }

    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.expect_keywords("ALTER TABLE")?;
        let name = self.table_name()?;
        self.refuse_on_cluster()?;
        if let Some((action, partition)) = self.partition_action()? {
            return Ok(Statement::AlterPartition { name, action, partition });
        }
        let actions = self.list(Self::alter_action)?;
        Ok(Statement::AlterTable { name, actions })
    }

    /// An action on a partition; `None` when another one stands here.
    fn partition_action(&mut self) -> Result<Option<(PartitionAction, PartitionName)>> {
        let word = |p: &mut Self, words: &str| p.keywords(words);
        let (verb, detached) = if word(self, "DROP PARTITION") {
            ("DROP", false)
        } else if word(self, "DETACH PARTITION") {
            ("DETACH", false)
        } else if word(self, "ATTACH PARTITION") {
            ("ATTACH", false)
        } else if word(self, "ATTACH DETACHED PARTITION") {
            ("ATTACH", true)
        } else if word(self, "REPLACE PARTITION") {
            ("REPLACE", false)
        } else if word(self, "MOVE PARTITION") {
            ("MOVE", false)
        } else {
            return Ok(None);
        };
        let partition = if self.keywords("ID") {
            PartitionName::Id(self.text_literal()?)
        } else {
            PartitionName::Value(self.expression()?)
        };
        let action = match verb {
            "DROP" => PartitionAction::Drop,
            "DETACH" => PartitionAction::Detach,
            "MOVE" => {
                self.expect_keywords("TO TABLE")?;
                PartitionAction::MoveTo(self.table_name()?)
            }
            "REPLACE" => {
                self.expect_keywords("FROM")?;
                PartitionAction::ReplaceFrom(self.table_name()?)
            }
            _ if self.keywords("FROM") => {
                let from = self.table_name()?;
                if detached {
                    PartitionAction::AttachDetachedFrom(from)
                } else {
                    PartitionAction::AttachFrom(from)
                }
            }
            _ if detached => return Err(self.unexpected("FROM")),
            _ => PartitionAction::Attach,
        };
        Ok(Some((action, partition)))
    }

    fn alter_action(&mut self) -> Result<AlterAction> {
        if self.keywords("ADD COLUMN") {
            let if_not_exists = self.keywords("IF NOT EXISTS");
            let column = self.column()?;
            let place = self.place()?.unwrap_or(Place::Last);
            return Ok(AlterAction::AddColumn { column, if_not_exists, place });
        }
        if self.keywords("DROP COLUMN") {
            let if_exists = self.keywords("IF EXISTS");
            return Ok(AlterAction::DropColumn { name: self.identifier()?, if_exists });
        }
        if self.keywords("RENAME COLUMN") {
            let if_exists = self.keywords("IF EXISTS");
            let from = self.identifier()?;
            self.expect_keywords("TO")?;
            return Ok(AlterAction::RenameColumn { from, to: self.identifier()?, if_exists });
        }
        if self.keywords("MODIFY COLUMN") {
            let if_exists = self.keywords("IF EXISTS");
            let column = self.column()?;
            let place = self.place()?;
            return Ok(AlterAction::ModifyColumn { column, if_exists, place });
        }
        if self.keywords("COMMENT COLUMN") {
            let if_exists = self.keywords("IF EXISTS");
            let name = self.identifier()?;
            return Ok(AlterAction::CommentColumn { name, comment: self.text_literal()?, if_exists });
        }
        if self.keywords("MODIFY SETTING") {
            return Ok(AlterAction::ModifySettings(self.settings()?));
        }
        let known = [
            "ADD", "DROP", "MODIFY", "ATTACH", "DETACH", "REPLACE", "MOVE", "FREEZE", "DELETE", "UPDATE",
            "CLEAR",
        ];
        if known.iter().any(|word| self.is_keyword(0, word)) {
            return Err(exception!(NOT_IMPLEMENTED, "this ALTER TABLE action is not known to the double"));
        }
        Err(self.unexpected("an ALTER TABLE action"))
    }

    fn place(&mut self) -> Result<Option<Place>> {
        if self.keywords("FIRST") {
            return Ok(Some(Place::First));
        }
        if self.keywords("AFTER") {
            return Ok(Some(Place::After(self.identifier()?)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::ast::{AlterAction, DefaultKind, Place, Statement};
    use crate::sql::parse_statement;

    #[test]
    fn every_clause_of_create_table() {
        let sql = "CREATE TABLE IF NOT EXISTS app.`or ders` (
            id UInt64, `from` Nullable(String) DEFAULT 'x' COMMENT 'it''s', d Date NOT NULL, big BIGINT UNSIGNED NULL,
            m Decimal(18, 4) MATERIALIZED id * 2 CODEC(ZSTD(1)), al ALIAS id + 1,
            INDEX ix id TYPE minmax GRANULARITY 3)
            ENGINE = CnchMergeTree(ver) PARTITION BY (d, toYYYYMM(d)) ORDER BY tuple() PRIMARY KEY id
            UNIQUE KEY id, d CLUSTER BY EXPRESSION cityHash64(id) % 4 INTO 4 BUCKETS SPLIT_NUMBER 8 WITH_RANGE
            SAMPLE BY id TTL d + toIntervalDay(3) SETTINGS partition_level_unique_keys = 0, cnch_vw_write = 'vw'
            COMMENT 'all';";
        let Statement::CreateTable(table) = parse_statement(sql).unwrap() else { panic!("not a table") };
        assert_eq!(table.name.table, "or ders");
        assert_eq!(table.columns.len(), 6);
        assert_eq!(table.columns[1].comment, "it's");
        assert_eq!(table.columns[3].type_text.as_deref(), Some("BIGINT UNSIGNED"));
        assert_eq!(table.columns[3].nullable, Some(true));
        assert_eq!(table.columns[4].default.as_ref().unwrap().0, DefaultKind::Materialized);
        assert_eq!(table.columns[4].codec, "CODEC(ZSTD(1))");
        assert_eq!(table.columns[5].type_text, None);
        assert_eq!(table.indexes, ["INDEX ix id TYPE minmax GRANULARITY 3"]);
        assert_eq!(table.unique_key.as_ref().unwrap().elements().len(), 2);
        assert!(table.order_by.as_ref().unwrap().elements().is_empty());
        let cluster = table.cluster_by.as_ref().unwrap();
        assert_eq!(
            (cluster.expression, cluster.buckets, cluster.tail.as_str()),
            (true, 4, "SPLIT_NUMBER 8 WITH_RANGE")
        );
        assert_eq!(table.ttl.as_deref(), Some("d + toIntervalDay(3)"));
        assert_eq!(table.settings.len(), 2);
        assert_eq!(table.comment, "all");
    }

    #[test]
    fn alter_and_refusals() {
        let sql = "ALTER TABLE t ADD COLUMN IF NOT EXISTS x Int32 DEFAULT 5 AFTER y, DROP COLUMN z, RENAME COLUMN a TO b";
        let Statement::AlterTable { actions, .. } = parse_statement(sql).unwrap() else {
            panic!("not an alter")
        };
        let AlterAction::AddColumn { place, .. } = &actions[0] else { panic!("not an add") };
        assert_eq!(*place, Place::After("y".into()));
        for (sql, code) in [
            ("ALTER TABLE t FREEZE PARTITION 1", 48),
            ("ALTER TABLE t REPLACE PARTITION 1", 62),
            ("ALTER TABLE t FLY", 62),
            ("CREATE TABLE t (x Int8 TTL d)", 48),
            ("CREATE TABLE t ON CLUSTER c (x Int8)", 48),
            ("CREATE TABLE t (x Int8) ENGINE Memory AS SELECT 1", 62),
            ("CREATE TABLE t (x Decimal(1)", 62),
            ("CREATE VIEW v AS SELECT 1", 48),
            ("CREATE DATABASE d ENGINE = MySQL", 56),
            ("DROP VIEW v", 62),
        ] {
            assert_eq!(parse_statement(sql).unwrap_err().code(), code, "{sql}");
        }
    }
}
