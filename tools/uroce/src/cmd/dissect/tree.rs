//! The fields of a frame as an indented tree.

use std::io::{self, Write};

use uroce_analyze::{Field, Layer};

/// Prints all layers, but for that of the capture itself, whose facts the line above has.
pub(super) fn print(layers: &[Layer], out: &mut impl Write) -> io::Result<()> {
    for layer in layers.iter().filter(|layer| layer.name != "frame") {
        writeln!(out, "  {}", layer.title)?;
        layer.fields.iter().try_for_each(|field| print_field(field, 2, out))?;
    }
    Ok(())
}

fn print_field(field: &Field, depth: usize, out: &mut impl Write) -> io::Result<()> {
    let text = format!("{:indent$}{}", "", field.text, indent = depth * 2);
    writeln!(out, "{text:<60} {}", field.name)?;
    field.children.iter().try_for_each(|child| print_field(child, depth + 1, out))
}
