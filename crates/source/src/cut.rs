//! Cuts parts out of a file.

use provoke_model::{EnclosingPart, SourceParts};

/// Returns the file with only these of its pieces and everything else unchanged.
pub fn keep_only(text: &[u8], pieces: &SourceParts, is_kept: &dyn Fn(usize) -> bool) -> Vec<u8> {
    let mut removed: Vec<bool> = (0..pieces.pieces.len())
        .map(|part| !is_kept(part))
        .collect();
    let mut cuts = Vec::new();
    for EnclosingPart {
        pieces,
        span,
        instead,
    } in &pieces.shells
    {
        if let Some(inside) = removed.get_mut(pieces.clone())
            && inside.iter().all(|is_removed| *is_removed)
        {
            // The pieces in a removed shell are removed with it.
            inside.fill(false);
            cuts.push((span, instead));
        }
    }
    let removed_parts = pieces
        .pieces
        .iter()
        .zip(removed)
        .filter(|(_, is_removed)| *is_removed);
    cuts.extend(removed_parts.map(|(part, _)| (&part.span, &part.instead)));
    cuts.sort_by_key(|(span, _)| span.start);
    let mut output = Vec::with_capacity(text.len());
    let mut position = 0;
    for (span, instead) in cuts {
        output.extend_from_slice(text.get(position..span.start).unwrap_or_default());
        output.extend_from_slice(instead.as_bytes());
        position = span.end;
    }
    output.extend_from_slice(text.get(position..).unwrap_or_default());
    output
}
