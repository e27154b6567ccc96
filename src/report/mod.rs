//! How results look: one document, several renderers.
