//! What an account may do, from the answer to `SHOW GRANTS`.
//!
//! Servers show grants as statements; roles that are active in the session are included with their
//! own lines (MariaDB) or merged into the account's (MySQL). Only whole schemas and the whole server
//! matter here, since dmbench makes its tables itself: grants on tables, columns and routines are
//! read over.

use std::collections::BTreeSet;

/// Everything granted to an account, in the order shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grants {
    grants: Vec<Grant>,
    /// Roles granted to the account, active or not.
    pub(super) roles: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    is_revoke: bool,
    /// In upper case; `ALL PRIVILEGES` is one.
    privileges: BTreeSet<String>,
    /// `None` for the whole server.
    schema: Option<String>,
    /// The account or one of its roles, as shown.
    grantee: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(String),
    Symbol(char),
}

impl Grants {
    /// Reads the lines of `SHOW GRANTS`. What is no grant of privileges or roles is passed over.
    pub(super) fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Grants {
        let mut grants = Grants::default();
        for line in lines {
            grants.read_line(&tokens(line));
        }
        grants
    }

    fn read_line(&mut self, tokens: &[Token]) {
        let is_revoke = match tokens.first() {
            Some(Token::Word(word)) if word == "GRANT" => false,
            Some(Token::Word(word)) if word == "REVOKE" => true,
            _ => return,
        };
        let is_keyword = |token: &Token, words: &[&str]| matches!(token, Token::Word(word) if words.contains(&word.as_str()));
        let Some(end) = tokens.iter().position(|token| is_keyword(token, &["ON", "TO", "FROM"]))
        else {
            return;
        };
        let (what, rest) = (&tokens[1..end], &tokens[end + 1..]);
        if !is_keyword(&tokens[end], &["ON"]) {
            self.roles.extend(names(what));
            return;
        }
        let (Some(schema), Some(to)) =
            (schema_of(rest), rest.iter().position(|token| is_keyword(token, &["TO", "FROM"])))
        else {
            return;
        };
        let grantee = match rest.get(to + 1) {
            Some(Token::Word(name) | Token::Quoted(name)) => name.clone(),
            _ => String::new(),
        };
        self.grants.push(Grant { is_revoke, privileges: privileges(what), schema, grantee });
    }

    /// Whether a privilege is held on the whole server.
    pub(super) fn on_server(&self, privilege: &str) -> bool {
        self.grants
            .iter()
            .any(|grant| !grant.is_revoke && grant.schema.is_none() && grant.holds(privilege))
    }

    /// Whether a privilege is held on a schema. `is_literal` says that names of schemas in grants are
    /// no patterns (MySQL with `partial_revokes`).
    pub(super) fn on_schema(&self, privilege: &str, schema: &str, is_literal: bool) -> bool {
        let revoked = self.grants.iter().any(|grant| {
            grant.is_revoke && grant.schema.as_deref() == Some(schema) && grant.holds(privilege)
        });
        if self.on_server(privilege) && !revoked {
            return true;
        }
        // Of several patterns that fit only the most specific counts: an account with INSERT on
        // `db%` and SELECT on `db_x` may not insert into db_x. Roles are looked up apart. Which of
        // two equally specific ones a server takes is not told; then either will do here.
        let grantees: BTreeSet<&str> =
            self.grants.iter().map(|grant| grant.grantee.as_str()).collect();
        grantees.into_iter().any(|grantee| {
            let fitting: Vec<(usize, &Grant)> = self
                .grants
                .iter()
                .filter(|grant| !grant.is_revoke && grant.grantee == grantee)
                .filter_map(|grant| Some((grant.schema.as_deref()?, grant)))
                .filter(|(pattern, _)| match is_literal {
                    true => *pattern == schema,
                    false => fits(pattern, schema),
                })
                .map(|(pattern, grant)| (wildcard(pattern), grant))
                .collect();
            let best = fitting.iter().map(|(place, _)| *place).max();
            fitting.iter().any(|(place, grant)| Some(*place) == best && grant.holds(privilege))
        })
    }
}

impl Grant {
    fn holds(&self, privilege: &str) -> bool {
        self.privileges.contains(privilege)
            || self.privileges.contains("ALL PRIVILEGES")
            || self.privileges.contains("ALL")
    }
}

fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '`' | '"' | '\'' => {
                let mut text = String::new();
                while let Some(inner) = chars.next() {
                    if inner != c {
                        text.push(inner);
                    } else if chars.next_if_eq(&c).is_some() {
                        text.push(c);
                    } else {
                        break;
                    }
                }
                tokens.push(Token::Quoted(text));
            }
            c if c.is_alphanumeric() || c == '_' || c == '%' || c == '$' => {
                let mut word = String::from(c);
                while let Some(more) =
                    chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '%' | '$' | '\\'))
                {
                    word.push(more);
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Symbol(c)),
        }
    }
    tokens
}

