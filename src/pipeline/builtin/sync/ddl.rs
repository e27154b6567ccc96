//! What a statement in the binlog means for replication.
//!
//! Only the head of a statement is read: its kind and the tables that it names there. Accounts,
//! administration, views, triggers and stored programs are left out, as DM leaves them out: the
//! target gets their effects as rows.

use crate::mysql::owner::OWNER_TABLE;

/// What to do with a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing: it concerns nothing that is replicated.
    Nothing,
    /// Execute it on the target.
    Execute(Definition),
    /// It cannot be replicated exactly; says why.
    Refuse(&'static str),
}

/// A table as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) schema: String,
    pub(super) table: String,
}

/// What a statement that is executed does to tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// DROP TABLE: afterwards none of them is there.
    Drop,
    /// RENAME TABLE: names may come round in a circle.
    Rename,
    /// Anything else.
    Change,
}

/// A statement that defines tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    /// What it does.
    pub(super) action: Action,
    /// The tables that it names.
    pub(super) tables: Vec<Name>,
}

/// Classifies a statement that was executed with `schema` in use, when `schemas` are replicated.
pub(super) fn meaning(sql: &str, schema: &str, schemas: &[String]) -> Meaning {
    let tokens = tokens(sql);
    let mut words = Words { tokens: &tokens, schema };
    let replicated = |schema: &str| schemas.iter().any(|known| known == schema);
    let verb = words.verb();
    match verb.as_str() {
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH"
            if replicated(schema) || words.qualify(replicated) =>
        {
            Meaning::Refuse("it is a statement where rows are due: binlog_format must be ROW")
        }
        "CREATE" | "ALTER" | "DROP" | "TRUNCATE" | "RENAME" => {
            words.definition(&verb, sql, replicated)
        }
        _ => Meaning::Nothing,
    }
}

struct Words<'a> {
    tokens: &'a [Token],
    schema: &'a str,
}

impl Words<'_> {
    /// The word that tells what the statement is, behind MariaDB's `SET STATEMENT … FOR`: a target of
    /// another flavour refuses that prefix, and so the statement, by itself.
    fn verb(&mut self) -> String {
        if let [set, statement, rest @ ..] = self.tokens
            && set.is("SET")
            && statement.is("STATEMENT")
            && let Some(end) = rest.iter().position(|token| token.is("FOR"))
        {
            self.tokens = &rest[end + 1..];
        }
        self.next_word()
    }

    fn next_word(&mut self) -> String {
        match self.tokens.split_first() {
            Some((Token::Word(word), rest)) => {
                self.tokens = rest;
                word.to_ascii_uppercase()
            }
            _ => String::new(),
        }
    }

    /// Whether something of a replicated schema is named with its schema.
    fn qualify(&self, replicated: impl Fn(&str) -> bool) -> bool {
        self.tokens.windows(2).any(|pair| match pair {
            [Token::Word(name) | Token::Quoted(name), Token::Symbol('.')] => replicated(name),
            _ => false,
        })
    }

    fn skip(&mut self, words: &[&str]) {
        while let Some((first, rest)) = self.tokens.split_first()
            && words.iter().any(|word| first.is(word))
        {
            self.tokens = rest;
        }
    }

    fn take_symbol(&mut self, symbol: char) -> bool {
        let found = self.tokens.first() == Some(&Token::Symbol(symbol));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn identifier(&mut self) -> Option<String> {
        let (first, rest) = self.tokens.split_first()?;
        match first {
            Token::Word(name) | Token::Quoted(name) => {
                self.tokens = rest;
                Some(name.clone())
            }
            Token::Symbol(_) => None,
        }
    }

    /// `table` or `schema.table`.
    fn name(&mut self) -> Option<Name> {
        let first = self.identifier()?;
        if self.take_symbol('.') {
            return Some(Name { schema: first, table: self.identifier()? });
        }
        Some(Name { schema: self.schema.to_owned(), table: first })
    }

    /// Names with a comma between, and with TO for RENAME.
    fn names(&mut self) -> Vec<Name> {
        let mut names = Vec::new();
        while let Some(name) = self.name() {
            names.push(name);
            if self.tokens.first().is_some_and(|token| token.is("TO")) {
                self.tokens = &self.tokens[1..];
            } else if !self.take_symbol(',') {
                break;
            }
        }
        names
    }

    /// Why the clauses of an ALTER TABLE reach beyond its table, if they do.
    fn leaves(&mut self, replicated: impl Fn(&str) -> bool) -> Option<&'static str> {
        if self.tokens.iter().any(|token| token.is("EXCHANGE")) {
            return Some("an exchange of a partition with another table is not replicated yet");
        }
        while let Some(at) = self.tokens.iter().position(|token| token.is("RENAME")) {
            self.tokens = &self.tokens[at + 1..];
            let of_part = self
                .tokens
                .first()
                .is_some_and(|t| ["COLUMN", "INDEX", "KEY"].iter().any(|word| t.is(word)));
            if of_part {
                continue;
            }
            self.skip(&["TO", "AS"]);
            if self.name().is_some_and(|name| !replicated(&name.schema)) {
                return Some("it renames a table into a schema that is not replicated");
            }
        }
        None
    }

    fn definition(&mut self, verb: &str, sql: &str, replicated: impl Fn(&str) -> bool) -> Meaning {
        if verb == "TRUNCATE" {
            self.skip(&["TABLE"]);
            return of_tables(Action::Change, self.names(), replicated);
        }
        self.skip(&[
            "OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL",
            "EXTERNAL", "VECTOR",
        ]);
        match self.next_word().as_str() {
            "TABLE" | "TABLES" => {
                self.skip(&["IF", "NOT", "EXISTS"]);
                let names = self.names();
                if verb == "ALTER"
                    && names.iter().any(|n| replicated(&n.schema))
                    && let Some(why) = self.leaves(&replicated)
                {
                    return Meaning::Refuse(why);
                }
                let tail = sql.trim_end().to_ascii_uppercase();
                if tail.ends_with("START TRANSACTION")
                    && names.iter().any(|n| replicated(&n.schema))
                {
                    return Meaning::Refuse("CREATE TABLE … SELECT is not replicated yet");
                }
                let action = match verb {
                    "DROP" => Action::Drop,
                    "RENAME" => Action::Rename,
                    _ => Action::Change,
                };
                of_tables(action, names, replicated)
            }
            "INDEX" => {
                self.skip(&["IF", "NOT", "EXISTS"]);
                let Some(on) = self.tokens.iter().position(|token| token.is("ON")) else {
                    return Meaning::Nothing;
                };
                self.tokens = &self.tokens[on + 1..];
                of_tables(Action::Change, self.name().into_iter().collect(), replicated)
            }
            "DATABASE" | "SCHEMA" => {
                self.skip(&["IF", "NOT", "EXISTS"]);
                let schema = self.identifier().unwrap_or_else(|| self.schema.to_owned());
                match verb {
                    _ if !replicated(&schema) => Meaning::Nothing,
                    "DROP" => Meaning::Refuse("a replicated schema is dropped as a whole"),
                    // The target's schema was made with its owner table before.
                    "CREATE" => Meaning::Nothing,
                    // Executed twice it is as executed once.
                    _ => {
                        Meaning::Execute(Definition { action: Action::Change, tables: Vec::new() })
                    }
                }
            }
            _ => Meaning::Nothing,
        }
    }
}

