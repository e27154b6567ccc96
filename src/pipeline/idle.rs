//! `idle`: a pipeline that does nothing.