/// Role names of `r1`@`%`,`r2`@`%`.
fn names(tokens: &[Token]) -> Vec<String> {
    tokens
        .split(|token| *token == Token::Symbol(','))
        .filter_map(|role| match role.first()? {
            Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
            Token::Symbol(_) => None,
        })
        .collect()
}

/// The schema of `*.*` (`None`) or `db`.*; no schema at all for tables, routines and proxies.
fn schema_of(tokens: &[Token]) -> Option<Option<String>> {
    const STAR: Token = Token::Symbol('*');
    const DOT: Token = Token::Symbol('.');
    match tokens {
        [first, dot, second, ..] if *first == STAR && *dot == DOT && *second == STAR => Some(None),
        [Token::Word(schema) | Token::Quoted(schema), dot, star, ..]
            if *dot == DOT && *star == STAR =>
        {
            Some(Some(schema.clone()))
        }
        _ => None,
    }
}

/// Names of privileges; those of some columns only are left out.
fn privileges(tokens: &[Token]) -> BTreeSet<String> {
    let (mut all, mut words, mut depth, mut has_columns) = (BTreeSet::new(), Vec::new(), 0, false);
    for token in tokens.iter().chain([&Token::Symbol(',')]) {
        match token {
            Token::Symbol('(') => (depth, has_columns) = (depth + 1, true),
            Token::Symbol(')') => depth -= 1,
            Token::Symbol(',') if depth == 0 => {
                if !has_columns && !words.is_empty() {
                    all.insert(words.join(" "));
                }
                words.clear();
                has_columns = false;
            }
            Token::Word(word) if depth == 0 => words.push(word.to_uppercase()),
            _ => {}
        }
    }
    all
}

/// Where the first wildcard of a pattern stands; a pattern without one is the most specific.
fn wildcard(pattern: &str) -> usize {
    let mut chars = pattern.chars().enumerate();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '%' | '_' => return at,
            _ => {}
        }
    }
    usize::MAX
}

/// Whether a name fits a pattern of LIKE.
fn fits(pattern: &str, name: &str) -> bool {
    let mut pattern_chars = pattern.chars();
    match pattern_chars.next() {
        None => name.is_empty(),
        Some('%') => {
            let rest = pattern_chars.as_str();
            name.char_indices().any(|(at, _)| fits(rest, &name[at..])) || fits(rest, "")
        }
        Some(c) => {
            let mut name_chars = name.chars();
            let Some(first) = name_chars.next() else { return false };
            let wanted = match c {
                '_' => None,
                '\\' => Some(pattern_chars.next().unwrap_or('\\')),
                c => Some(c),
            };
            wanted.is_none_or(|wanted| wanted == first)
                && fits(pattern_chars.as_str(), name_chars.as_str())
        }
    }
}