fn of_tables(action: Action, names: Vec<Name>, replicated: impl Fn(&str) -> bool) -> Meaning {
    let ours = |name: &Name| replicated(&name.schema);
    let relevant = names.iter().filter(|name| ours(name) && name.table != OWNER_TABLE).count();
    if relevant == 0 {
        return Meaning::Nothing;
    }
    if relevant < names.len() {
        return Meaning::Refuse("it names replicated tables together with others");
    }
    Meaning::Execute(Definition { action, tables: names })
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A word or a number.
    Word(String),
    /// A name in backquotes or double quotes, or a string.
    Quoted(String),
    /// Anything else.
    Symbol(char),
}

impl Token {
    /// Whether it is this word, whatever its case.
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own.eq_ignore_ascii_case(word))
    }
}

/// The first tokens of a statement; comments are left out, the content of `/*! … */` is kept.
fn tokens(sql: &str) -> Vec<Token> {
    const MOST: usize = 2_000;
    let mut tokens = Vec::new();
    let mut chars = sql.chars().peekable();
    while let Some(first) = chars.next() {
        if tokens.len() >= MOST {
            break;
        }
        match first {
            c if c.is_whitespace() => {}
            '`' | '"' | '\'' => {
                let mut name = String::new();
                while let Some(c) = chars.next() {
                    if c == first {
                        if chars.next_if_eq(&first).is_none() {
                            break;
                        }
                    } else if c == '\\' && first != '`' {
                        name.extend(chars.next());
                        continue;
                    }
                    name.push(c);
                }
                tokens.push(Token::Quoted(name));
            }
            '#' => while chars.next().is_some_and(|c| c != '\n') {},
            '-' if chars.peek() == Some(&'-') => while chars.next().is_some_and(|c| c != '\n') {},
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                if chars.peek() == Some(&'!') || chars.peek() == Some(&'M') {
                    while chars.next_if(|c| matches!(c, '!' | 'M') || c.is_ascii_digit()).is_some()
                    {
                    }
                } else {
                    let mut last = ' ';
                    for c in chars.by_ref() {
                        if last == '*' && c == '/' {
                            break;
                        }
                        last = c;
                    }
                }
            }
            '*' if chars.peek() == Some(&'/') => {
                chars.next();
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '$') => {
                let mut word = String::from(c);
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
                {
                    word.push(c);
                }
                tokens.push(Token::Word(word));
            }
            c => tokens.push(Token::Symbol(c)),
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Meaning {
        meaning(sql, "bench", &["bench".to_owned()])
    }

    #[test]
    fn a_definition_names_its_tables() {
        for (sql, action, tables) in [
            ("DROP TABLE IF EXISTS `t`,bench.u", Action::Drop, &["t", "u"][..]),
            (
                "RENAME TABLE a TO c, b TO a, c TO b",
                Action::Rename,
                &["a", "c", "b", "a", "c", "b"],
            ),
            ("ALTER TABLE t ADD INDEX (v)", Action::Change, &["t"]),
            ("CREATE TABLE t LIKE u", Action::Change, &["t"]),
            ("DROP INDEX i ON t", Action::Change, &["t"]),
            ("TRUNCATE t", Action::Change, &["t"]),
            ("ALTER DATABASE bench CHARACTER SET latin1", Action::Change, &[]),
        ] {
            let name = |table: &&str| Name { schema: "bench".into(), table: (*table).into() };
            let tables = tables.iter().map(name).collect();
            assert_eq!(of(sql), Meaning::Execute(Definition { action, tables }), "{sql}");
        }
    }

    #[test]
    fn definitions_of_replicated_tables_are_executed() {
        for sql in [
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "create table if not exists `bench`.`t` (a int)",
            "/* by hand */ ALTER TABLE t ADD COLUMN c INT",
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME TO bench.u",
            "DROP TABLE IF EXISTS `t`,`u` /* generated by server */",
            "TRUNCATE t",
            "TRUNCATE TABLE bench.t",
            "RENAME TABLE t TO u, bench.v TO w",
            "CREATE UNIQUE INDEX i ON t (a)",
            "DROP INDEX `i` ON bench.t",
            "ALTER DATABASE bench CHARACTER SET utf8mb4",
            "CREATE OR REPLACE TABLE t (a INT)",
            "SET STATEMENT max_statement_time=0, sql_mode='FOR' FOR ALTER TABLE t ADD c INT",
        ] {
            assert!(matches!(of(sql), Meaning::Execute(_)), "{sql}");
        }
    }

    #[test]
    fn an_alter_that_reaches_beyond_its_table_is_refused() {
        for sql in [
            "ALTER TABLE t RENAME TO other.t",
            "ALTER TABLE bench.t ADD COLUMN c INT, rename `other`.`t`",
            "ALTER TABLE t RENAME INDEX i TO j, RENAME AS other.t",
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE other.x",
        ] {
            assert!(matches!(of(sql), Meaning::Refuse(_)), "{sql}");
        }
    }

    #[test]
    fn what_concerns_nobody_is_left_out() {
        for sql in [
            "CREATE TABLE other.t (id INT)",
            "DROP TABLE IF EXISTS _dmbench",
            "CREATE USER u",
            "GRANT ALL ON *.* TO u",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
            "CREATE TEMPORARY TABLE t (a INT)",
            "ANALYZE TABLE t",
            "FLUSH LOGS",
            "CREATE DATABASE bench",
            "DROP DATABASE other",
            "SET STATEMENT max_statement_time=0 FOR ANALYZE TABLE t",
            "SET STATEMENT",
            "",
        ] {
            assert_eq!(of(sql), Meaning::Nothing, "{sql}");
        }
        for sql in ["INSERT INTO t VALUES (1)", "UPDATE other.t SET a = 1"] {
            assert_eq!(meaning(sql, "other", &["bench".to_owned()]), Meaning::Nothing, "{sql}");
        }
    }

    #[test]
    fn what_cannot_be_replicated_exactly_is_refused() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "update t set a = 1",
            "set statement sort_buffer_size = 100000 for DELETE FROM t",
            "DROP DATABASE bench",
            "RENAME TABLE t TO other.t",
            "CREATE TABLE `t` (`a` int) START TRANSACTION",
        ] {
            assert!(matches!(of(sql), Meaning::Refuse(_)), "{sql}");
        }
    }

    /// The schema in use says nothing of a statement that names its tables in full.
    #[test]
    fn a_statement_from_elsewhere_is_refused_by_the_tables_it_names() {
        for sql in [
            "UPDATE bench.t SET a = 1",
            "insert into `bench`.`t` values (1)",
            "DELETE t FROM other.t JOIN bench.u USING (id)",
            "WITH c AS (SELECT 1) UPDATE bench.t SET a = 1",
        ] {
            let refused = meaning(sql, "", &["bench".to_owned()]);
            assert!(matches!(refused, Meaning::Refuse(_)), "{sql}");
        }
    }
}
