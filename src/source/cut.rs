//! Cuts parts out of a file.

use crate::model::{EnclosingPart, SourceParts};

/// Returns the file with only these of its pieces and everything else unchanged.
pub fn keep_only(text: &[u8], pieces: &SourceParts, kept: &dyn Fn(usize) -> bool) -> Vec<u8> {
    let mut gone: Vec<bool> = (0..pieces.pieces.len()).map(|piece| !kept(piece)).collect();
    let mut cuts = Vec::new();
    for EnclosingPart {
        pieces,
        span,
        instead,
    } in &pieces.shells
    {
        if let Some(inside) = gone.get_mut(pieces.clone())
            && inside.iter().all(|gone| *gone)
        {
            // The pieces in a removed shell are removed with it.
            inside.fill(false);
            cuts.push((span, instead));
        }
    }
    let gone = pieces.pieces.iter().zip(gone).filter(|(_, gone)| *gone);
    cuts.extend(gone.map(|(piece, _)| (&piece.span, &piece.instead)));
    cuts.sort_by_key(|(span, _)| span.start);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for (span, instead) in cuts {
        out.extend_from_slice(text.get(at..span.start).unwrap_or_default());
        out.extend_from_slice(instead.as_bytes());
        at = span.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}