/// A schema's name as a pattern that fits it alone.
pub(super) fn escaped(schema: &str) -> String {
    schema.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Answers of MySQL 9.7.4 to an account with two roles, of which one is active.
    const MYSQL: &str = r"GRANT RELOAD, PROCESS, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `a`@`%`
GRANT BACKUP_ADMIN,FLUSH_TABLES ON *.* TO `a`@`%`
GRANT SELECT ON `db%`.* TO `a`@`%`
GRANT SELECT, INSERT ON `db\_x`.* TO `a`@`%`
GRANT EXECUTE ON `db_x`.* TO `a`@`%`
GRANT SELECT (`a`), UPDATE (`b`) ON `db_x`.`t` TO `a`@`%`
GRANT DELETE ON `dbyx`.`t` TO `a`@`%` WITH GRANT OPTION
GRANT `r1`@`%`,`r2`@`%` TO `a`@`%`";

    /// The same of MariaDB 10.11.19; role r1 is active.
    const MARIADB: &str = r"GRANT `r2` TO `a`@`%`
GRANT `r1` TO `a`@`%`
GRANT RELOAD, PROCESS, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*7B9EBEED26AA52ED10C0F549FA863F13C39E0209' WITH MAX_USER_CONNECTIONS 3
GRANT SELECT, INSERT ON `db\_x`.* TO `a`@`%`
GRANT EXECUTE ON `db_x`.* TO `a`@`%`
GRANT SELECT ON `db%`.* TO `a`@`%`
GRANT DELETE ON `dbyx`.`t` TO `a`@`%` WITH GRANT OPTION
GRANT SELECT (`a`), UPDATE (`b`) ON `db_x`.`t` TO `a`@`%`
GRANT LOCK TABLES ON *.* TO `r1`
GRANT DELETE ON `dbz`.* TO `r1`
SET DEFAULT ROLE `r1` FOR `a`@`%`";

    #[test]
    fn both_flavours_and_both_quotes_are_read() {
        for (text, monitor) in [(MYSQL, "REPLICATION CLIENT"), (MARIADB, "BINLOG MONITOR")] {
            for text in [text.to_owned(), text.replace('`', "\"")] {
                let grants = Grants::parse(text.lines());
                for held in ["RELOAD", "LOCK TABLES", "REPLICATION SLAVE", monitor] {
                    assert!(grants.on_server(held), "{held} in {text}");
                }
                assert!(!grants.on_server("SELECT") && !grants.on_server("SHUTDOWN"));
                let mut roles = grants.roles.clone();
                roles.sort();
                assert_eq!(roles, ["r1", "r2"]);
                assert!(grants.on_schema("LOCK TABLES", "any", false), "of the whole server");
                assert!(grants.on_schema("SELECT", "db_x", false));
                assert!(!grants.on_schema("UPDATE", "db_x", false), "of one column only");
                assert!(!grants.on_schema("DELETE", "dbyx", false), "of one table only");
            }
        }
        assert!(Grants::parse(MYSQL.lines()).on_server("BACKUP_ADMIN"));
    }

    #[test]
    fn only_the_most_specific_pattern_counts_and_roles_count_apart() {
        let grants = Grants::parse(MARIADB.lines());
        assert!(grants.on_schema("INSERT", "db_x", false));
        assert!(!grants.on_schema("INSERT", "dbyx", false), "db\\_x is no pattern for dbyx");
        assert!(grants.on_schema("EXECUTE", "dbyx", false), "db_x is one");
        assert!(!grants.on_schema("EXECUTE", "db_x", false), "db\\_x is more specific");
        assert!(grants.on_schema("SELECT", "dbyx", false), "db% is as specific");
        assert!(grants.on_schema("DELETE", "dbz", false), "by the role");
        assert!(grants.on_schema("SELECT", "dbz", false));
        assert!(!grants.on_schema("SELECT", "other", false));
        assert!(!grants.on_schema("SELECT", "dbz", true), "no patterns with partial_revokes");
        assert!(grants.on_schema("EXECUTE", "db_x", true));
    }

    #[test]
    fn all_is_everything_and_a_partial_revoke_takes_a_schema_out() {
        let all = Grants::parse([
            "GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION",
            "GRANT PROXY ON ``@`%` TO `root`@`127.0.0.1` WITH GRANT OPTION",
        ]);
        assert!(all.on_server("RELOAD") && all.on_schema("SELECT", "x", false));
        assert!(all.roles.is_empty());
        let some = Grants::parse([
            "GRANT SELECT, INSERT ON *.* TO `pr`@`%`",
            "REVOKE INSERT ON `db_x`.* FROM `pr`@`%`",
        ]);
        assert!(some.on_schema("SELECT", "db_x", true) && some.on_schema("INSERT", "o", true));
        assert!(!some.on_schema("INSERT", "db_x", true));
        let none = Grants::parse(["GRANT USAGE ON *.* TO `a`@`%`", "nonsense", ""]);
        assert!(!none.on_server("SELECT") && !none.on_schema("SELECT", "x", false));
        let tidb = Grants::parse(["GRANT Select,Insert ON test.* TO 'u'@'%'"]);
        assert!(tidb.on_schema("INSERT", "test", false) && !tidb.on_server("INSERT"));
    }

    proptest! {
        #[test]
        fn what_is_granted_on_a_schema_is_held_there_alone(
            schema in "[a-zA-Z_%$`\" .é\\\\]{1,12}",
            other in "[a-zA-Z_%$`\" .é\\\\]{1,12}",
            held in proptest::sample::subsequence(vec!["SELECT", "CREATE VIEW", "DROP", "INDEX"], 1..4),
            quote in proptest::sample::select(vec!['`', '"']),
        ) {
            let doubled = format!("{quote}{quote}");
            let name = escaped(&schema).replace(quote, &doubled);
            let line = format!("GRANT {} ON {quote}{name}{quote}.* TO {quote}u{quote}@{quote}%{quote}", held.join(", "));
            let grants = Grants::parse([line.as_str()]);
            for privilege in ["SELECT", "CREATE VIEW", "DROP", "INDEX"] {
                prop_assert_eq!(grants.on_schema(privilege, &schema, false), held.contains(&privilege));
                prop_assert!(!grants.on_server(privilege));
                prop_assert!(other == schema || !grants.on_schema(privilege, &other, false));
            }
        }

        #[test]
        fn no_answer_ends_the_reading(lines in proptest::collection::vec(any::<String>(), 0..5)) {
            let _ = Grants::parse(lines.iter().map(String::as_str));
        }
    }
}
