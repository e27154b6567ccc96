//! The SQL files of one chunk: INSERTs closed at `statement-size`, files at `chunk-filesize`.
//!
//! One buffer takes the text and is written out when it is full, so memory does not grow with rows.

use std::path::{Path, PathBuf};

use tokio::fs::File as DiskFile;
use tokio::io::AsyncWriteExt;

use crate::pipeline::builtin::dump::chunk::{Chunk, TablePlan};
use crate::pipeline::builtin::dump::layout::{FILES_PER_CHUNK, File, HEADER};
use crate::pipeline::builtin::dump::{Error, Limits};

/// Bytes of text gathered before they are written.
const BUFFER: usize = 256 * 1024;

/// See the module.
pub(super) struct Files<'a> {
    folder: &'a Path,
    plan: &'a TablePlan,
    limits: Limits,
    next_number: u64,
    last_number: u64,
    open: Option<(DiskFile, PathBuf)>,
    buffer: Vec<u8>,
    /// Bytes of the open file, buffered ones included.
    file_bytes: u64,
    /// Bytes of the open INSERT; 0 when none is open.
    statement_bytes: u64,
    row_began: usize,
    /// Files made.
    pub(super) files: u64,
    /// Bytes in files that are complete or written out.
    written: u64,
}

impl<'a> Files<'a> {
    pub(super) fn new(folder: &'a Path, chunk: &'a Chunk, limits: Limits) -> Files<'a> {
        let first = chunk.number * FILES_PER_CHUNK;
        Files {
            folder,
            plan: &chunk.plan,
            limits,
            next_number: first,
            last_number: first + FILES_PER_CHUNK - 1,
            open: None,
            buffer: Vec::with_capacity(BUFFER + BUFFER / 4),
            file_bytes: 0,
            statement_bytes: 0,
            row_began: 0,
            files: 0,
            written: 0,
        }
    }

    /// Opens what is not open and returns the buffer for the row's text.
    pub(super) async fn begin_row(&mut self) -> Result<&mut Vec<u8>, Error> {
        if self.open.is_none() {
            self.open_next().await?;
        }
        self.row_began = self.buffer.len();
        if self.statement_bytes == 0 {
            self.buffer.extend_from_slice(&self.plan.insert);
        } else {
            self.buffer.extend_from_slice(b",\n");
        }
        Ok(&mut self.buffer)
    }

    /// Ends a row; closes the INSERT and the file where they have their size. Returns the bytes
    /// written to disk since the last call that returned more than 0.
    pub(super) async fn end_row(&mut self) -> Result<u64, Error> {
        let row = (self.buffer.len() - self.row_began) as u64;
        self.statement_bytes += row;
        self.file_bytes += row;
        if self.statement_bytes >= self.limits.statement_bytes {
            self.end_statement();
            if self.file_bytes >= self.limits.file_bytes {
                self.close().await?;
            }
        }
        if self.buffer.len() >= BUFFER {
            self.write_out().await?;
        }
        Ok(std::mem::take(&mut self.written))
    }

    /// Ends the last INSERT and file. Returns bytes as [`Files::end_row`] does.
    pub(super) async fn finish(&mut self) -> Result<u64, Error> {
        self.close().await?;
        Ok(std::mem::take(&mut self.written))
    }

    fn end_statement(&mut self) {
        if self.statement_bytes > 0 {
            self.buffer.extend_from_slice(b";\n");
            self.file_bytes += 2;
            self.statement_bytes = 0;
        }
    }

    async fn open_next(&mut self) -> Result<(), Error> {
        let (schema, table) = (self.plan.schema.clone(), self.plan.table.clone());
        if self.next_number > self.last_number {
            let why = format!("a chunk needs more than {FILES_PER_CHUNK} files");
            return Err(Error::Table { table: format!("{schema}.{table}"), why });
        }
        let path = self.folder.join(File::Rows { schema, table, number: self.next_number }.name());
        let file = DiskFile::create(&path)
            .await
            .map_err(|source| Error::File { path: path.clone(), source })?;
        self.open = Some((file, path));
        self.next_number += 1;
        self.files += 1;
        self.buffer.extend_from_slice(HEADER.as_bytes());
        self.file_bytes = HEADER.len() as u64;
        Ok(())
    }

    async fn write_out(&mut self) -> Result<(), Error> {
        let Some((file, path)) = &mut self.open else { return Ok(()) };
        file.write_all(&self.buffer)
            .await
            .map_err(|source| Error::File { path: path.clone(), source })?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.end_statement();
        self.write_out().await?;
        if let Some((mut file, path)) = self.open.take() {
            file.flush().await.map_err(|source| Error::File { path, source })?;
        }
        Ok(())
    }
}
