//! Record formats: bytes to Arrow.
